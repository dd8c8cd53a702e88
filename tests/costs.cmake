# CPU seconds of the long tests in gcc's build as `make test` runs it, about: CTest starts the longest first, so that no core waits for one at the end.
foreach(entry
        python_wheel=60 test_emulate_programs=33 documented=27 cli_noticed=25 waits_skips_programs=17 test_tune_faults=12 demo=12
        allocations=11 cli_maximum=11 random_cuda_waits=11 cli_bytes=10 matrix_sample=10 random_cuda_mutants=10
        evaluate_references_hard=9 by_clang=9 evaluate_references_medium=8 compile_sample=8 random_equal=7
        waits_programs=7 evaluate_references_for_a100=7 random_sketch_mutants=7 evaluate_levels_and_samples=7
        evaluate_references_for_h200=6 think_answers_improving_is_kept=6 maximum_moves=6
        think_answers_cuda_with_half_a_rescale=6 test_verify=5 test_large_texts=5 test_bench=5 cli_roles=5
        forms_values=5 random_programs=5 test_verify_programs=5 think_answers_improving=5 evaluate_rates=5
        evaluate_references_easy=5 evaluate_two_at_once=5 think_answers_cuda_that_never_ends=4 cli_verify=4
        cute_by_model=4 random_mutants=4 test_reason_meaning=4 think_answers_cuda_writes_outside=4 cute=4
        example_programs=4 evaluate_stored=4 shipped=4 think_answers_cuda_keeps_results=4 cli_fences=4
        evaluate_killed=4 test_product_load=4 think_http_whole_way=4 test_layout_registers=4 test_tune=4
        think_answers_cuda_without_barrier=4 think_answers_steps_alone=4 cli_warpgroups=3 cli_select=3
        cli_sketches=3 mcp=3 think_answers_cuda_reads_poison=3 think_answers_a_model_that_never_mends=3
        test_layout_shared=3 evaluate_stages=3 think_answers_cuda_looks_at_the_clock=3 cli_crashes=3
        numpy_programs=3 cli_pipe=3 test_think_gpu=3 evaluate_memory=3 think_answers_code_by_a_model=3
        test_evaluate_gpu=3 think_answers_cuda_with_a_syntax_error=3 many_conditions_h200=3)
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
