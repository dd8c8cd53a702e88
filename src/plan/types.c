/* Element types, as plans and messages name them. */
#include "plan/fields.h"
#include "plan/plan.h"

const plan_word plan_types[] = {{FTL_F16, "f16"},   {FTL_BF16, "bf16"}, {FTL_F32, "f32"},
                                {FTL_E4M3, "e4m3"}, {FTL_E5M2, "e5m2"}, {FTL_I32, "i32"},
                                {FTL_I8, "i8"},     {0, NULL}};

const char *ftl_type_name(ftl_type type) {
    const char *name = plan_word_name(plan_types, (int)type);
    return *name ? name : "unknown";
}

size_t ftl_type_bytes(ftl_type type) {
    switch ((int)type) {
    case FTL_E4M3:
    case FTL_E5M2:
    case FTL_I8: return 1;
    case FTL_F16:
    case FTL_BF16: return 2;
    case FTL_F32:
    case FTL_I32: return 4;
    default: return 0;
    }
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
