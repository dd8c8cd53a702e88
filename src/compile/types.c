/* Element types, as plans and messages name them. */
#include "flashtl/plan.h"

static const struct {
    ftl_type type;
    const char *name;
    size_t bytes;
} types[] = {
    {FTL_F16, "f16", 2},   {FTL_BF16, "bf16", 2}, {FTL_F32, "f32", 4},
    {FTL_E4M3, "e4m3", 1}, {FTL_E5M2, "e5m2", 1}, {FTL_I32, "i32", 4},
};

const char *ftl_type_name(ftl_type type) {
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        if (types[i].type == type) return types[i].name;
    }
    return "unknown";
}

size_t ftl_type_bytes(ftl_type type) {
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        if (types[i].type == type) return types[i].bytes;
    }
    return 0;
}
