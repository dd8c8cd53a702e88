# The reports of bench/peers.py, made from results that are written here: no GPU, no PyTorch.
add_test(NAME bench_results
         COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/results_test.py ${CMAKE_SOURCE_DIR}/bench)
set_tests_properties(bench_results PROPERTIES LABELS "cli;script")
# Calls of the library over a driver that runs nothing. A sanitizer's library would need a Python of its own.
set(bench_libraries)
if(NOT FLASHTL_SANITIZE)
  set(bench_libraries $<TARGET_FILE:flashtl_shared> $<TARGET_FILE:fake_cuda> $<TARGET_FILE:fake_nvrtc>)
endif()
add_test(NAME bench_serving
         COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/serving_test.py ${CMAKE_SOURCE_DIR}/bench
                 ${bench_libraries})
set_tests_properties(bench_serving PROPERTIES LABELS "cli;script")
add_test(NAME bench_sparse
         COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/sparse_test.py ${CMAKE_SOURCE_DIR}/bench
                 ${bench_libraries})
set_tests_properties(bench_sparse PROPERTIES LABELS "cli;script")
