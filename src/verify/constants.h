/* Whole numbers that a program's texts compare with, cut into blocks of, or are pinned to. */
#ifndef FLASHTL_VERIFY_CONSTANTS_H
#define FLASHTL_VERIFY_CONSTANTS_H

#include "verify/verify.h"

enum { CONSTANTS_MOST = 48 };

/* Each once, from 1, of sketch, TL Code and pins, in the order they stand there. */
typedef struct constants {
    int64_t values[CONSTANTS_MOST];
    int32_t count;
} constants;
constants constants_of(const verify_program *program);

#endif
