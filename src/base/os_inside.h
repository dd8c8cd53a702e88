/* What the files of the operating system share. */
#ifndef FLASHTL_BASE_OS_INSIDE_H
#define FLASHTL_BASE_OS_INSIDE_H

#include "base/os.h"

#include <sys/types.h>

/* False, with "cannot WHAT 'SUBJECT': ..." and the system's words for 'error' in 'why'. */
bool os_fail(os_error *why, const char *what, const char *subject, int error);
/* Appends what is there to read; 0 at the end, -1 on failure with errno. */
ssize_t os_read_some(int fd, text_buffer *out);
/* Removes temporary folders that a process made and cannot remove any more. */
void os_remove_folders_of(int pid);

#endif
