/* Register tiles with `stages N`: whose generations are opened by writing values, and by which
 * statements. Operands of products: which way they lie.
 */
#include "tl/names.h"

bool tl_is_value_ring(const tl_kernel *kernel, const tl_symbol *symbol) {
    const tl_statement *allocation = symbol->in_register.allocation;
    int64_t stages;
    bool is_ring = allocation && allocation->allocate.stages &&
                   tl_known_integer(allocation->allocate.stages, &stages) && stages > 1;
    for (tl_statement *s = kernel->body.first; s && is_ring; s = tl_next(s, NULL)) {
        bool opens = s->kind == TL_COMPUTE && s->compute.is_async &&
                     s->compute.target_kind != TL_ACCUMULATE && s->compute.target &&
                     s->compute.target->symbol == symbol;
        if (opens) return false;
    }
    return is_ring;
}

bool tl_lies_across(const tl_operand *operand, bool is_right, const tl_statement *allocation) {
    bool contracted_is_rows = is_right != operand->is_transposed;
    return allocation && allocation->allocate.space == TL_SHARED &&
           contracted_is_rows != allocation->allocate.by_columns;
}

bool tl_writes(const tl_statement *s, const tl_symbol *symbol) {
    const tl_expr *written = tl_written_name(s);
    return written && written->symbol == symbol;
}

bool tl_writes_afresh(const tl_statement *s, const tl_symbol *symbol) {
    if (s->kind == TL_COPY) {
        tl_end target = tl_copy_target(s), source = tl_copy_source(s);
        return s->copy.to == TL_REGISTER && target.symbol == symbol && source.symbol != symbol;
    }
    if (s->kind != TL_COMPUTE || s->compute.target_kind == TL_ACCUMULATE) return false;
    if (!s->compute.target || s->compute.target->symbol != symbol) return false;
    for (int i = 0; i < s->compute.operand_count; i++) {
        if (tl_expr_mentions(s->compute.operands[i].value, symbol)) return false;
    }
    return true;
}
