# CuTe text against CUTLASS's headers; 77: they, NumPy or nvcc are not here.
add_test(NAME cute COMMAND ${FLASHTL_PYTHON} ${CMAKE_CURRENT_LIST_DIR}/test_cute.py $<TARGET_FILE:flashtl>)
set_tests_properties(cute PROPERTIES LABELS "cli;slow" SKIP_RETURN_CODE 77)
add_test(NAME cute_by_model COMMAND ${FLASHTL_PYTHON} ${CMAKE_CURRENT_LIST_DIR}/test_by_model.py $<TARGET_FILE:flashtl>)
set_tests_properties(cute_by_model PROPERTIES LABELS "think;slow" SKIP_RETURN_CODE 77)
