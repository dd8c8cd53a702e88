/* Register layouts along the program: what each statement finds each tile in. */
#ifndef FLASHTL_CHECK_LAYOUTS_H
#define FLASHTL_CHECK_LAYOUTS_H

#include "check/check.h"
#include "model/model.h"

/* Follows the layout of every register tile (language, section Layouts), reports what does not fit,
 * and fills in facts->layouts. False when an error was reported.
 */
bool layouts_check(arena *memory, const model *m, diag_list *diags, check_facts *facts);

#endif
