# What the package of Python holds beside python/flashtl: one library, of compiler and command alike, and the command as
# a few bytes that call it. Each file is plain, since an archive of a package has no links. (--wrap=stdin as in CMakeLists.txt: the
# command reads file descriptor 0, never a FILE.)
add_library(flashtl_main OBJECT src/cli/main.c)
target_link_libraries(flashtl_main PRIVATE flashtl_tools)
target_compile_definitions(flashtl_main PRIVATE main=flashtl_main)
target_compile_options(flashtl_main PRIVATE -fvisibility=default -Wno-missing-prototypes) # main, by another name
set_target_properties(flashtl_main PROPERTIES POSITION_INDEPENDENT_CODE ON)

set(FLASHTL_COMMAND_SOURCES ${FLASHTL_CLI_SOURCES})
list(FILTER FLASHTL_COMMAND_SOURCES EXCLUDE REGEX "/src/cli/main\\.c$")
set_target_properties(flashtl_tools PROPERTIES POSITION_INDEPENDENT_CODE ON)
add_library(flashtl_python SHARED python/again.c python/again_function.c python/again_operator.c ${FLASHTL_COMMAND_SOURCES} ${FLASHTL_EMBEDDED_IN_COMMAND} $<TARGET_OBJECTS:flashtl_main>
            $<TARGET_OBJECTS:flashtl_objects> $<TARGET_OBJECTS:flashtl_tools>)
set_target_properties(flashtl_python PROPERTIES OUTPUT_NAME flashtl LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/python)
target_link_libraries(flashtl_python PRIVATE flashtl_tools ${JANSSON_LIBRARY} m Threads::Threads ${CMAKE_DL_LIBS})
set(FLASHTL_SYMBOL_VERSION)
configure_file(cmake/exports.map.in ${CMAKE_BINARY_DIR}/exports_python.map @ONLY)
target_link_options(flashtl_python PRIVATE -s -Wl,--exclude-libs,ALL -Wl,--version-script=${CMAKE_BINARY_DIR}/exports_python.map)
if(JANSSON_LIBRARY MATCHES "\\.a$")
  target_sources(flashtl_python PRIVATE cmake/static_jansson.c)
  target_link_options(flashtl_python PRIVATE -Wl,--wrap=stdin)
endif()

# One build for every glibc from 2.28 on.
include(CheckSourceCompiles)
check_source_compiles(C "#include <features.h>
#if !__GLIBC_PREREQ(2, 28) || !(defined __x86_64__ || defined __aarch64__)
#error
#endif
int main(void) { return 0; }" FLASHTL_HAS_OLD_GLIBC)
function(flashtl_for_old_glibc target)
  if(FLASHTL_HAS_OLD_GLIBC)
    target_sources(${target} PRIVATE $<TARGET_OBJECTS:flashtl_old_glibc>)
    file(STRINGS ${CMAKE_SOURCE_DIR}/cmake/old_glibc.c lines REGEX "^(OLD|STAT)\\(")
    foreach(line ${lines})
      if(line MATCHES "^OLD\\([A-Z]+, [a-z *]+, ([a-z0-9_]+),|^STAT\\(([a-z0-9]+),")
        target_link_options(${target} PRIVATE -Wl,--wrap=${CMAKE_MATCH_1}${CMAKE_MATCH_2})
      endif()
    endforeach()
    target_link_libraries(${target} PRIVATE -Wl,--no-as-needed -l:libdl.so.2 -l:libpthread.so.0 -Wl,--as-needed m)
  endif()
endfunction()
if(FLASHTL_HAS_OLD_GLIBC)
  add_library(flashtl_old_glibc OBJECT cmake/old_glibc.c)
  target_compile_options(flashtl_old_glibc PRIVATE -fno-builtin -fno-lto)
  set_target_properties(flashtl_old_glibc PROPERTIES POSITION_INDEPENDENT_CODE ON)
endif()
flashtl_for_old_glibc(flashtl_python)

add_executable(flashtl_command python/command.c)
set_target_properties(flashtl_command PROPERTIES OUTPUT_NAME flashtl RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/python
                      BUILD_RPATH "" INSTALL_RPATH "$ORIGIN/.." BUILD_WITH_INSTALL_RPATH ON)
target_link_libraries(flashtl_command PRIVATE flashtl_python)
target_link_options(flashtl_command PRIVATE -s)
flashtl_for_old_glibc(flashtl_command)
install(FILES $<TARGET_FILE:flashtl_python> DESTINATION flashtl COMPONENT python)
install(PROGRAMS $<TARGET_FILE:flashtl_command> DESTINATION flashtl/bin COMPONENT python)
