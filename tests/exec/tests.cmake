# A sample of emitted kernels through NVIDIA's own compiler; 3: nvcc is not here.
add_test(NAME compile_sample
         COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/compile_all.py
                 --binary $<TARGET_FILE:flashtl> --jobs 2)
set_tests_properties(compile_sample PROPERTIES LABELS "exec;slow" TIMEOUT 1200 SKIP_RETURN_CODE 3)
