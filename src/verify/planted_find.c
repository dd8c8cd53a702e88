/* Which Inputs meet in products, and what the results weigh: read from the statements of the
 * sketch, or of the TL Code where there is no other text. Views are followed to what they show.
 */
#include "verify/planted.h"

#include "verify/program.h"

#include <string.h>

enum { NAMES = 64, PRODUCTS = 16 };

/* What a name of the text holds: a matrix of an Input, or something computed (tensor -1). */
typedef struct operand {
    str name;
    int32_t tensor;
    int row, column; /* axes of the tensor */
    bool is_changed; /* computed of the matrix, element by element */
} operand;

typedef struct reading {
    const ftl_plan *plan;
    operand names[NAMES];
    int32_t name_count;
    planted_chain chains[PRODUCTS];
    int32_t chain_count;
    uint64_t scored, multiplied; /* as of planted */
} reading;

/* --- words ------------------------------------------------------------------------------------ */

static bool has_word(str text, str wanted) {
    while (text.length) {
        if (str_equal(str_cut_word(&text), wanted)) return wanted.length > 0;
    }
    return false;
}

/* Cuts a part off a list that a bracket ends: up to a comma or a semicolon outside brackets. */
static bool next_part(str *rest, str *part) {
    int depth = 0;
    size_t end = 0;
    if (!rest->length) return false;
    for (; end < rest->length; end++) {
        char c = rest->data[end];
        if (c == '(' || c == '[') depth++;
        if ((c == ')' || c == ']') && depth-- == 0) break;
        if ((c == ',' || c == ';') && depth == 0) break;
    }
    *part = (str){rest->data, end};
    bool is_last = end == rest->length || rest->data[end] == ')' || rest->data[end] == ']';
    size_t next = end < rest->length ? end + 1 : end;
    *rest = is_last ? (str){rest->data + next, 0} : (str){rest->data + next, rest->length - next};
    return true;
}

/* --- names ------------------------------------------------------------------------------------ */

/* A matrix of an Input; -1: it is none. */
static int32_t tensor_called(const ftl_plan *plan, str name) {
    int32_t t = 0;
    while (t < plan->tensor_count && !str_is(name, plan->tensors[t].name)) t++;
    bool is_matrix = t < plan->tensor_count && plan->tensors[t].role == FTL_INPUT &&
                     plan->tensors[t].type != FTL_I32 && plan->tensors[t].axis_count >= 2;
    return is_matrix ? t : -1;
}

static int32_t known(const reading *r, str name) {
    int32_t i = 0;
    while (i < r->name_count && !str_equal(r->names[i].name, name)) i++;
    return i;
}

/* TL Code calls a tile of K in shared memory K_shared. */
static operand look_up(const reading *r, str name) {
    for (str left = name; left.length;) {
        int32_t at = known(r, left), t = tensor_called(r->plan, left);
        if (at < r->name_count) return r->names[at];
        if (t >= 0) {
            int last = r->plan->tensors[t].axis_count - 1;
            return (operand){name, t, last - 1, last, false};
        }
        do left.length--;
        while (left.length && left.data[left.length] != '_');
    }
    return (operand){.name = name, .tensor = -1};
}

static void define(reading *r, str name, operand what) {
    int32_t at = known(r, name);
    what.name = name;
    if (at == NAMES) return;
    r->names[at] = what;
    if (at == r->name_count) r->name_count++;
}

/* The first matrix that is looked into: conditions before it look into tables. */
static operand base_of(const reading *r, str *rest) {
    while (rest->length) {
        operand found = look_up(r, str_cut_word(rest));
        if (found.tensor >= 0 && rest->length && rest->data[0] == '[') return found;
    }
    return (operand){.tensor = -1};
}

