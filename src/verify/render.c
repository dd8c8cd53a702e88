#include "verify/verify.h"

#include "base/json.h"
#include <math.h>
#include <stdlib.h>

static const char *const verdicts[] = {"pass", "FAIL", "skip"};

void verify_result_text(const verify_result *r, text_buffer *out) {
    text_format(out, "%s  case %d: %s", verdicts[r->verdict], (int)r->number, r->name);
    if (r->verdict == VERIFY_PASSED && r->bound > 0) {
        text_format(out, "  %s %.2g of %.2g", r->rule, r->error, r->bound);
    }
    if (r->verdict == VERIFY_PASSED) text_format(out, "  %.3g ms", r->milliseconds);
    text_add_z(out, "\n");
    if (r->what[0]) text_format(out, "      %s\n", r->what);
    if (r->verdict == VERIFY_FAILED && r->repro[0]) text_format(out, "      again: %s\n", r->repro);
}

/* JSON has no NaN and no infinity. */
static json_t *number(double value) {
    return isfinite(value) ? json_real(value) : json_null();
}

static void add_object(json_t *object, text_buffer *out) {
    json_write_line(NULL, object, JSON_COMPACT | JSON_REAL_PRECISION(9), out);
    json_decref(object);
}

void verify_result_json(const verify_result *r, text_buffer *out) {
    static const char *const words[] = {"passed", "failed", "skipped"};
    json_t *o = json_object();
    json_object_set_new(o, "case", json_integer(r->number));
    json_object_set_new(o, "name", json_string(r->name));
    json_object_set_new(o, "verdict", json_string(words[r->verdict]));
    json_object_set_new(o, "ran_on", json_string(r->ran_on));
    json_object_set_new(o, "milliseconds", number(r->milliseconds));
    json_object_set_new(o, "compared", json_integer(r->compared));
    json_object_set_new(o, "open", json_integer(r->open));
    if (r->tensor) json_object_set_new(o, "tensor", json_string(r->tensor));
    if (r->rule[0]) {
        json_object_set_new(o, "rule", json_string(r->rule));
        json_object_set_new(o, "error", number(r->error));
        json_object_set_new(o, "bound", number(r->bound));
        json_object_set_new(o, "relative_rms", number(r->relative_rms));
    }
    if (r->what[0]) json_object_set_new(o, "what", json_string(r->what));
    if (r->verdict == VERIFY_FAILED && r->repro[0])
        json_object_set_new(o, "again", json_string(r->repro));
    add_object(o, out);
}

void verify_case_text(const verify_program *program, const verify_case *c, text_buffer *out) {
    char name[VERIFY_NAME_BYTES];
    verify_case_name(program, c, name);
    text_format(out, "case %d: %s, about %.2g operations\n", (int)c->number, name, c->flops);
}

void verify_case_json(const verify_program *program, const verify_case *c, text_buffer *out) {
    char name[VERIFY_NAME_BYTES];
    verify_case_name(program, c, name);
    json_t *o = json_object();
    json_object_set_new(o, "case", json_integer(c->number));
    json_object_set_new(o, "name", json_string(name));
    json_object_set_new(o, "flops", number(c->flops));
    add_object(o, out);
}

void verify_summary_json(const verify_summary *s, text_buffer *out) {
    json_t *o = json_object();
    json_object_set_new(o, "total", json_integer(s->total));
    json_object_set_new(o, "passed", json_integer(s->passed));
    json_object_set_new(o, "failed", json_integer(s->failed));
    json_object_set_new(o, "skipped", json_integer(s->skipped));
    json_object_set_new(o, "left_out", json_integer(s->left_out));
    if (s->open) json_object_set_new(o, "open", json_string(s->open));
    json_object_set_new(o, "seconds", number(s->seconds));
    json_object_set_new(o, "worst_relative_rms", number(s->worst_rms));
    json_object_set_new(o, "bound", number(s->rms_bound));
    add_object(o, out);
}
