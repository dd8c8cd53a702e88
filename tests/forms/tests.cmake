# What the reasoner gives out is right by the rules, and what it refuses it refuses in terms of the
# sketch: forms.c. `tests/forms --all --compile` on folders of sketches does it for every GPU.
add_executable(forms ${CMAKE_CURRENT_LIST_DIR}/forms.c)
target_include_directories(forms PRIVATE ${CMAKE_CURRENT_SOURCE_DIR}/unit)
target_link_libraries(forms PRIVATE flashtl_all)
add_test(NAME forms COMMAND forms ${CMAKE_CURRENT_LIST_DIR} ${CMAKE_SOURCE_DIR}/examples)
set_tests_properties(forms PROPERTIES LABELS unit)

# What such kernels give, against NumPy.
add_test(NAME forms_values
         COMMAND ${FLASHTL_PYTHON} ${CMAKE_CURRENT_LIST_DIR}/values.py $<TARGET_FILE:flashtl>)
set_tests_properties(forms_values PROPERTIES LABELS "cli;slow" SKIP_RETURN_CODE 77
                     ENVIRONMENT "FLASHTL_CACHE=")