/* let NAME (a in x; b in y, c) = BASE[..., b % z, c]: which axes of the base its last two are. */
static void read_view(reading *r, str rest) {
    str name = str_cut_word(&rest), part, row = {0}, column = {0};
    str parameters = str_trim(rest);
    if (!parameters.length || parameters.data[0] != '(') return;
    parameters.data++, parameters.length--;
    while (next_part(&parameters, &part)) row = column, column = str_cut_word(&part);
    rest.length -= (size_t)(parameters.data - rest.data), rest.data = parameters.data;
    operand shown = base_of(r, &rest);
    if (shown.tensor < 0 || !row.length) {
        define(r, name, (operand){.tensor = -1});
        return;
    }
    str places = {rest.data + 1, rest.length - 1};
    int count = r->plan->tensors[shown.tensor].axis_count;
    for (int axis = 0; axis < count && next_part(&places, &part); axis++) {
        if (has_word(part, row)) shown.row = axis;
        if (has_word(part, column)) shown.column = axis;
    }
    if (shown.row == shown.column) shown.tensor = -1;
    define(r, name, shown);
}

/* --- statements ------------------------------------------------------------------------------- */

/* What a statement calls its result: the word after `get` or `accumulate`. */
static str result_of(str rest) {
    while (rest.length) {
        str word = str_cut_word(&rest);
        if (str_is(word, "get") || str_is(word, "accumulate")) return str_cut_word(&rest);
    }
    return (str){0};
}

static uint64_t bit_of(int32_t tensor) {
    return tensor >= 0 && tensor < 64 ? UINT64_C(1) << tensor : 0;
}

static void add_scores(reading *r, planted_chain chain) {
    for (int32_t i = 0; i < r->chain_count; i++) {
        const planted_chain *c = &r->chains[i];
        if (c->left.tensor == chain.left.tensor && c->right.tensor == chain.right.tensor) return;
    }
    if (r->chain_count < PRODUCTS) r->chains[r->chain_count++] = chain;
}

static void add_values(reading *r, planted_matrix values) {
    for (int32_t i = 0; i < r->chain_count; i++) {
        if (r->chains[i].values.tensor < 0) r->chains[i].values = values;
    }
}

/* Of Inputs: scores. Of something computed with an Input: what all scores before it weigh. */
static void read_product(reading *r, str rest) {
    str result = result_of(rest);
    operand both[2];
    for (int i = 0; i < 2; i++) {
        both[i] = look_up(r, str_cut_word(&rest));
        bool is_turned = rest.length > 1 && rest.data[0] == '.' && rest.data[1] == 'T';
        if (!is_turned) continue;
        int row = both[i].row;
        both[i].row = both[i].column, both[i].column = row;
        str_cut_word(&rest);
    }
    const operand *a = &both[0], *b = &both[1]; /* columns of a meet rows of b */
    planted_matrix left = {a->tensor, a->row, a->column}, right = {b->tensor, b->column, b->row};
    planted_matrix none = {.tensor = -1};
    r->multiplied |= bit_of(a->tensor) | bit_of(b->tensor);
    if (a->tensor >= 0 && b->tensor >= 0) r->scored |= bit_of(a->tensor);
    if (a->tensor >= 0 && b->tensor >= 0 && a->tensor != b->tensor)
        add_scores(
            r, (planted_chain){left, right, none, result, false, a->is_changed || b->is_changed});
    else if (a->tensor < 0 && b->tensor >= 0)
        add_values(r, (planted_matrix){b->tensor, b->row, b->column});
    else if (b->tensor < 0 && a->tensor >= 0)
        add_values(r, (planted_matrix){a->tensor, a->column, a->row});
    define(r, result, (operand){.tensor = -1});
}

static void read_compute(reading *r, str rest) {
    str operation = str_cut_word(&rest);
    if (str_is(operation, "GEMM")) {
        read_product(r, rest);
        return;
    }
    bool is_softmax = str_is(operation, "Softmax");
    for (int32_t i = 0; is_softmax && i < r->chain_count; i++)
        r->chains[i].has_softmax |= r->chains[i].values.tensor < 0;
    str result = result_of(rest), first = str_cut_word(&rest);
    operand what = is_softmax ? (operand){.tensor = -1} : look_up(r, first);
    what.is_changed |= !str_is(operation, "Cast"); /* a matrix still, but for its size */
    if (is_softmax || result.length) define(r, is_softmax ? first : result, what);
}

