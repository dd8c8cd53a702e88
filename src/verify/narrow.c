#include "verify/narrow.h"

#include "base/text.h"

static bool has(str line, const char *words) {
    return str_find(line, str_from(words)) < line.length;
}

/* What the largest weight of a row is, at least. A maximum that moves by a vote leaves room above
 * it.
 */
static const double RAISED = 256, RAISED_BELOW_A_VOTE = 8;

narrow narrow_of(const verify_program *program) {
    narrow n = {0};
    bool has_floats = false; /* sums of whole numbers are exact */
    str rest = {program->code.text, program->code.text ? program->code.length : 0};
    while (rest.length) {
        str line = str_cut(&rest, '\n');
        str code = str_cut(&line, '/'); /* comments apart */
        bool is_byte = has(code, " e4m3 (") || has(code, " e5m2 (");
        bool in_registers = has(code, "Allocate ") && has(code, " in register ");
        has_floats |= has(code, "Allocate ") && is_byte;
        n.weights |= in_registers && is_byte && has(code, " as mma_C");
        n.is_voted |= has(code, " = any(not ");
        n.is_linear |= has(code, "Compute FromCode ");
        n.has_e5m2 |= in_registers && has(code, " e5m2 (");
        n.products |=
            has(code, "Compute GEMM ") && (has(code, " by m16n8k32") || has(code, "k32 async"));
    }
    n.products &= has_floats;
    n.largest_weight = n.is_voted ? RAISED_BELOW_A_VOTE : RAISED;
    return n;
}
