/* Why a program is as it is: the reasoner's decisions, or what the checks know of TL Code. */
#include "base/needs.h"
#include "check/check.h"
#include "compile/compile.h"
#include "reason/reason.h"

typedef struct explain_arguments {
    const ftl_source *source;
    const ftl_options *options;
    const char *gpu_name;
    bool is_code;
    text_buffer out;
} explain_arguments;

static void explain_shared(const check_facts *facts, const gpu *target, text_buffer *out) {
    text_format(out, "shared memory: %lld bytes", (long long)facts->shared_bytes);
    if (target) {
        text_format(out, " of %lld that a block of %.*s can have", (long long)target->block_shared,
                    STR_ARGS(target->name));
    }
    text_add_z(out, "\n");
    for (int i = 0; i < facts->shared_count; i++) {
        const check_shared *tile = &facts->shared[i];
        text_format(out, "  %-12.*s at %6lld, %6lld bytes", STR_ARGS(tile->tile->name),
                    (long long)tile->offset_bytes, (long long)tile->bytes);
        if (tile->bytes != tile->slot_bytes) {
            text_format(out, " in slots of %lld", (long long)tile->slot_bytes);
        }
        text_add_z(out, "\n");
    }
}

bool compile_describe_sync(const check_sync *sync, text_buffer *line) {
    bool waits_groups = sync->groups_pending >= 0 && sync->statement->kind == TL_WAIT;
    bool says_nothing = sync->joins_next_wait || (!sync->barrier_before && !waits_groups &&
                                                  !sync->commits && !sync->uses_mbarrier);
    if (says_nothing) return false;
    if (sync->uses_mbarrier) text_add_z(line, " waits for the slot's mbarrier");
    if (waits_groups) {
        text_format(line, " all but the last %d cp.async groups have landed", sync->groups_pending);
    }
    if (sync->barrier_before) {
        text_format(line, "%s %s", waits_groups ? ", then" : "",
                    sync->is_warp_scope ? "a barrier of the warp" : "a barrier of the block");
    }
    if (sync->commits) text_add_z(line, " commits a cp.async group");
    return true;
}

static void explain_sync(const check_sync *sync, text_buffer *out) {
    text_buffer line;
    text_init(&line, 1 << 20);
    tl_print_header(sync->statement, &line);
    text_add_z(&line, ":");
    if (compile_describe_sync(sync, &line)) text_wrap(out, 2, 6, text_str(&line));
    out->failed |= line.failed;
    text_done(&line);
}

static ftl_status explain_kernel(ftl_context *context, explain_arguments *a, tl_kernel *kernel) {
    gpu target;
    const gpu *known;
    check_facts facts;
    ftl_status status = compile_gpu_if_said(context, kernel, a->gpu_name, &target, &known);
    if (status) return status;
    if (!check_code(kernel, known, &context->memory, &context->diags, &facts)) {
        return compile_verdict(context);
    }
    text_format(&a->out, "kernel %.*s%s%.*s\n", STR_ARGS(kernel->name), known ? " for " : "",
                STR_ARGS(known ? known->name : STR("")));
    explain_shared(&facts, known, &a->out);
    text_format(&a->out, "registers: about %d a thread\n", facts.registers_estimate);
    text_format(&a->out, "hazard rules: %d runs, %d events, nothing found\n", facts.run_count,
                facts.event_count);
    text_add_z(&a->out, "synchronisation:\n");
    for (int i = 0; i < facts.sync_count; i++) explain_sync(&facts.syncs[i], &a->out);
    return FTL_OK;
}

static ftl_status explain_code(ftl_context *context, void *arguments) {
    explain_arguments *a = arguments;
    tl_program *program = compile_bind(context, a->source);
    a->is_code = program && reason_is_code(program->first);
    if (!program) return compile_verdict(context);
    ftl_status wrong = a->is_code ? compile_check_pins(context, program, a->options) : FTL_OK;
    if (wrong) return wrong;
    for (tl_kernel *k = a->is_code ? program->first : NULL; k; k = k->next) {
        ftl_status status = explain_kernel(context, a, k);
        if (status) return status;
    }
    return FTL_OK;
}

ftl_status ftl_explain(ftl_context *context, const ftl_source *source, const ftl_options *options,
                       char **text) {
    NEEDS_RESULT(text);
    NEEDS(source);
    ftl_options taken = FTL_OPTIONS_INIT;
    ftl_status status = options ? compile_take_options(context, options, &taken) : FTL_OK;
    if (status) return status;
    explain_arguments a = {.source = source, .options = &taken, .gpu_name = taken.gpu};
    text_init(&a.out, 16 << 20);
    status = compile_guarded(context, explain_code, &a);
    if (!status && a.is_code) return compile_hand_over(context, &a.out, text);
    text_done(&a.out);
    if (status) return status;
    NEEDS(options);
    return compile_explain_sketch(context, source, &taken, text);
}

ftl_status ftl_passes(ftl_context *context, char **text) {
    NEEDS_RESULT(text);
    text_buffer out;
    text_init(&out, 1 << 16);
    text_add_z(&out, "passes\n");
    for (const reason_pass_entry *pass = reason_pass_list(); pass->name; pass++) {
        text_format(&out, "  %-16s %s\n", pass->name, pass->doc);
    }
    text_add_z(&out, "decisions that may be pinned, beside tile sizes\n");
    for (const reason_pass_entry *pin = reason_pin_list(); pin->name; pin++) {
        text_format(&out, "  %-16s %s\n", pin->name, pin->doc);
    }
    return compile_hand_over(context, &out, text);
}
