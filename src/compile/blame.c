#include "compile/blame.h"
#include "reason/edit.h"

/* --- where ------------------------------------------------------------------------------------ */

int blame_kernel(const tl_program *read, uint32_t offset) {
    int number = 0;
    for (const tl_kernel *k = read->first ? read->first->next : NULL; k; k = k->next, number++)
        if (k->range.begin > offset) break;
    return number;
}

/* The statement made by the reasoner that the finding is about: text and tree have the same
 * statements in the same order. NULL: none of them.
 */
static tl_statement *find_made(const blame_case *c, int number) {
    tl_kernel *read = tl_kernel_at(c->read, number), *made = tl_kernel_at(c->made, number);
    uint32_t at = c->finding->range.begin;
    if (!read || !made) return NULL;
    tl_statement *m = made->body.first;
    for (tl_statement *s = read->body.first; s && m; s = tl_next(s, NULL), m = tl_next(m, NULL)) {
        if (s->kind != m->kind) return NULL;
        if (s->range.begin <= at && at < s->range.end) return m;
    }
    return NULL;
}

/* What a statement is about: the tile that it makes, moves or waits for. */
static str subject_of(const tl_statement *s) {
    switch (s->kind) {
    case TL_ALLOCATE: return s->allocate.name_count > 0 ? s->allocate.names[0] : STR("");
    case TL_COPY: return edit_bare(tl_copy_into(s)->text);
    case TL_WAIT:
    case TL_RELEASE: return edit_bare(s->sync.what->text);
    case TL_RESHAPE: return edit_bare(s->reshape.what->text);
    case TL_FOR: return s->loop.name;
    case TL_COMPUTE: return edit_bare(edit_target_name(s));
    default: return STR("");
    }
}

static tl_statement *find_by_subject(const tl_kernel *sketch, str subject) {
    for (tl_statement *s = sketch->body.first; s; s = tl_next(s, NULL))
        if (s->kind != TL_LET && subject.length > 0 && str_equal(subject_of(s), subject)) return s;
    return NULL;
}

/* The last statement of the user's before 'made', then the one around it. */
static diag_range nearest_range(const tl_kernel *kernel, tl_statement *made) {
    diag_range found = {0, 0};
    for (tl_statement *s = kernel->body.first; s && s != made; s = tl_next(s, NULL)) {
        bool acts = s->kind == TL_COPY || s->kind == TL_COMPUTE || s->kind == TL_FOR;
        if (acts && s->range.end > 0) found = s->range;
    }
    return found;
}

static diag_range find_range(const blame_case *c, int number) {
    tl_kernel *sketch = tl_kernel_at(c->sketch, number), *made = tl_kernel_at(c->made, number);
    if (!sketch || !made) return (diag_range){0, 0};
    tl_statement *s = find_made(c, number);
    if (s && s->range.end > 0) return s->range;
    tl_statement *named = s ? find_by_subject(sketch, subject_of(s)) : NULL;
    if (named) return named->range;
    diag_range nearest = s ? nearest_range(made, s) : (diag_range){0, 0};
    return nearest.end > 0 ? nearest : sketch->range;
}

/* --- what ------------------------------------------------------------------------------------- */

static bool has_symbol(const tl_program *program, str name) {
    for (const tl_kernel *k = program->first; k; k = k->next)
        for (int i = 0; i < k->symbol_count; i++)
            if (str_equal(k->symbols[i]->name, name)) return true;
    return false;
}

