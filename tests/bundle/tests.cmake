# flashtl build --bundle: its file of C in a program. Sanitized builds need their own run-time libraries.
if(NOT FLASHTL_SANITIZE)
  add_test(NAME bundle COMMAND ${CMAKE_CURRENT_LIST_DIR}/run.sh $<TARGET_FILE:flashtl> $<TARGET_FILE:flashtl_shared>
           $<TARGET_FILE:fake_cuda> ${CMAKE_SOURCE_DIR} ${CMAKE_C_COMPILER})
  set_tests_properties(bundle PROPERTIES LABELS cli)
endif()
