# The installed package, used by strangers. Sanitized builds need their own run-time libraries.
if(NOT FLASHTL_SANITIZE)
  add_test(NAME install COMMAND ${CMAKE_CURRENT_LIST_DIR}/run.sh ${CMAKE_BINARY_DIR} ${PROJECT_VERSION})
  set_tests_properties(install PROPERTIES LABELS install)
endif()
