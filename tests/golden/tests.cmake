# Golden tests: what a step makes of tests/golden/<step>/NAME.tl stands in NAME.out; where that is
# missing the text must come out as it is.
add_executable(golden_tl ${CMAKE_CURRENT_LIST_DIR}/golden_tl.c)
target_link_libraries(golden_tl PRIVATE flashtl_all)
file(GLOB golden_texts CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/tl/*.tl)
foreach(text ${golden_texts})
  get_filename_component(name ${text} NAME_WE)
  set(expected ${CMAKE_CURRENT_LIST_DIR}/tl/${name}.out)
  if(NOT EXISTS ${expected})
    set(expected ${text})
  endif()
  add_test(NAME golden_tl_${name} COMMAND golden_tl ${text} ${expected})
  set_tests_properties(golden_tl_${name} PROPERTIES LABELS golden)
endforeach()

# The reasoner: the first line of tests/golden/reason/NAME.tl says for what it is reasoned.
add_executable(golden_reason ${CMAKE_CURRENT_LIST_DIR}/golden_reason.c)
target_link_libraries(golden_reason PRIVATE flashtl_all)
file(GLOB golden_sketches CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/reason/*.tl)
foreach(text ${golden_sketches})
  get_filename_component(name ${text} NAME_WE)
  add_test(NAME golden_reason_${name}
           COMMAND golden_reason ${text} ${CMAKE_CURRENT_LIST_DIR}/reason/${name}.out)
  set_tests_properties(golden_reason_${name} PROPERTIES LABELS golden)
endforeach()
