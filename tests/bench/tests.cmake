# The reports of bench/peers.py, made from results that are written here: no GPU, no PyTorch.
add_test(NAME bench_results
         COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/results_test.py ${CMAKE_SOURCE_DIR}/bench)
set_tests_properties(bench_results PROPERTIES LABELS "cli;script")
add_test(NAME bench_serving
         COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/serving_test.py ${CMAKE_SOURCE_DIR}/bench)
set_tests_properties(bench_serving PROPERTIES LABELS "cli;script")
