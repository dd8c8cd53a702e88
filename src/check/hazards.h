/* The hazard rules: findings of the event machine as diagnostics. */
#ifndef FLASHTL_CHECK_HAZARDS_H
#define FLASHTL_CHECK_HAZARDS_H

#include "check/events.h"

/* False when there was a finding. */
bool hazards_report(arena *memory, const model *m, const events_result *events, diag_list *diags);

#endif
