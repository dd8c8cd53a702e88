/* Element types for the tensors of a sketch whose type its text leaves open. */
#include "base/nearest.h"
#include "base/needs.h"
#include "compile/compile.h"

#include <string.h>

typedef struct types_arguments {
    const ftl_source *source;
    const ftl_pin *types;
    int32_t count;
    text_buffer out;
} types_arguments;

static bool is_tensor(const tl_statement *s) {
    return tl_is_parameter(s) && s->parameter.axes.count > 0;
}

/* --- what products take ----------------------------------------------------------------------- */

static bool is_named(const tl_expr *e, str name) {
    return e && (e->kind == TL_NAME || e->kind == TL_ELEMENT) && str_equal(e->text, name);
}

typedef struct shown {
    const tl_kernel *kernel;
    str tensor;
    int depth;
} shown;

/* Is it the tensor, or does it show the tensor by views? */
static bool shows(const shown *of, str name) {
    enum { DEPTH_MOST = 16 };
    if (str_equal(name, of->tensor)) return true;
    for (const tl_statement *s = of->kernel->body.first; s; s = s->next)
        for (int i = 0; s->kind == TL_LET && i < s->let.count; i++) {
            const tl_binding *view = &s->let.items[i];
            const tl_expr *e = view->value;
            if (view->axes.count == 0 || !str_equal(view->name, name)) continue;
            bool selects = e->kind == TL_CALL && e->item_count == 3;
            if (selects) e = e->items[1];
            shown deeper = *of;
            return ++deeper.depth < DEPTH_MOST && e->kind == TL_ELEMENT && shows(&deeper, e->text);
        }
    return false;
}

/* How statements use a tile: bits. */
enum { USE_PRODUCT = 1, USE_OTHER = 2 };

static int uses_of(const tl_kernel *kernel, str tile) {
    int uses = 0;
    for (tl_statement *s = kernel->body.first; s; s = tl_next(s, NULL)) {
        if (s->kind != TL_COMPUTE) continue;
        bool is_product = s->compute.operation == TL_GEMM;
        for (int i = 0; i < s->compute.operand_count; i++)
            if (is_named(s->compute.operands[i].value, tile))
                uses |= is_product ? USE_PRODUCT : USE_OTHER;
        if (is_named(s->compute.target, tile)) uses |= USE_OTHER;
    }
    return uses;
}

/* Is the Input an operand of products, and nothing else computed of it? */
static bool is_operand(const tl_program *program, str tensor) {
    int uses = 0;
    for (const tl_kernel *k = program->first; k; k = k->next)
        for (tl_statement *s = k->body.first; s; s = tl_next(s, NULL)) {
            bool is_load = s->kind == TL_COPY && s->copy.from == TL_GLOBAL;
            if (!is_load || !shows(&(shown){.kernel = k, .tensor = tensor}, s->copy.what->text))
                continue;
            uses |= uses_of(k, tl_copy_into(s)->text);
        }
    return uses == USE_PRODUCT;
}

static bool is_every(const ftl_pin *pin) {
    return strcmp(pin->name, FTL_EVERY_OPERAND) == 0;
}

/* Is its type chosen with those of all operands? */
static bool is_open_operand(const tl_program *program, const tl_statement *s) {
    return s->kind == TL_INPUT && is_tensor(s) && s->parameter.type == TL_OPEN &&
           is_operand(program, s->parameter.name);
}

static ftl_status judge_every(ftl_context *context, const tl_program *program, const char *type) {
    for (const tl_kernel *k = program->first; k; k = k->next)
        for (const tl_statement *s = k->body.first; s; s = s->next)
            if (is_open_operand(program, s)) return FTL_OK;
    return ftl_context_fail(context, FTL_REJECTED,
                            "no Input of kernel '%.*s' whose type is open is an operand of "
                            "products and of nothing else, so none can be %s",
                            STR_ARGS(program->first->name), type);
}

/* --- judging ---------------------------------------------------------------------------------- */

