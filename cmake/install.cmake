# Headers, library, command, pkg-config file, CMake package, manual and completions.
include(CMakePackageConfigHelpers)

# Directories may be absolute; pkg-config wants them whole then.
function(flashtl_join result base path)
  if(IS_ABSOLUTE "${path}")
    set(${result} "${path}" PARENT_SCOPE)
  else()
    set(${result} "${base}/${path}" PARENT_SCOPE)
  endif()
endfunction()
flashtl_join(FLASHTL_PC_LIBDIR "\${prefix}" "${CMAKE_INSTALL_LIBDIR}")
flashtl_join(FLASHTL_PC_INCLUDEDIR "\${prefix}" "${CMAKE_INSTALL_INCLUDEDIR}")
# Found from where the file lies, so that an installation can be moved.
set(FLASHTL_PC_PREFIX ${CMAKE_INSTALL_PREFIX})
if(NOT IS_ABSOLUTE "${CMAKE_INSTALL_LIBDIR}")
  file(RELATIVE_PATH up /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
  string(REGEX REPLACE "/$" "" up "${up}")
  set(FLASHTL_PC_PREFIX "\${pcfiledir}/${up}")
endif()
configure_file(${CMAKE_CURRENT_LIST_DIR}/flashtl.pc.in ${CMAKE_BINARY_DIR}/flashtl.pc @ONLY)

set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/flashtl)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/flashtl-config-version.cmake
                                 COMPATIBILITY SameMinorVersion)
install(TARGETS flashtl_shared EXPORT flashtl)
if(TARGET flashtl_static)
  install(TARGETS flashtl_static EXPORT flashtl)
endif()
install(EXPORT flashtl NAMESPACE flashtl:: FILE flashtl-targets.cmake DESTINATION ${package_folder})
install(FILES ${CMAKE_CURRENT_LIST_DIR}/flashtl-config.cmake ${CMAKE_BINARY_DIR}/flashtl-config-version.cmake
        DESTINATION ${package_folder})
install(FILES ${CMAKE_BINARY_DIR}/flashtl.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
install(DIRECTORY ${CMAKE_SOURCE_DIR}/include/flashtl DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(FILES ${CMAKE_SOURCE_DIR}/LICENSE ${CMAKE_SOURCE_DIR}/README.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY ${CMAKE_SOURCE_DIR}/docs ${CMAKE_SOURCE_DIR}/examples DESTINATION ${CMAKE_INSTALL_DOCDIR})
if(TARGET flashtl)
  install(TARGETS flashtl)
  set(share ${CMAKE_SOURCE_DIR}/share)
  install(FILES ${share}/man/flashtl.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
  install(FILES ${share}/man/flashtl-gpu.5 DESTINATION ${CMAKE_INSTALL_MANDIR}/man5)
  install(FILES ${share}/man/flashtl-language.7 DESTINATION ${CMAKE_INSTALL_MANDIR}/man7)
  install(FILES ${share}/completions/flashtl.bash RENAME flashtl
          DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
  install(FILES ${share}/completions/_flashtl
          DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
  install(FILES ${share}/completions/flashtl.fish
          DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
endif()
