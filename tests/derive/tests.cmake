# Derived gradients against differences of their sketches, on the interpreter. 77: NumPy is not here.
add_test(NAME derive_differences
         COMMAND ${FLASHTL_PYTHON} ${CMAKE_CURRENT_LIST_DIR}/differences.py $<TARGET_FILE:flashtl>)
set_tests_properties(derive_differences PROPERTIES LABELS "cli;slow" SKIP_RETURN_CODE 77 ENVIRONMENT "FLASHTL_CACHE=")
# And in the fused form.
add_test(NAME derive_differences_fused
         COMMAND ${FLASHTL_PYTHON} ${CMAKE_CURRENT_LIST_DIR}/differences.py $<TARGET_FILE:flashtl> --fused)
set_tests_properties(derive_differences_fused PROPERTIES LABELS "cli;slow" SKIP_RETURN_CODE 77 ENVIRONMENT "FLASHTL_CACHE=")
# Those of random sketches, against differences in float64: some here, any number by `drawn.py`.
add_test(NAME derive_drawn
         COMMAND ${FLASHTL_PYTHON} ${CMAKE_CURRENT_LIST_DIR}/drawn.py $<TARGET_FILE:flashtl> --count 40 --jobs 2)
set_tests_properties(derive_drawn PROPERTIES LABELS "random;slow" SKIP_RETURN_CODE 77 ENVIRONMENT "FLASHTL_CACHE=")
# As kernels, a sample: what a right kernel errs by is known across the programs' kernels, sums of shared gradients among them.
add_test(NAME derive_verified
         COMMAND ${FLASHTL_PYTHON} ${CMAKE_CURRENT_LIST_DIR}/verified.py $<TARGET_FILE:flashtl> --every 37 --jobs 2)
set_tests_properties(derive_verified PROPERTIES LABELS "cli;slow" ENVIRONMENT "FLASHTL_CACHE=")
# And in the fused form. (Of ALiBi's parts of dK and dV on an H200 each warpgroup stores its rows: no barrier of its own keeps the others
# from the operands' bytes.)
foreach(case "causal:mha --with causal:t4,a100,h200" "softcap:gqa --with softcap:t4,a100,h200" "alibi:mha --with alibi:h200")
    string(REPLACE ":" ";" case "${case}")
    list(GET case 0 name)
    list(GET case 1 only)
    list(GET case 2 gpus)
    add_test(NAME derive_verified_fused_${name}
             COMMAND ${FLASHTL_PYTHON} ${CMAKE_CURRENT_LIST_DIR}/verified.py $<TARGET_FILE:flashtl> --fused --only ${only} --gpus ${gpus}
                     --on emulator --most 5e9) # with more queries than keys, too
    set_tests_properties(derive_verified_fused_${name} PROPERTIES LABELS "cli;slow" ENVIRONMENT "FLASHTL_CACHE=")
endforeach()
