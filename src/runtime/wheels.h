/* Internal. NVRTC as Python's packages bring it. */
#ifndef FLASHTL_RUNTIME_WHEELS_H
#define FLASHTL_RUNTIME_WHEELS_H

#include <stdbool.h>
#include <stddef.h>

/* The newest libnvrtc.so.N below nvidia/ in the packages of VIRTUAL_ENV, of each python3 on PATH,
 * of the user (PYTHONUSERBASE, ~/.local), and of the system; the first of these places that has one
 * counts.
 */
bool wheels_find_nvrtc(char *path, size_t size);

#endif
