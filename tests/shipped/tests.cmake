# Does the table of kernels that are known to be right agree with the texts of today? A form that it
# lacks is verified when it is first compiled; one that it has is believed.
add_executable(shipped ${CMAKE_CURRENT_LIST_DIR}/shipped.c)
target_link_libraries(shipped PRIVATE flashtl_all)
add_test(NAME shipped COMMAND shipped)
set_tests_properties(shipped PROPERTIES LABELS "golden;slow")
