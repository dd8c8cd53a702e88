# Diagnostics: each tests/diag/<family>/NAME.tl says in comments what must be reported (expect.h).
add_executable(diag_tl ${CMAKE_CURRENT_LIST_DIR}/diag_tl.c $<TARGET_OBJECTS:flashtl_objects>)
target_include_directories(diag_tl PRIVATE ${CMAKE_SOURCE_DIR}/tests)
target_link_libraries(diag_tl PRIVATE flashtl_objects ${JANSSON_LIBRARY} m Threads::Threads
                      ${CMAKE_DL_LIBS})
file(GLOB diag_texts CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/tl/*.tl)
foreach(text ${diag_texts})
  get_filename_component(name ${text} NAME_WE)
  add_test(NAME diag_tl_${name} COMMAND diag_tl ${text})
  set_tests_properties(diag_tl_${name} PROPERTIES LABELS diag TIMEOUT 60)
endforeach()
