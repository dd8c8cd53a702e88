/* Waits, barriers and groups: what the emitted code must do at each statement, derived from the
 * traces of the event machine (decision 007).
 */
#ifndef FLASHTL_CHECK_SYNCHRONISE_H
#define FLASHTL_CHECK_SYNCHRONISE_H

#include "check/events.h"

/* Fills in facts->syncs and facts->channels. The traces must be those of a kernel without findings.
 */
void synchronise(arena *memory, const model *m, const events_result *events, check_facts *facts);

#endif
