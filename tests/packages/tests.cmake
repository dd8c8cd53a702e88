# The recipes of packages: one version everywhere, and Debian's built, unpacked and used. 77: its tools are not here.
add_test(NAME package_versions COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/versions.py ${CMAKE_SOURCE_DIR})
set_tests_properties(package_versions PROPERTIES LABELS "install;script")
if(NOT FLASHTL_SANITIZE)
  add_test(NAME package_debian COMMAND ${CMAKE_CURRENT_LIST_DIR}/debian.sh ${CMAKE_SOURCE_DIR} ${CMAKE_BINARY_DIR}/debian-package)
  set_tests_properties(package_debian PROPERTIES LABELS "install;slow" SKIP_RETURN_CODE 77 PROCESSORS 2)
endif()
