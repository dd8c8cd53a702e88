/* What the files of the workflow share: its state, the record, and conversations. */
#ifndef FLASHTL_THINK_WORKFLOW_H
#define FLASHTL_THINK_WORKFLOW_H

#include "think/think.h"

/* A kernel that passed. */
typedef struct candidate {
    char *sketch, *code, *cuda;
    ftl_plan *plan;
    json_t *facts;
    think_rung rung;
    double tflops, relative, cost;
    int32_t number;
    char by[PROVIDER_NAME_BYTES];
} candidate;

typedef struct workflow {
    ftl_context *context;
    const think_run *run;
    think_result *result;
    candidate best;
    bool has_best;
    int32_t candidates;
    const record_reader *recording; /* of a replay */
    int32_t verdicts;               /* judged so far: which recorded time is next */
    int64_t tokens;
    char *failed_text; /* the text that got furthest, when none passed */
    think_rung failed_rung;
    json_t *tried; /* rows of the table that improving shows: the first, and the last ones */
} workflow;

/* --- loop.c ----------------------------------------------------------------------------------- */

ftl_status workflow_out_of_memory(workflow *w);
void workflow_tell(const workflow *w, const think_news *news);
json_t *workflow_text(const char *text, size_t length); /* of a record */
/* Adds to the record, if there is one; takes over 'fields'. */
ftl_status workflow_add_event(workflow *w, const char *event, json_t *fields);
ftl_status workflow_record_verdict(workflow *w, think_step step, int32_t round, const char *by,
                                   judge_verdict *v);
/* Takes a kernel that passed, if it is the first or faster. */
ftl_status workflow_consider(workflow *w, think_step step, const char *sketch,
                             const judge_verdict *v, const ftl_product *product, const char *cuda,
                             const char *by);
/* A row of the table of what was tried. */
void workflow_add_tried(workflow *w, const judge_verdict *v, int32_t number, const char *by);
/* Keeps the text that got furthest. */
void workflow_keep_failure(workflow *w, const judge_verdict *v);

/* --- converse.c: what is asked in a step, and of what its answers are judged against ---------- */

typedef struct conversation conversation;

ftl_status converse_open(workflow *w, think_step step, provider *p, const char *sketch,
                         const ftl_product *product, conversation **out);
void converse_close(conversation *v);
/* Forgets what was said; goes on with this question. */
void converse_begin_anew(conversation *v, str question);
/* One question and its verdict, which the caller frees on OK. */
ftl_status converse_once(conversation *v, int32_t round, int32_t left, judge_verdict *verdict);
/* Asks until an answer passes. CHECK_FAILED when none did. */
ftl_status converse_step(workflow *w, think_step step, const char *sketch,
                         const ftl_product *product, judge_verdict *verdict);

/* --- improve.c -------------------------------------------------------------------------------- */

/* Lets a model propose changes to the best kernel. */
ftl_status improve_best(workflow *w);

#endif