static void read_text(reading *r, str text) {
    while (text.length) {
        str line = str_cut(&text, '\n');
        line.length = str_find(line, STR("//"));
        str word = str_cut_word(&line);
        if (str_is(word, "let")) read_view(r, line);
        else if (str_is(word, "Compute")) read_compute(r, line);
        if (!str_is(word, "Copy")) continue;
        str result = result_of(line), name = str_cut_word(&line);
        if (result.length) define(r, result, look_up(r, name));
    }
}

/* --- turns ------------------------------------------------------------------------------------ */

static planted_part part_in(const planted_chain *c, int32_t tensor) {
    if (c->left.tensor == tensor) return PLANTED_LEFT;
    if (c->right.tensor == tensor) return PLANTED_RIGHT;
    return c->values.tensor == tensor ? PLANTED_VALUES : PLANTED_NOTHING;
}

planted_part planted_part_of(const planted *p, int32_t tensor) {
    if (p->scored & bit_of(tensor)) return PLANTED_LEFT;
    return p->multiplied & bit_of(tensor) ? PLANTED_VALUES : PLANTED_NOTHING;
}

static const planted_matrix *matrix_of(const planted_chain *c, planted_part part) {
    return part == PLANTED_LEFT ? &c->left : part == PLANTED_RIGHT ? &c->right : &c->values;
}

/* Neither gives a tensor another part than the other does, nor are their scores one sum. */
static bool may_meet(const planted_chain *a, const planted_chain *b) {
    const int32_t tensors[] = {a->left.tensor, a->right.tensor, a->values.tensor};
    for (int i = 0; i < 3; i++) {
        if (tensors[i] < 0) continue;
        planted_part part = part_in(a, tensors[i]), again = part_in(b, tensors[i]);
        const planted_matrix *one = matrix_of(a, part), *other = matrix_of(b, again);
        bool is_same =
            part == again && one->row == other->row && one->contracted == other->contracted;
        if (again != PLANTED_NOTHING && !is_same) return false;
    }
    return !(str_equal(a->scores, b->scores) && a->values.tensor == b->values.tensor);
}

static bool fits(const planted *p, const planted_chain *chain) {
    if (p->count == PLANTED_CHAINS) return false;
    for (int32_t i = 0; i < p->count; i++) {
        if (!may_meet(&p->chains[i], chain)) return false;
    }
    return true;
}

static void put(planted_turns *all, const planted_chain *chain) {
    int32_t turn = 0;
    while (turn < all->count && !fits(&all->turns[turn], chain)) turn++;
    if (turn == PLANTED_TURNS) return;
    planted *p = &all->turns[turn];
    if (turn == all->count) all->count++;
    p->chains[p->count++] = *chain;
}

/* Sums of keys by weights that no softmax divides grow as keys do, and so do the roundings that all
 * weights have in common.
 */
static void drop_sums_of_keys(reading *r) {
    int32_t kept = 0;
    for (int32_t i = 0; i < r->chain_count; i++) {
        const planted_chain *c = &r->chains[i];
        bool is_kept = c->has_softmax || c->values.tensor != c->right.tensor;
        if (is_kept) r->chains[kept++] = *c;
    }
    r->chain_count = kept;
}

planted_turns planted_find(const verify_program *program) {
    reading r = {.plan = program->plan};
    planted_turns all = {0};
    read_text(&r, program_text(program));
    drop_sums_of_keys(&r);
    for (int weighs = 1; weighs >= 0; weighs--) { /* those that weigh something first */
        for (int32_t i = 0; i < r.chain_count; i++) {
            if ((r.chains[i].values.tensor >= 0) == weighs) put(&all, &r.chains[i]);
        }
    }
    if (!all.count) all.count = 1;
    for (int32_t i = 0; i < all.count; i++) {
        all.turns[i].scored = r.scored, all.turns[i].multiplied = r.multiplied;
    }
    return all;
}

bool planted_has_scores(const planted *p) {
    return p->count > 0;
}

bool planted_has_values(const planted *p) {
    return p->count > 0 && p->chains[0].values.tensor >= 0;
}
