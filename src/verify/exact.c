#include "verify/exact.h"

#include "verify/narrow.h"

#include <math.h>

/* Constants of TL Code have nine digits, f32 has seven: what a computation makes of a step of f32
 * is far more than what it makes of those. Results are stored as f32 on both sides.
 */
static const double ERRORS = 1, STEPS = 1;

bool exact_is_known(const case_data *data) {
    const ftl_source *sketch = &data->program->sketch, *code = &data->program->code;
    bool has_both = sketch->text && sketch->length && code->text && code->length;
    narrow kind = narrow_of(data->program);
    return has_both && !kind.products && !kind.weights;
}

ftl_status exact_run(ftl_context *context, const case_data *data, arena *memory, buffer **wide) {
    return expected_run(context, data, &data->program->code, FTL_EXACT, memory, wide);
}

bool exact_is_right(const judged *o, arena *memory, judgement *out) {
    const expected *e = o->expected;
    int64_t count = e->of->rows * e->of->columns;
    double worst = 0;
    *out = (judgement){.is_right = true, .relative_rms = NAN, .worst = -1};
    convert_format format =
        e->of->format; /* the others hold their largest number where it is more */
    bool is_float = format == CONVERT_F16 || format == CONVERT_BF16 || format == CONVERT_F32;
    if (!e->errors || e->is_noise || !is_float) return true;
    out->bad = arena_array(memory, uint8_t, count + 1);
    for (int64_t i = 0; i < count; i++) {
        double want = e->values[i], off = fabs(o->got[i] - want);
        bool is_known = (e->state[i] & EXPECTED_KNOWN) && isfinite(want);
        out->bad[i] = false;
        if (!is_known) continue;
        double most = STEPS * convert_step(CONVERT_F32, want) + ERRORS * e->errors[i];
        out->bad[i] = !(off <= most);
        out->bad_count += out->bad[i];
        if (out->bad[i] && (out->worst < 0 || off / most > worst))
            worst = off / most, out->worst = i;
    }
    out->is_right = !out->bad_count;
    out->rule = "difference without rounding, over what digits of constants explain";
    out->error = worst, out->bound = 1;
    return out->is_right;
}
