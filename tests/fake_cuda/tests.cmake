# A driver, an NVRTC and a cuDNN without a GPU, for the tests of the runtime and of the command.
foreach(library fake_cuda fake_nvrtc fake_cudnn)
  add_library(${library} MODULE ${CMAKE_CURRENT_SOURCE_DIR}/fake_cuda/${library}.c)
  set_target_properties(${library} PROPERTIES PREFIX "lib")
endforeach()
set(fake_cuda_tests test_runtime test_counters test_api_walk test_maps test_cache test_product_load test_attention test_nsa test_serving test_engine test_stream_wait test_bench test_think_gpu)
if(FLASHTL_SQLITE_SOURCES)
  list(APPEND fake_cuda_tests test_tune test_tune_faults test_evaluate_gpu)
endif()
foreach(test ${fake_cuda_tests})
  add_dependencies(${test} fake_cuda fake_nvrtc fake_cudnn)
  target_include_directories(${test} PRIVATE ${CMAKE_CURRENT_SOURCE_DIR}/fake_cuda)
  target_compile_definitions(${test} PRIVATE FAKE_CUDA="$<TARGET_FILE:fake_cuda>"
                             FAKE_NVRTC="$<TARGET_FILE:fake_nvrtc>"
                             FAKE_CUDNN="$<TARGET_FILE:fake_cudnn>")
endforeach()
# What hangs is given up when the tests' clock says so: tune_world.h.
foreach(test test_tune test_tune_faults)
  if(TARGET ${test})
    target_link_options(${test} PRIVATE -Wl,--wrap=os_time_ns)
  endif()
endforeach()
# Its clock stands still but for what the test says that things take.
target_link_options(test_stream_wait PRIVATE -Wl,--wrap=os_time_ns -Wl,--wrap=os_sleep_ns)
