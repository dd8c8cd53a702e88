/* A model that passed goes on: it sees what limits the best kernel and what was tried. */
#include "think/workflow.h"

#include "think/limits.h"

#include <stdlib.h>
#include <string.h>

/* --- improving -------------------------------------------------------------------------------- */

/* What a model sees that may go on: the best code, what limits it, and what was tried. */
static void write_improve_question(workflow *w, text_buffer *out) {
    text_format(out,
                "# The kernel to make faster\n\nIt is verified, by %s.\n\n```tl\n%s```\n\n# What "
                "limits it\n\n",
                w->best.by, w->best.code);
    json_t *limits = limits_of(w->context, w->best.plan, w->best.facts);
    for (size_t i = 0; i < json_array_size(limits); i++) {
        text_format(out, "- %s\n", json_string_value(json_array_get(limits, i)));
    }
    json_decref(limits);
    text_add_z(out, "\n# What was tried\n\n| candidate | by | passed | TFLOPS | instructions and "
                    "wavefronts of a launch | tiles |\n|---|---|---|---|---|---|\n");
    for (size_t i = 0; i < json_array_size(w->tried); i++) {
        const json_t *row = json_array_get(w->tried, i);
        str code = str_from(json_text(row, "code")), tiles = STR("");
        while (code.length && !tiles.length) {
            str line = str_cut(&code, '\n');
            if (str_starts(line, STR("let "))) tiles = line;
        }
        text_format(out, "| %d | %s | %s | ", (int)json_number(row, "candidate"),
                    json_text(row, "by"),
                    json_is_true(json_object_get(row, "passed")) ? "yes" : json_text(row, "rung"));
        if (json_number(row, "tflops") > 0) text_format(out, "%.1f | ", json_number(row, "tflops"));
        else text_add_z(out, "not measured | ");
        text_format(out, "%.0f | `%.*s` |\n", json_number(row, "cost"), STR_ARGS(tiles));
    }
    text_add_z(out,
               "\nPropose one change that makes it faster, and answer with the whole of the TL "
               "Code. It counts only if it passes everything and is faster.\n");
}

ftl_status improve_best(workflow *w) {
    provider *p =
        w->run->agents[THINK_REASON] ? w->run->agents[THINK_REASON] : w->run->agents[THINK_SKETCH];
    conversation *v = NULL;
    char *sketch = str_new(str_from(w->best.sketch));
    ftl_status status = p ? FTL_OK
                          : ftl_context_fail(w->context, FTL_INVALID_ARGUMENT,
                                             "improving needs a model: --reason-by MODEL");
    for (int32_t round = 1; !status && round <= w->run->limits.improvements; round++) {
        if (!v) status = converse_open(w, THINK_REASON, p, sketch, NULL, &v);
        if (status) break;
        text_buffer question;
        judge_verdict verdict;
        text_init(&question, PROMPT_BYTES_MAX);
        write_improve_question(w, &question);
        converse_begin_anew(v, text_str(&question)); /* each proposal stands alone */
        text_done(&question);
        status = converse_once(v, 100 + round, w->run->limits.improvements - round, &verdict);
        if (status) break;
        if (verdict.passed) {
            status = workflow_consider(w, THINK_REASON, sketch, &verdict, verdict.product,
                                       verdict.product->kernels[0].cuda, provider_model(p));
        } else {
            workflow_add_tried(w, &verdict, w->candidates++, provider_model(p));
        }
        judge_done(&verdict);
    }
    if (v) converse_close(v);
    free(sketch);
    return status;
}
