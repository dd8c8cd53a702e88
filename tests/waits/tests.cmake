# Waits that no run of the checks came to. mutants.py --all takes out every one, of all programs, for all GPUs.
add_test(NAME waits_mutants
         COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/mutants.py $<TARGET_FILE:flashtl>)
set_tests_properties(waits_mutants PROPERTIES LABELS cli)
# What the kernels come to, on the emulator; 77: NumPy or a CUDA compiler is not here.
add_test(NAME waits_programs
         COMMAND ${FLASHTL_PYTHON} ${CMAKE_CURRENT_LIST_DIR}/programs.py $<TARGET_FILE:flashtl>
                 ${CMAKE_CURRENT_LIST_DIR})
set_tests_properties(waits_programs PROPERTIES LABELS "cli;slow" SKIP_RETURN_CODE 77)
# Loops that leave out whole blocks by a table, right and broken; and what they come to.
add_test(NAME waits_skips
         COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/skips.py $<TARGET_FILE:flashtl>)
set_tests_properties(waits_skips PROPERTIES LABELS cli)
add_test(NAME waits_skips_programs
         COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/skips.py $<TARGET_FILE:flashtl> --programs)
set_tests_properties(waits_skips_programs PROPERTIES LABELS "cli;slow" SKIP_RETURN_CODE 77)
# Kernels at lengths that the checks did not choose.
add_executable(waits_lengths ${CMAKE_CURRENT_LIST_DIR}/lengths.c)
target_link_libraries(waits_lengths PRIVATE flashtl_all)
add_test(NAME waits_lengths
         COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/lengths.py $<TARGET_FILE:flashtl>
                 $<TARGET_FILE:waits_lengths>)
set_tests_properties(waits_lengths PROPERTIES LABELS cli)
