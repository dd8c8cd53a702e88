/* A kernel's texts side by side, as one page (docs/decisions/027-view.md).
 *
 * The data are a trace (ftl_trace) to which PTX and the emulator's counts may be added; the page is
 * made of them and needs nothing else: no server, no other file.
 */
#ifndef FLASHTL_VIEW_VIEW_H
#define FLASHTL_VIEW_VIEW_H

#include "base/json.h"

enum { VIEW_PAGE_BYTES_MAX = 2 << 20 };

/* Adds a kernel's PTX, and to its statements the lines of it that came of theirs, by the compiler's
 * line information. False without memory.
 */
bool view_add_ptx(json_t *trace, size_t kernel, str ptx);

/* Adds what the emulator counted (its JSON) to the lines and statements of a kernel. False without
 * memory, or where it is no such text.
 */
bool view_add_counts(json_t *trace, size_t kernel, str emulation);

/* Says on the page why there is no PTX, or are no counts, for a kernel. */
bool view_add_note(json_t *trace, size_t kernel, str sentence);

/* The page. A text that would make it larger than VIEW_PAGE_BYTES_MAX is left out, and that is
 * said. 'out' has failed without memory.
 */
void view_page(const json_t *trace, text_buffer *out);

#endif
