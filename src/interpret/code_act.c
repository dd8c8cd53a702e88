/* What one executor does at a statement. */
#include "interpret/code.h"

static code_outcome reshape(code_executor *e, const tl_statement *s) {
    const tl_expr *name = s->reshape.what;
    code_register *r = code_register_of(e, name);
    channels_source unused;
    if (!r || !code_read_register(e, name, &unused) || !code_write_register(e, name, false)) {
        return CODE_FAILED;
    }
    tl_layout from = s->reshape.from, to = s->reshape.to;
    model_complete_reshape(&r->layout, &from, &to);
    if (!model_same_words(e->code->model, r->number, &r->layout, &from)) {
        str rule = str_format(e->code->m->memory, "this Reshape starts from %.*s",
                              STR_ARGS(tl_layout_words(e->code->m->memory, &s->reshape.from)));
        code_stop_layout(e, name, r, rule, NULL);
        return CODE_FAILED;
    }
    code_set_layout(r, &to, s);
    return CODE_DONE;
}

static code_outcome let(code_executor *e, const tl_statement *s) {
    for (int i = 0; i < s->let.count; i++) {
        const tl_binding *binding = &s->let.items[i];
        tl_value value;
        e->scope.at = s;
        if (!scope_value(&e->scope, binding->value, &value)) return CODE_FAILED;
        scope_set_value(&e->scope, binding->symbol, value);
    }
    return CODE_DONE;
}

static code_outcome allocate(code_executor *e, const tl_statement *s) {
    for (int i = 0; i < s->allocate.name_count; i++) {
        code_register *r = e->registers[s->allocate.symbols[i]->position];
        if (s->allocate.space != TL_REGISTER || !r) continue;
        for (int n = 0; n < r->stages; n++) {
            r->slots[n].is_defined = false;
            code_forget_origin(&r->slots[n]);
        }
        e->sync->rings[r->number] = (channels_ring){0};
    }
    return CODE_DONE;
}

code_outcome code_act(code_executor *e, const tl_statement *s) {
    switch (s->kind) {
    case TL_LET: return let(e, s);
    case TL_ALLOCATE: return allocate(e, s);
    case TL_COPY: return code_copy(e, s);
    case TL_COMPUTE: return code_compute(e, s);
    case TL_RESHAPE: return reshape(e, s);
    case TL_WAIT: return code_wait(e, s);
    case TL_RELEASE: return code_release(e, s);
    default: return CODE_DONE;
    }
}