/* The words of the TL Code that a sketch does not have. */
static bool is_foreign(str word) {
    static const char *const words[] = {"role", "Wait", "Release", "Allocate",   "warps", "warp",
                                        "grid", "TL",   "CUDA",    "warpgroups", "mma_C", "mma_A"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (str_is(word, words[i])) return true;
    return false;
}

/* A finding's message with the names of the sketch; empty where it has others. */
static str message_of_sketch(const blame_case *c, arena *memory, str message) {
    text_buffer text;
    text_init_in(&text, memory);
    bool is_known = true;
    while (message.length > 0) {
        size_t n = 0;
        while (n < message.length && str_is_word(message.data[n])) n++;
        str word = {message.data, n > 0 ? n : 1};
        str bare = n > 0 ? edit_bare(word) : word;
        bool is_name = has_symbol(c->read, bare) || bare.length < word.length;
        if ((is_name && !has_symbol(c->sketch, bare)) || is_foreign(word)) is_known = false;
        text_add(&text, bare);
        message.data += word.length;
        message.length -= word.length;
    }
    return is_known ? text_str(&text) : STR("");
}

/* The findings that a user of sketches understands, where the names are theirs. */
static bool speaks_of_sketches(diag_id id) {
    switch (id) {
    case DIAG_VIEW_OUTSIDE:
    case DIAG_PLACE_BEFORE:
    case DIAG_END_HOLDS:
    case DIAG_OUTPUT_BY_ALL:
    case DIAG_TYPE_PRODUCT:
    case DIAG_TYPE_OPERANDS:
    case DIAG_TYPE_ACCUMULATOR:
    case DIAG_TYPE_ATOMIC:
    case DIAG_TYPE_COPY:
    case DIAG_GPU_LACKS:
    case DIAG_TRANSLATE_UNSUPPORTED: return true;
    default: return false;
    }
}

typedef struct family {
    diag_id first, last;
    const char *cannot, *advice;
} family;

static const char smaller[] =
    "pin smaller tiles (`let BM = 64`, `let BN = 32`), or hold fewer tiles at a time";
static const char apart[] =
    "copy the tile a second time under another name for the other use, or compute that in a kernel "
    "of its own";

static const family families[] = {
    /* A passage of its own that the reasoner cannot read has the name of nothing (tl/quote.c). */
    {DIAG_NAME_UNDEFINED, DIAG_NAME_UNDEFINED,
     "an expression in it would be longer or deeper than one may be",
     "take fewer terms together in one expression, or divide the kernel"},
    {DIAG_OPEN_ROLE, DIAG_STAGES, "it leaves open what a kernel has to know",
     "say more: types, lengths, names of tiles"},
    {DIAG_SHAPE_RANGE, DIAG_SHAPE_CONTRACTED, "a tile would get a length that tiles cannot have",
     "pin tile sizes (`let BN = 64`), or give the axes other lengths"},
    {DIAG_GPU_LACKS, DIAG_ATOM_WIDTH, "no instruction does this with these types and tiles",
     "choose other types, or another order of the operands"},
    {DIAG_VIEW_OUTSIDE, DIAG_PLACE_BEFORE, "elements outside of a tensor would be read or written",
     "let the axes of the view end where its elements do, or exclude these lengths by `where`"},
    {DIAG_LAYOUT_OPERAND, DIAG_LAYOUT_OTHER_WAY,
     "its uses ask for the same values in different threads", apart},
    {DIAG_HAZARD_TOO_LONG, DIAG_HAZARD_TOO_LONG,
     "its loops of fixed length have more steps than can be checked",
     "shorten these loops, or divide the kernel"},
    {DIAG_HAZARD_TOO_MANY, DIAG_HAZARD_TOO_MANY,
     "its bounds and conditions depend on more lengths and table elements than can be checked",
     "divide the kernel"},
    {DIAG_HAZARD_UNREACHED, DIAG_HAZARD_UNREACHED,
     "no lengths were found for which all steps of its loops are run",
     "let each loop have several steps for some lengths (with a smaller tile: `let BN = 32`), or "
     "write the bounds and conditions more simply"},
    {DIAG_HAZARD_NOT_WAITED, DIAG_HAZARD_OTHER_STANDS,
     "no order of copies and waits was found that serves all uses of its tiles", apart},
    {DIAG_BUDGET_SHARED, DIAG_BUDGET_IN_PLACE, "its tiles need more shared memory than a block has",
     smaller},
    {DIAG_BUDGET_THREADS, DIAG_BUDGET_THREADS, "it needs more threads than a block has", smaller},
    {DIAG_BUDGET_ROLE_REGISTERS, DIAG_BUDGET_LIVE,
     "the tiles that are needed here at the same time take more registers than a thread has",
     smaller},
    {DIAG_OUTPUT_ADDED, DIAG_OUTPUT_ADDED,
     "several of its tiles would add the same values to an Output",
     "compute this Output in a kernel of its own"},
    {DIAG_OUTPUT_NEVER, DIAG_COPY_DEAD,
     "its tiles would not write each element of the Outputs exactly once",
     "write each Output by one Copy after the loops, or with `and accumulate`"},
    {DIAG_END_HOLDS, DIAG_END_MASK,
     "what stands after the end of an axis would get into the result",
     "set it first: `Compute Mask X, 0 where ...` or `Compute Mask X where ...`"},
    {DIAG_TRANSLATE_UNSUPPORTED, DIAG_TRANSLATE_UNSUPPORTED, "this GPU has no instructions for it",
     "write it in another way, or compute it in a kernel of its own"},
    {DIAG_CONTROL_NOT_COVERED, DIAG_CONTROL_NOT_COVERED,
     "whether the loops reach every element of its tiles cannot be shown",
     "walk the axis by one loop `for j = 0:LENGTH/BN`, or compute the parts in kernels of their "
     "own"},
};

static blame_verdict family_of(diag_id id) {
    for (size_t i = 0; i < sizeof families / sizeof *families; i++)
        if (families[i].first <= id && id <= families[i].last)
            return (blame_verdict){.cannot = str_from(families[i].cannot),
                                   .advice = str_from(families[i].advice)};
    return (blame_verdict){.cannot = STR("the tiles that its steps need do not fit together"),
                           .advice = str_from(apart)};
}

blame_verdict blame_sketch(const blame_case *c, arena *memory) {
    int number = blame_kernel(c->read, c->finding->range.begin);
    blame_verdict verdict = family_of(c->finding->id);
    verdict.range = find_range(c, number);
    str message = c->finding->message;
    if (c->finding->id == DIAG_TRANSLATE_UNSUPPORTED) { /* "X cannot be translated for a100: why" */
        str why = message;
        str_cut(&why, ':');
        if (why.length > 0) message = str_trim(why);
    }
    str said = speaks_of_sketches(c->finding->id) ? message_of_sketch(c, memory, message) : STR("");
    if (said.length > 0) verdict.cannot = said;
    str title = c->target ? c->target->title : STR("any GPU");
    verdict.cannot = str_format(memory, "no kernel for %.*s can be made of this: %.*s",
                                STR_ARGS(title), STR_ARGS(verdict.cannot));
    return verdict;
}

void blame_report(const blame_verdict *verdict, diag_list *diags) {
    diag_report(diags, DIAG_REASON_STUCK, verdict->range, verdict->cannot);
    diag_report(diags, DIAG_REASON_ADVICE, ((diag_range){0, 0}), verdict->advice);
}
