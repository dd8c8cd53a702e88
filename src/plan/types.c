/* Element types, as plans and messages name them. */
#include "plan/fields.h"
#include "plan/plan.h"

const plan_word plan_types[] = {
#define TYPE(id, spelling, number, bits, kind, doc) {FTL_##id, spelling},
#include "base/types.def"
#undef TYPE
    {0, NULL}};

#define TYPE(id, spelling, number, bits, kind, doc)                                                \
    _Static_assert((int)FTL_##id == (number), "the numbers of types are ABI");
#include "base/types.def"
#undef TYPE

const char *ftl_type_name(ftl_type type) {
    const char *name = plan_word_name(plan_types, (int)type);
    return *name ? name : "unknown";
}

size_t ftl_type_bits(ftl_type type) {
    switch ((int)type) {
#define TYPE(id, spelling, number, bits, kind, doc)                                                \
    case FTL_##id:                                                                                 \
        return bits;
#include "base/types.def"
#undef TYPE
    default: return 0;
    }
}

size_t ftl_type_bytes(ftl_type type) {
    return (ftl_type_bits(type) + 7) / 8;
}

int plan_map_type(ftl_type type) {
    switch ((int)type) {
    case FTL_I32: return 3;
    case FTL_F16: return 6;
    case FTL_F32: return 7;
    case FTL_BF16: return 9;
    default: return 0;
    }
}
