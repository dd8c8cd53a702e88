# The structs of the headers and those of ctypes: who changes one sees it at once.
add_test(NAME python_structs COMMAND ${Python3_EXECUTABLE} ${CMAKE_SOURCE_DIR}/python/tests/test_structs.py)
set_tests_properties(python_structs PROPERTIES LABELS "unit;script")

# The package of Python, built and installed as `pip install .` does it, into an environment that knows nothing of the source.
# A sanitizer's library would need a Python of its own. 77: its packages, or PyTorch, cannot be had.
if(NOT FLASHTL_SANITIZE)
  set(python_run ${Python3_EXECUTABLE} ${CMAKE_SOURCE_DIR}/python/tests/run.py)
  set(python_work ${CMAKE_BINARY_DIR}/python-package)
  add_test(NAME python_wheel COMMAND ${python_run} wheel ${CMAKE_SOURCE_DIR} ${python_work})
  set_tests_properties(python_wheel PROPERTIES FIXTURES_SETUP python_package LABELS "python;slow" SKIP_RETURN_CODE 77
                       PROCESSORS 2)
  file(GLOB python_tests CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/python/tests/test_*.py)
  list(FILTER python_tests EXCLUDE REGEX "/test_(torch[a-z_]*|structs)\\.py$")
  foreach(test ${python_tests})
    get_filename_component(name ${test} NAME_WE)
    string(REPLACE "test_" "python_" title ${name})
    add_test(NAME ${title} COMMAND ${python_run} tests ${CMAKE_SOURCE_DIR} ${python_work} ${name})
    set_tests_properties(${title} PROPERTIES FIXTURES_REQUIRED python_package LABELS python SKIP_RETURN_CODE 77
                         ENVIRONMENT "FAKE_CUDA_LIBRARY=$<TARGET_FILE:fake_cuda>;FAKE_NVRTC_LIBRARY=$<TARGET_FILE:fake_nvrtc>")
  endforeach()
  file(GLOB torch_tests CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/python/tests/test_torch*.py)
  foreach(test ${torch_tests})
    get_filename_component(name ${test} NAME_WE)
    string(REPLACE "test_" "python_" title ${name})
    add_test(NAME ${title} COMMAND ${python_run} torch ${CMAKE_SOURCE_DIR} ${python_work} ${FLASHTL_PYTHON} ${name})
    set_tests_properties(${title} PROPERTIES FIXTURES_REQUIRED python_package LABELS python SKIP_RETURN_CODE 77
                         ENVIRONMENT "FAKE_CUDA_LIBRARY=$<TARGET_FILE:fake_cuda>;FAKE_NVRTC_LIBRARY=$<TARGET_FILE:fake_nvrtc>")
  endforeach()
endif()
