# CPU seconds of the long tests in gcc's build, about: CTest starts the longest first, so that no core waits for one at the end.
foreach(entry
        random_mutants=38 compile_sample=30 matrix_sample=27 cli_names=25 random_programs=17 evaluate_references_medium=16
        test_emulate_programs=16 cli_maximum=15 demo=13 evaluate_references_hard=11 evaluate_references_easy=9
        test_tune_faults=8 waits_programs=8 cli_roles=7 cute=6 cute_by_model=6 test_reason_meaning=6 cli_bytes=6 allocations=5
        test_verify=5 example_programs=5 test_layout_shared=4 numpy_programs=4 evaluate_references_for_h200=4 cli_fences=4
        evaluate_two_at_once=4 evaluate_killed=4 think_answers_improving=4 think_http_whole_way=4 mcp=4 test_tune=3
        test_layout_registers=3 test_reason=3 test_evaluate_gpu=3 test_verify_programs=3 test_verify_cases=3 forms=3
        cli_verify=3 cli_select=3 cli_sketches=3 evaluate_rates=3 evaluate_stages=3 evaluate_levels_and_samples=3)
  string(REPLACE "=" ";" entry ${entry})
  list(GET entry 0 test)
  list(GET entry 1 cost)
  if(TEST ${test})
    set_tests_properties(${test} PROPERTIES COST ${cost})
  endif()
endforeach()
# A limit ends what hangs and decides nothing else: under load a machine takes many times as long as an idle one.
get_property(tests DIRECTORY PROPERTY TESTS)
set_tests_properties(${tests} PROPERTIES TIMEOUT 3600)