static ftl_status judge_one(ftl_context *context, const tl_program *program, const ftl_pin *pin) {
    char words[NEAREST_BYTES];
    str name = str_from(pin->name);
    nearest near = {.wanted = name};
    bool is_type = false;
    text_buffer types;
    text_init_in(&types, &context->memory);
    for (int type = TL_OPEN + 1; type <= TL_I32; type++) {
        is_type |= str_is(str_from(pin->value), tl_type_name((tl_type)type));
        const char *before = type == TL_OPEN + 1 ? "" : type == TL_I32 ? " and " : ", ";
        text_format(&types, "%s%s", before, tl_type_name((tl_type)type));
    }
    if (!is_type)
        return ftl_context_fail(context, FTL_INVALID_ARGUMENT,
                                "'%.40s' is no element type; there are %.*s", pin->value,
                                (int)types.length, types.data);
    if (is_every(pin)) return judge_every(context, program, pin->value);
    bool is_found = false;
    for (const tl_kernel *k = program->first; k; k = k->next)
        for (const tl_statement *s = k->body.first; s; s = s->next) {
            if (!is_tensor(s)) continue;
            nearest_offer(&near, s->parameter.name);
            if (!str_equal(s->parameter.name, name)) continue;
            is_found = true;
            if (s->parameter.type == TL_OPEN ||
                str_is(str_from(pin->value), tl_type_name(s->parameter.type)))
                continue;
            return ftl_context_fail(context, FTL_INVALID_ARGUMENT,
                                    "%.*s is %s in the text; a type is chosen only where the text "
                                    "leaves it open",
                                    STR_ARGS(name), tl_type_name(s->parameter.type));
        }
    if (is_found) return FTL_OK;
    return ftl_context_fail(context, FTL_NOT_FOUND,
                            "no Input or Output with axes is called '%.*s'%s", STR_ARGS(name),
                            nearest_words(&near, "", words));
}

/* A tensor's own choice goes before that of all operands. */
static const ftl_pin *type_of(const types_arguments *a, const tl_program *program,
                              const tl_statement *s) {
    const ftl_pin *every = NULL;
    for (int32_t i = 0; i < a->count; i++) {
        if (str_is(s->parameter.name, a->types[i].name)) return &a->types[i];
        if (is_every(&a->types[i])) every = &a->types[i];
    }
    return every && is_open_operand(program, s) ? every : NULL;
}

/* Each type is put right after its tensor's name, so that lines stay where they are. */
static void write_types(types_arguments *a, const tl_program *program) {
    str source = program->source;
    size_t done = 0;
    for (const tl_kernel *k = program->first; k; k = k->next)
        for (const tl_statement *s = k->body.first; s; s = s->next) {
            const ftl_pin *pin = is_tensor(s) ? type_of(a, program, s) : NULL;
            if (!pin || s->parameter.type != TL_OPEN) continue;
            str name = s->parameter.name;
            size_t at = s->range.begin + strlen(s->kind == TL_INPUT ? "Input" : "Output");
            while (!str_starts((str){source.data + at, source.length - at}, name)) at++;
            at += name.length;
            text_add(&a->out, (str){source.data + done, at - done});
            text_format(&a->out, " %s", pin->value);
            done = at;
        }
    text_add(&a->out, (str){source.data + done, source.length - done});
}

static ftl_status set_types(ftl_context *context, void *arguments) {
    types_arguments *a = arguments;
    const tl_program *program = compile_read(context, a->source);
    ftl_status status = compile_verdict(context);
    for (int32_t i = 0; !status && i < a->count; i++)
        status = judge_one(context, program, &a->types[i]);
    if (!status) write_types(a, program);
    return status;
}

ftl_status ftl_set_types(ftl_context *context, const ftl_source *source, const ftl_pin *types,
                         int32_t count, char **out) {
    NEEDS_RESULT(out);
    NEEDS(source);
    if (!compile_is_pin_list(types, count)) {
        return ftl_context_fail(context, FTL_INVALID_ARGUMENT,
                                "the list of types is null, or an entry");
    }
    types_arguments a = {source, types, count, {0}};
    text_init(&a.out, TL_SOURCE_BYTES_MAX);
    return compile_to_text(context, set_types, &a, &a.out, out);
}
