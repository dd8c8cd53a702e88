/* Sums of terms that make a result. */
#ifndef FLASHTL_REASON_TERMS_H
#define FLASHTL_REASON_TERMS_H

#include "reason/pass.h"

void terms_merge(reason *r);

#endif
