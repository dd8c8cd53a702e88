# The library as an archive, FTL::static: one object, whose only symbols are those of include/flashtl. In a plain archive of objects
# `arena_init` or `text_add` would be those of a program, too. Where jansson is an archive it is in that object.
set(FLASHTL_STATIC_OBJECT ${CMAKE_BINARY_DIR}/flashtl_static.o)
set(static_parts $<TARGET_OBJECTS:flashtl_objects>)
set(static_options)
set(static_needs m pthread ${CMAKE_DL_LIBS})
if(JANSSON_LIBRARY MATCHES "\\.a$")
  add_library(flashtl_static_jansson OBJECT cmake/static_jansson.c)
  set_target_properties(flashtl_static_jansson PROPERTIES POSITION_INDEPENDENT_CODE ON)
  list(APPEND static_parts $<TARGET_OBJECTS:flashtl_static_jansson> ${JANSSON_LIBRARY})
  list(APPEND static_options -Wl,--wrap=stdin)
else()
  list(APPEND static_needs jansson)
endif()
add_custom_command(
  OUTPUT ${FLASHTL_STATIC_OBJECT}
  COMMAND ${CMAKE_C_COMPILER} -r -nostdlib ${static_options} -o ${FLASHTL_STATIC_OBJECT} ${static_parts}
  COMMAND ${CMAKE_OBJCOPY} --wildcard "--keep-global-symbol=ftl_*" ${FLASHTL_STATIC_OBJECT}
  DEPENDS ${static_parts} flashtl_objects
  COMMAND_EXPAND_LISTS VERBATIM)
add_library(flashtl_static STATIC ${FLASHTL_STATIC_OBJECT})
set_source_files_properties(${FLASHTL_STATIC_OBJECT} PROPERTIES EXTERNAL_OBJECT ON GENERATED ON)
set_target_properties(flashtl_static PROPERTIES OUTPUT_NAME flashtl EXPORT_NAME static LINKER_LANGUAGE C)
target_include_directories(flashtl_static INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_link_libraries(flashtl_static INTERFACE ${static_needs})
list(TRANSFORM static_needs PREPEND "-l" OUTPUT_VARIABLE FLASHTL_PC_PRIVATE)
list(JOIN FLASHTL_PC_PRIVATE " " FLASHTL_PC_PRIVATE)
