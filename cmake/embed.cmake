# Embeds text files (device wrappers, sketches, GPU descriptions) as one C table per folder:
# embedded_<folder>[] of {name, data, length}, ended by {NULL}. See src/base/embedded.h.
find_package(Python3 REQUIRED COMPONENTS Interpreter)
# The interpreter itself, where what was found is a script that looks for it at every start.
execute_process(COMMAND ${Python3_EXECUTABLE} -c "import sys; print(sys.executable)"
                OUTPUT_VARIABLE Python3_EXECUTABLE OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
set(FLASHTL_EMBEDDED)
function(flashtl_embed table)
  file(GLOB files CONFIGURE_DEPENDS ${ARGN})
  set(output ${CMAKE_BINARY_DIR}/generated/embedded_${table}.c)
  add_custom_command(
    OUTPUT ${output}
    COMMAND ${Python3_EXECUTABLE} ${CMAKE_SOURCE_DIR}/tools/embed.py ${table} ${output} ${files}
    DEPENDS ${files} ${CMAKE_SOURCE_DIR}/tools/embed.py
    VERBATIM)
  set(FLASHTL_EMBEDDED ${FLASHTL_EMBEDDED} ${output} PARENT_SCOPE)
endfunction()
flashtl_embed(device ${CMAKE_SOURCE_DIR}/src/device/*.cuh)
flashtl_embed(cute ${CMAKE_SOURCE_DIR}/src/device/cute/*.cuh)
flashtl_embed(runtime ${CMAKE_SOURCE_DIR}/src/runtime/*.cuh)
flashtl_embed(gpus ${CMAKE_SOURCE_DIR}/gpus/*.gpu)
flashtl_embed(tuned ${CMAKE_SOURCE_DIR}/gpus/*.tuned)
flashtl_embed(sketches ${CMAKE_SOURCE_DIR}/sketches/*.tl)
# Documents are the command's alone.
set(FLASHTL_EMBEDDED_IN_LIBRARY ${FLASHTL_EMBEDDED})
set(FLASHTL_EMBEDDED)
flashtl_embed(documents ${CMAKE_SOURCE_DIR}/docs/language.md)
# What a bundle of kernels has of the library's own source, and its loader.
flashtl_embed(bundle ${CMAKE_SOURCE_DIR}/src/cli/bundle/*.c.in ${CMAKE_SOURCE_DIR}/include/flashtl/plan.h
              ${CMAKE_SOURCE_DIR}/src/plan/early.h ${CMAKE_SOURCE_DIR}/src/plan/formula.c ${CMAKE_SOURCE_DIR}/src/plan/numbers.c
              ${CMAKE_SOURCE_DIR}/src/plan/resolve.c)
set(FLASHTL_EMBEDDED_IN_COMMAND ${FLASHTL_EMBEDDED})
# So are the texts that models are told: of the tools, which the command and the tests share.
set(FLASHTL_EMBEDDED)
flashtl_embed(prompts ${CMAKE_SOURCE_DIR}/src/think/prompts/*.md ${CMAKE_SOURCE_DIR}/src/think/prompts/*.tl
              ${CMAKE_SOURCE_DIR}/src/think/prompts/*.css)
flashtl_embed(view ${CMAKE_SOURCE_DIR}/src/view/page/*.css ${CMAKE_SOURCE_DIR}/src/view/page/*.js)
flashtl_embed(tasks ${CMAKE_SOURCE_DIR}/tasks/*.md)
set(FLASHTL_EMBEDDED_IN_TOOLS ${FLASHTL_EMBEDDED})
set(FLASHTL_EMBEDDED ${FLASHTL_EMBEDDED_IN_LIBRARY})
