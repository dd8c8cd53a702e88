# Diagnostics: each tests/diag/<family>/NAME.tl says in comments what must be reported (expect.h). A
# family has its driver, diag_<family>.c.
foreach(family tl check)
  add_executable(diag_${family} ${CMAKE_CURRENT_LIST_DIR}/diag_${family}.c)
  target_include_directories(diag_${family} PRIVATE ${CMAKE_SOURCE_DIR}/tests)
  target_link_libraries(diag_${family} PRIVATE flashtl_all)
  file(GLOB diag_texts CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/${family}/*.tl)
  foreach(text ${diag_texts})
    get_filename_component(name ${text} NAME_WE)
    add_test(NAME diag_${family}_${name} COMMAND diag_${family} ${text})
    set_tests_properties(diag_${family}_${name} PROPERTIES LABELS diag)
  endforeach()
endforeach()
