# Models' servers with every fault, and models' answers of every kind: one test each, fractions of a second.
foreach(kind http answers records)
  set(script ${CMAKE_CURRENT_LIST_DIR}/test_${kind}.py)
  execute_process(COMMAND ${Python3_EXECUTABLE} ${script} --list OUTPUT_VARIABLE cases COMMAND_ERROR_IS_FATAL ANY)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${script})
  string(STRIP "${cases}" cases)
  string(REPLACE "\n" ";" cases "${cases}")
  foreach(case ${cases})
    add_test(NAME think_${kind}_${case}
             COMMAND ${Python3_EXECUTABLE} ${script} $<TARGET_FILE:flashtl> ${case})
    set_tests_properties(think_${kind}_${case} PROPERTIES LABELS think SKIP_RETURN_CODE 77)
    # Those that compile and emulate take seconds.
    if(case MATCHES "^(improving|in_time|steps_alone|whole_way|code_|cuda_(with_|writes|without_barrier|that_never|looks|keeps|reads|by_a))")
      set_tests_properties(think_${kind}_${case} PROPERTIES LABELS "think;slow")
    elseif(NOT kind STREQUAL http)
      flashtl_case_labels(think_${kind}_${case} think)
    endif()
  endforeach()
endforeach()
foreach(kind prompts report models)
  add_test(NAME think_${kind}
           COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/test_${kind}.py $<TARGET_FILE:flashtl>)
  set_tests_properties(think_${kind} PROPERTIES LABELS think SKIP_RETURN_CODE 77)
endforeach()
