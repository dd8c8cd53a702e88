/* The text of GPU descriptions: lines, and single values without reading the rest. */
#ifndef FLASHTL_GPU_READ_H
#define FLASHTL_GPU_READ_H

#include "gpu/gpu.h"

/* The value of a key in a well-formed description; empty when it is not there. */
str read_value(str text, const char *key);

/* The name in the form in which names are compared: lower case, without '-', '_' and blanks. */
str read_plain_name(arena *memory, str name);

#endif
