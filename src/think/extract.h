/* From what a model says to the text it means. */
#ifndef FLASHTL_THINK_EXTRACT_H
#define FLASHTL_THINK_EXTRACT_H

#include "base/text.h"

typedef enum extract_kind { EXTRACT_TL, EXTRACT_CUDA } extract_kind;

typedef enum extract_result {
    EXTRACT_FOUND,
    EXTRACT_NOTHING, /* no text of that kind */
    EXTRACT_CUT_OFF  /* the answer ends inside its code, or inside its thinking */
} extract_result;

/* Finds the program in an answer; *text is a part of 'answer'. Thinking in tags is skipped; of
 * several fenced blocks the last whole program counts, labelled ones before others.
 * 'is_cut_off': the server says that it stopped early.
 */
extract_result extract_program(str answer, extract_kind kind, bool is_cut_off, str *text);

#endif
