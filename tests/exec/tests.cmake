# Emitted kernels through NVIDIA's own compiler; 77: nvcc is not here.
add_test(NAME compile_sample COMMAND ${CMAKE_CURRENT_LIST_DIR}/compile_sample.sh $<TARGET_FILE:flashtl>)
set_tests_properties(compile_sample PROPERTIES LABELS "exec;slow" TIMEOUT 600 SKIP_RETURN_CODE 77)
