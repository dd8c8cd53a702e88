# Random programs, judged by NumPy: fixed ones here, any number by `run.py`. 77: NumPy or a CUDA compiler is not here.
file(STRINGS ${CMAKE_CURRENT_LIST_DIR}/sample.txt random_seeds REGEX "^[0-9]")
string(REPLACE ";" "," random_seeds "${random_seeds}")
add_test(NAME random_programs
         COMMAND ${FLASHTL_PYTHON} ${CMAKE_CURRENT_LIST_DIR}/run.py --flashtl $<TARGET_FILE:flashtl> --only ${random_seeds}
                 --cases 2 --jobs 2 --failures ${CMAKE_CURRENT_BINARY_DIR}/random-failures)
set_tests_properties(random_programs PROPERTIES LABELS "random;slow" SKIP_RETURN_CODE 77)
# Numbers that overflow where no element exists.
add_test(NAME random_past_ends
         COMMAND ${FLASHTL_PYTHON} ${CMAKE_CURRENT_LIST_DIR}/run.py --flashtl $<TARGET_FILE:flashtl> --past-ends --only 16,50,57,67,111,147,149,152,165,198
                 --cases 1 --jobs 2 --on interpreter --failures ${CMAKE_CURRENT_BINARY_DIR}/random-failures)
set_tests_properties(random_past_ends PROPERTIES LABELS "random;slow" SKIP_RETURN_CODE 77)
add_test(NAME random_bounds COMMAND ${FLASHTL_PYTHON} ${CMAKE_CURRENT_LIST_DIR}/bounds.py)
set_tests_properties(random_bounds PROPERTIES LABELS "random;script" SKIP_RETURN_CODE 77)
# What proves that a broken text says the same, and of which texts it must not.
add_test(NAME random_equal COMMAND ${FLASHTL_PYTHON} ${CMAKE_CURRENT_LIST_DIR}/equal.py)
set_tests_properties(random_equal PROPERTIES LABELS "random;script")
# TL Code that is broken in one place: `check` or `verify` notices each mutant of a few programs; any number by `mutants.py`.
add_test(NAME random_mutants
         COMMAND ${FLASHTL_PYTHON} ${CMAKE_CURRENT_LIST_DIR}/mutants.py --flashtl $<TARGET_FILE:flashtl> --only 3,15 --each 6 --jobs 2)
set_tests_properties(random_mutants PROPERTIES LABELS "random;slow" SKIP_RETURN_CODE 77)
# The same for CUDA text, judged as an answer of a model.
add_test(NAME random_cuda_mutants
         COMMAND ${FLASHTL_PYTHON} ${CMAKE_CURRENT_LIST_DIR}/cuda_mutants.py --flashtl $<TARGET_FILE:flashtl> --only 15 --each 5)
set_tests_properties(random_cuda_mutants PROPERTIES LABELS "random;slow" SKIP_RETURN_CODE 77)
# Each statement of synchronisation taken out of CUDA text: a sample here, all by `cuda_waits.py --all`.
add_test(NAME random_equal_waits COMMAND ${FLASHTL_PYTHON} ${CMAKE_CURRENT_LIST_DIR}/equal_waits.py)
set_tests_properties(random_equal_waits PROPERTIES LABELS "random;script")
add_test(NAME random_cuda_waits
         COMMAND ${FLASHTL_PYTHON} ${CMAKE_CURRENT_LIST_DIR}/cuda_waits.py --flashtl $<TARGET_FILE:flashtl> --only chained --gpu h200)
set_tests_properties(random_cuda_waits PROPERTIES LABELS "random;slow" SKIP_RETURN_CODE 77)
# Sketches that are changed in a few places: refused in their own terms, or their kernels give what they mean now.
add_test(NAME random_sketch_mutants
         COMMAND ${FLASHTL_PYTHON} ${CMAKE_CURRENT_LIST_DIR}/sketch_mutants.py --flashtl $<TARGET_FILE:flashtl> --seed 1 --count 40)
set_tests_properties(random_sketch_mutants PROPERTIES LABELS "random;slow" SKIP_RETURN_CODE 77)
