# Derived gradients against differences of their sketches, on the interpreter. 77: NumPy is not here.
add_test(NAME derive_differences
         COMMAND ${FLASHTL_PYTHON} ${CMAKE_CURRENT_LIST_DIR}/differences.py $<TARGET_FILE:flashtl>)
set_tests_properties(derive_differences PROPERTIES LABELS "cli;slow" SKIP_RETURN_CODE 77 ENVIRONMENT "FLASHTL_CACHE=")
