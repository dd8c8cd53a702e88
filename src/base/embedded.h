/* Text files built into the library (tools/embed.py): each table ends with a row whose name is
 * NULL. */
#ifndef FLASHTL_BASE_EMBEDDED_H
#define FLASHTL_BASE_EMBEDDED_H

#include <stddef.h>

typedef struct embedded_file {
    const char *name; /* the file's name without folder and ending */
    const char *data; /* ends in NUL */
    size_t length;
} embedded_file;

extern const embedded_file embedded_device[];  /* src/device: one instruction wrapper family each */
extern const embedded_file embedded_cute[];    /* src/device/cute: the same through CuTe */
extern const embedded_file embedded_runtime[]; /* src/runtime: what plain clang must be told */
extern const embedded_file embedded_gpus[];    /* gpus: one description per card */
extern const embedded_file embedded_tuned[];   /* gpus: what was measured on a card */
extern const embedded_file embedded_sketches[];  /* sketches: one operator each */
extern const embedded_file embedded_documents[]; /* the language; in the command alone */
extern const embedded_file embedded_prompts[];   /* src/think/prompts: what models are told */
extern const embedded_file embedded_view[];      /* src/view/page: style and script of pages */
extern const embedded_file embedded_tasks[];     /* tasks: what they are evaluated on */

#endif
