/* Texts as HTML, a line at a time, with their words marked. */
#ifndef FLASHTL_VIEW_HIGHLIGHT_H
#define FLASHTL_VIEW_HIGHLIGHT_H

#include "base/text.h"

typedef enum view_language { VIEW_TL, VIEW_CUDA, VIEW_PTX } view_language;

/* For each byte of the text a letter, the class of the word that it is in; ' ': none. */
const char *view_classes(arena *memory, str text, view_language language);

/* A line of the text; 'classes' are those of its bytes, NULL: nothing is marked. */
void view_add_line(text_buffer *out, str line, const char *classes);

#endif
