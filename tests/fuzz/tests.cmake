# Each tests/fuzz/fuzz_NAME.c is a libFuzzer target (with FLASHTL_FUZZ, clang only: build with
# FLASHTL_SANITIZE=fuzzer-no-link,address,undefined). Without it, a driver replays tests/fuzz/corpus/NAME
# and the golden texts as a test.
file(GLOB fuzz_targets CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/fuzz_*.c)
set(sources_of_tasks ${CMAKE_SOURCE_DIR}/src/evaluate/tasks.c) # not of the library
foreach(source ${fuzz_targets})
  get_filename_component(name ${source} NAME_WE)
  string(REPLACE "fuzz_" "" short ${name})
  if(FLASHTL_FUZZ)
    add_executable(${name} ${source} ${sources_of_${short}} $<TARGET_OBJECTS:flashtl_objects>)
    target_link_options(${name} PRIVATE -fsanitize=fuzzer)
  else()
    add_executable(${name} ${source} ${sources_of_${short}} ${CMAKE_CURRENT_LIST_DIR}/replay.c
                   $<TARGET_OBJECTS:flashtl_objects>)
    file(GLOB corpus CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/corpus/${short}/*
         ${CMAKE_SOURCE_DIR}/tests/golden/tl/* ${CMAKE_SOURCE_DIR}/tasks/*)
    add_test(NAME ${name} COMMAND ${name} ${corpus})
    set_tests_properties(${name} PROPERTIES LABELS fuzz TIMEOUT 300)
  endif()
  target_link_libraries(${name} PRIVATE flashtl_objects ${JANSSON_LIBRARY} m Threads::Threads
                        ${CMAKE_DL_LIBS})
endforeach()
