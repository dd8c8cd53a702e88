# CPU seconds of the long tests in gcc's build as `make test` runs it, about: CTest starts the longest first, so that no core waits for one at the end.
foreach(entry
        python_wheel=23 documented=14 cli_noticed=12 decode_programs=11 serving_options=11 test_tune_faults=10 allocations=9
        cli_headers=9 by_clang=9 waits_skips_programs=9 bytes_of_warpgroups=8 cli_turned=8 cli_whole=8 sparse_programs=7
        cli_alike=6 cli_bytes=6 demo=6 random_cuda_mutants=6 random_cuda_waits=6 random_equal=6
        test_layout_registers=6 waits_programs=6 cli_more=5 cute_by_model=5 test_large_texts=5
        test_reason_meaning=5 cli_dtypes=4 cli_roles=4 compile_sample=4 evaluate_killed=4
        evaluate_levels_and_samples=4 evaluate_rates=4 evaluate_references_hard=4 example_programs=4
        matrix_sample=4 random_programs=4 random_sketch_mutants=4 test_emulate_programs=4 test_serving=4
        top_programs=4 cli_between=3 cli_fences=3 cli_json=3 cli_reach=3 cute=3 evaluate_references_easy=3
        evaluate_references_for_a100=3 evaluate_references_medium=3 evaluate_stored=3 evaluate_two_at_once=3
        far_rows=4 waits_lengths=4 maximum_moves=3 shipped=3 test_bench=3 test_layout_shared=3 test_tune=3
        test_verify=3 think_answers_cuda_with_half_a_rescale=3 think_answers_improving=3
        think_answers_improving_is_kept=3)
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
