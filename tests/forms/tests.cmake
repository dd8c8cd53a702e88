# What the reasoner gives out is right by the rules, and what it refuses it refuses in terms of the
# sketch: forms.c. `tests/forms --all --compile` on folders of sketches does it for every GPU.
add_executable(forms ${CMAKE_CURRENT_LIST_DIR}/forms.c $<TARGET_OBJECTS:flashtl_objects>)
target_link_libraries(forms PRIVATE flashtl_objects ${JANSSON_LIBRARY} m Threads::Threads
                      ${CMAKE_DL_LIBS})
add_test(NAME forms COMMAND forms ${CMAKE_CURRENT_LIST_DIR} ${CMAKE_SOURCE_DIR}/examples)
set_tests_properties(forms PROPERTIES LABELS unit TIMEOUT 300)
