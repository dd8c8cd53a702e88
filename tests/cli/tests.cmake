# Tests of the command: NAME.sh and what it must print, NAME.out (tests/cli/run.sh --update writes it).
file(GLOB cli_tests CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/*.sh)
list(FILTER cli_tests EXCLUDE REGEX "/run\\.sh$")
if(NOT FLASHTL_SQLITE_SOURCES)
  list(FILTER cli_tests EXCLUDE REGEX "/tune\\.sh$")
endif()
foreach(test ${cli_tests})
  get_filename_component(name ${test} NAME_WE)
  add_test(NAME cli_${name} COMMAND ${CMAKE_CURRENT_LIST_DIR}/run.sh ${test} $<TARGET_FILE:flashtl>
           $<TARGET_FILE:fake_cuda> $<TARGET_FILE:fake_nvrtc>)
  set_tests_properties(cli_${name} PROPERTIES LABELS cli SKIP_RETURN_CODE 77)
  # Many kernels by one command, compiled, emulated or interpreted: what the kernels give, not what the command does.
  if(name MATCHES "^(alike|bench_decode|between|bytes|bytes_cache|computed_operands|counted|dtypes|early|ends|fences|latent|maximum|more|noticed|operand_scales|reach|roles|scales|select|sketches|turned|verify|warpgroups|whole)$")
    set_tests_properties(cli_${name} PROPERTIES LABELS "cli;slow")
  endif()
endforeach()
# Preloaded by comma.sh and by allocations.py; a sanitizer's library would have to come before them.
if(NOT FLASHTL_SANITIZE)
  foreach(preloaded comma_locale fail_allocation)
    add_library(${preloaded} MODULE ${CMAKE_CURRENT_LIST_DIR}/${preloaded}.c)
    set_target_properties(${preloaded} PROPERTIES PREFIX "lib")
  endforeach()
  add_test(NAME allocations
           COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/allocations.py $<TARGET_FILE:flashtl>
                   $<TARGET_FILE:fail_allocation> $<TARGET_FILE:fake_cuda> $<TARGET_FILE:fake_nvrtc>)
  set_tests_properties(allocations PROPERTIES LABELS cli)
endif()
foreach(shell zsh fish)
  add_test(NAME completions_${shell}
           COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/completions.py $<TARGET_FILE:flashtl> ${shell})
  set_tests_properties(completions_${shell} PROPERTIES LABELS cli SKIP_RETURN_CODE 77)
endforeach()
add_test(NAME documented
         COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/documented.py $<TARGET_FILE:flashtl> ${CMAKE_SOURCE_DIR})
set_tests_properties(documented PROPERTIES LABELS "cli;slow")
add_test(NAME operator_options
         COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/operator_options.py $<TARGET_FILE:flashtl>)
set_tests_properties(operator_options PROPERTIES LABELS cli)
add_test(NAME c_documents
         COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/c_documents.py ${CMAKE_C_COMPILER} ${CMAKE_SOURCE_DIR}/include
                 ${CMAKE_SOURCE_DIR}/docs/serving.md=${CMAKE_SOURCE_DIR}/examples/engine.c)
set_tests_properties(c_documents PROPERTIES LABELS cli)
add_test(NAME setup
         COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/setup.py ${CMAKE_SOURCE_DIR}/tools/setup.sh)
set_tests_properties(setup PROPERTIES LABELS "cli;script")
add_test(NAME generated_files
         COMMAND ${CMAKE_SOURCE_DIR}/tools/generate.sh $<TARGET_FILE:flashtl> --check)
add_test(NAME layers COMMAND ${Python3_EXECUTABLE} ${CMAKE_SOURCE_DIR}/tools/layers.py)
add_test(NAME links COMMAND ${Python3_EXECUTABLE} ${CMAKE_SOURCE_DIR}/tools/links.py)
add_test(NAME words COMMAND ${Python3_EXECUTABLE} ${CMAKE_SOURCE_DIR}/tools/words.py)
set_tests_properties(layers links words PROPERTIES LABELS script)
# What the README's first command shows; 3: there is no CUDA compiler, not even clang.
add_test(NAME demo COMMAND flashtl demo)
set_tests_properties(demo PROPERTIES LABELS "cli;slow" SKIP_RETURN_CODE 3)
add_test(NAME matrix_sample
         COMMAND ${Python3_EXECUTABLE} ${CMAKE_SOURCE_DIR}/tools/matrix.py --binary $<TARGET_FILE:flashtl>
                 --sample 31 --shapes 1x1,113x203,5x0 --jobs 2)
set_tests_properties(matrix_sample PROPERTIES LABELS "cli;slow")
# Results on NumPy's own files agree with NumPy's; 77: NumPy is not here.
add_test(NAME numpy_programs
         COMMAND ${FLASHTL_PYTHON} ${CMAKE_CURRENT_LIST_DIR}/numpy_programs.py $<TARGET_FILE:flashtl>
                 ${CMAKE_SOURCE_DIR}/tests/exec/odd)
set_tests_properties(numpy_programs PROPERTIES LABELS "cli;slow" SKIP_RETURN_CODE 77
                     ENVIRONMENT "FLASHTL_CACHE=")

# RowTopK against NumPy, on the interpreter and the emulator.
add_test(NAME top_programs
         COMMAND ${FLASHTL_PYTHON} ${CMAKE_CURRENT_LIST_DIR}/top_programs.py $<TARGET_FILE:flashtl> a100)
set_tests_properties(top_programs PROPERTIES LABELS "cli;slow" SKIP_RETURN_CODE 77
                     ENVIRONMENT "FLASHTL_CACHE=")

# Sparse attention against NumPy, on the interpreter and the emulator.
add_test(NAME sparse_programs
         COMMAND ${FLASHTL_PYTHON} ${CMAKE_CURRENT_LIST_DIR}/sparse_programs.py $<TARGET_FILE:flashtl> a100 h200)
set_tests_properties(sparse_programs PROPERTIES LABELS "cli;slow" SKIP_RETURN_CODE 77
                     ENVIRONMENT "FLASHTL_CACHE=")

# Few queries over many keys against NumPy, on the interpreter and the emulator.
add_test(NAME decode_programs
         COMMAND ${FLASHTL_PYTHON} ${CMAKE_CURRENT_LIST_DIR}/decode_programs.py $<TARGET_FILE:flashtl> t4 a100 l40s h200)
set_tests_properties(decode_programs PROPERTIES LABELS "cli;slow" SKIP_RETURN_CODE 77
                     ENVIRONMENT "FLASHTL_CACHE=")

# What engines ask of scores beside plain attention, and latent decoding, against NumPy.
add_test(NAME serving_options
         COMMAND ${FLASHTL_PYTHON} ${CMAKE_CURRENT_LIST_DIR}/serving_options.py $<TARGET_FILE:flashtl> interpreter t4 a100 l40s h200)
set_tests_properties(serving_options PROPERTIES LABELS "cli;slow" SKIP_RETURN_CODE 77 ENVIRONMENT "FLASHTL_CACHE=")

# The sketches of examples/ against NumPy, and their way to CUDA.
add_test(NAME example_programs
         COMMAND ${FLASHTL_PYTHON} ${CMAKE_CURRENT_LIST_DIR}/example_programs.py $<TARGET_FILE:flashtl>
                 ${CMAKE_SOURCE_DIR}/examples)
set_tests_properties(example_programs PROPERTIES LABELS "cli;slow" SKIP_RETURN_CODE 77)

# PyTorch's tensors, which are NumPy's here, on a driver without a GPU. A sanitizer's library would need
# a Python of its own.
if(NOT FLASHTL_SANITIZE)
  add_test(NAME torch_tensors
           COMMAND ${FLASHTL_PYTHON} ${CMAKE_CURRENT_LIST_DIR}/torch_tensors.py ${CMAKE_SOURCE_DIR}/examples
                   $<TARGET_FILE:flashtl_shared> $<TARGET_FILE:fake_cuda> $<TARGET_FILE:fake_nvrtc>
                   $<TARGET_FILE:flashtl>)
  set_tests_properties(torch_tensors PROPERTIES LABELS cli SKIP_RETURN_CODE 77)
endif()
