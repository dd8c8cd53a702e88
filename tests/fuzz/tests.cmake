# Each tests/fuzz/fuzz_NAME.c is a test, which replays tests/fuzz/corpus/NAME and the golden texts, and with
# FLASHTL_FUZZ (clang only) a libFuzzer target fuzzer_NAME besides.
file(GLOB fuzz_targets CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/fuzz_*.c)
foreach(source ${fuzz_targets})
  get_filename_component(name ${source} NAME_WE)
  string(REPLACE "fuzz_" "" short ${name})
  set(programs ${name})
  add_executable(${name} ${source} ${CMAKE_CURRENT_LIST_DIR}/replay.c)
  if(FLASHTL_FUZZ)
    list(APPEND programs fuzzer_${short})
    add_executable(fuzzer_${short} ${source})
    if(NOT short STREQUAL ptx) # the others read programs or prose, line by line
      target_sources(fuzzer_${short} PRIVATE ${CMAKE_CURRENT_LIST_DIR}/mutate_lines.c)
    endif()
    target_link_options(fuzzer_${short} PRIVATE -fsanitize=fuzzer)
  endif()
  foreach(program ${programs})
    target_link_libraries(${program} PRIVATE flashtl_all)
  endforeach()
  file(GLOB corpus CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/corpus/${short}/*
       ${CMAKE_SOURCE_DIR}/tests/golden/tl/* ${CMAKE_SOURCE_DIR}/examples/*.tl ${CMAKE_SOURCE_DIR}/tasks/*)
  add_test(NAME ${name} COMMAND ${name} ${corpus})
  set_tests_properties(${name} PROPERTIES LABELS fuzz)
endforeach()
