/* A model that passed goes on: it sees what limits the best kernel and what was tried. */
#include "think/workflow.h"

#include "think/limits.h"

#include <stdlib.h>
#include <string.h>

/* --- improving -------------------------------------------------------------------------------- */

/* The decisions that are in a code's own lines: sizes, the role, and how many slots tiles have.
 */
static void add_decisions(str code, text_buffer *out) {
    static const char *const heads[] = {"let d", "let B", "role "};
    int stages = 1;
    const char *separator = "";
    while (code.length) {
        str line = str_cut(&code, '\n');
        for (size_t i = 0; i + 1 < line.length; i++) {
            if (line.data[i] == '/' && line.data[i + 1] == '/') line.length = i;
        }
        line = str_trim(line);
        for (size_t i = 0; i < sizeof heads / sizeof *heads; i++) {
            if (!str_starts(line, str_from(heads[i]))) continue;
            text_format(out, "%s`%.*s`", separator, STR_ARGS(line));
            separator = ", ";
        }
        static const char word[] = "stages ";
        for (size_t i = 0; i + sizeof word <= line.length; i++) {
            bool is_there = memcmp(line.data + i, word, sizeof word - 1) == 0;
            int count = is_there ? (int)strtol(line.data + i + sizeof word - 1, NULL, 10) : 1;
            if (count > stages) stages = count;
        }
    }
    text_format(out, "%sat most %d slots", separator, stages);
}

/* A table's cell holds no bars and no line ends. */
static void add_cell(str words, text_buffer *out) {
    enum { CELL_BYTES = 200 };
    for (size_t i = 0; i < words.length && i < CELL_BYTES; i++) {
        char c = words.data[i];
        text_add(out, c == '|' || c == '\n' ? STR("/") : (str){words.data + i, 1});
    }
}

static void add_row(const json_t *row, text_buffer *out) {
    double tflops = json_number(row, "tflops"), cost = json_number(row, "cost");
    bool passed = json_is_true(json_object_get(row, "passed"));
    text_format(out, "| %d | %s | ", (int)json_number(row, "candidate"), json_text(row, "by"));
    if (passed) text_add_z(out, "passed");
    else text_format(out, "failed '%s': ", json_text(row, "rung"));
    if (!passed) add_cell(str_from(json_text(row, "why")), out);
    if (tflops > 0)
        text_format(out, " | %.1f, %.3f of the built-in | ", tflops, json_number(row, "relative"));
    else text_add_z(out, " | not measured | ");
    if (cost > 0) text_format(out, "%.0f | ", cost);
    else text_add_z(out, "- | ");
    if (json_number(row, "threads") > 0) {
        text_format(out, "%d threads, %d bytes shared, %d blocks a multiprocessor; ",
                    (int)json_number(row, "threads"), (int)json_number(row, "shared_bytes"),
                    (int)json_number(row, "blocks"));
    }
    add_decisions(str_from(json_text(row, "code")), out);
    text_add_z(out, " |\n");
}

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
    text_add_z(out, "\n# What was tried\n\n| candidate | by | verdict | TFLOPS | instructions and "
                    "wavefronts of a launch | decisions |\n|---|---|---|---|---|---|\n");
    for (size_t i = 0; i < json_array_size(w->tried); i++)
        add_row(json_array_get(w->tried, i), out);
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
