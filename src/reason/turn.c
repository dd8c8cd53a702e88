/* Right operands of 8 bits that lie across are turned by a kernel of their own.
 *
 * Products of 8 bits by warpgroups take a right operand whose contracted axis is the contiguous one
 * (decision 022). A V that lies as rows is the other way round: a kernel before writes it turned,
 * `V_turned`, to the program's workspace, and the kernel at hand reads that. It pays where products
 * save more time than it takes to read and write the operand once, by the cost model's word on both
 * forms; `turn` decides otherwise. This is before the first pass, since the kernel that turns is a
 * sketch and goes through all of them.
 */
#include "reason/cost.h"
#include "reason/nominal.h"
#include "tl/names.h"

#include <math.h>

enum {
    ROWS_OF_LINES = 32, /* two lanes' share of a line: whole sectors of 32 bytes are written */
};

/* Of device memory's rate, what a kernel that turns reaches. */
static const double TURN_SHARE = 0.5;

typedef struct across {
    str tensor, turned; /* names: of the Input, and of what it becomes */
    bool is_permuted;   /* turned, it is in the order of accumulators, as its left operands are */
} across;

typedef struct operands {
    across items[REASON_TURNED_MOST];
    int count;
} operands;

/* --- what lies across ------------------------------------------------------------------------- */

static tl_statement *input_of(reason *r, str tensor) {
    tl_tensor t;
    bool is_there = tl_find_tensor(r->kernel, tensor, &t) && t.statement->kind == TL_INPUT;
    return is_there ? t.statement : NULL;
}

static bool is_byte_float(reason *r, const tl_statement *input) {
    tl_type type = input->parameter.type;
    if (type == TL_OPEN) type = r->options->dtype;
    return type == TL_E4M3 || type == TL_E5M2;
}

/* Are the tensor and its tile only copied, and right operands as they lie? */
static bool is_used_across_alone(reason *r, str tensor, str tile) {
    for (tl_statement *s = r->kernel->body.first; s; s = tl_next(s, NULL)) {
        int known = 0;
        bool is_copy = s->kind == TL_COPY && str_equal(s->copy.what->text, tensor);
        if (is_copy && (s->copy.from != TL_GLOBAL || !edit_writes(s, tile))) return false;
        if (is_copy) known = 1 + (s->copy.target && str_equal(tile, tensor));
        if (edit_is_product(s) && edit_operand_is(s, 1, tile) && str_equal(tile, tensor)) known = 1;
        if (edit_mentions(s, tensor) != known) return false;
        if (!edit_is_product(s) && !is_copy && edit_mentions(s, tile)) return false;
        if (edit_is_product(s) && edit_mentions(s, tile) &&
            (!edit_operand_is(s, 1, tile) || s->compute.operands[1].is_transposed ||
             edit_mentions(s, tile) != 1))
            return false;
    }
    return true;
}

/* Does the tile, a left operand, come in the order of accumulators? It is computed, and no right
 * operand lies turned already, in an order of its own.
 */
static bool is_in_their_order(reason *r, str left) {
    if (edit_load_of(r->kernel, left)) return false;
    for (tl_statement *s = r->kernel->body.first; s; s = tl_next(s, NULL))
        if (edit_is_product(s) && edit_operand_is(s, 0, left) &&
            s->compute.operands[1].is_transposed &&
            !tiles_is_permuted(r->kernel, edit_operand_name(s, 1)))
            return false;
    return true;
}

static bool meets_their_order_alone(reason *r, str tile) {
    for (tl_statement *s = r->kernel->body.first; s; s = tl_next(s, NULL))
        if (edit_is_product(s) && edit_operand_is(s, 1, tile) &&
            !is_in_their_order(r, edit_operand_name(s, 0)))
            return false;
    return true;
}

/* A matrix of two plain axes, whose lengths are sizes or numbers. */
static bool is_plain_matrix(reason *r, const tl_axes *axes) {
    int64_t value;
    if (axes->count < 2 || tl_matrix_begin(axes) != axes->count - 2) return false;
    for (int i = 0; i < axes->count; i++) {
        const tl_axis *a = &axes->items[i];
        bool is_matrix = i >= axes->count - 2;
        if (is_matrix && !tl_axis_name(a).length) return false;
        bool is_size =
            a->extent->kind == TL_NAME && !edit_find_let(r->kernel, a->extent->text, NULL);
        if (!is_size && !reason_known(r, a->extent, &value)) return false;
    }
    return true;
}

static str fresh_in_program(reason *r, const char *wanted) {
    str name = str_from(wanted);
    for (bool is_new = true; is_new;) {
        is_new = false;
        for (tl_kernel *k = r->program->first; k; k = k->next) {
            str other = edit_fresh_name(k, r->memory, edit_z(r->memory, name));
            bool is_kernel = str_equal(k->name, name);
            is_new = is_new || is_kernel || !str_equal(other, name);
            if (is_kernel) name = str_format(r->memory, "%.*s_2", STR_ARGS(name));
            else name = other;
        }
    }
    return name;
}

static bool is_listed(const operands *all, str tensor) {
    for (int i = 0; i < all->count; i++)
        if (str_equal(all->items[i].tensor, tensor)) return true;
    return false;
}

static operands find_operands(reason *r) {
    operands all = {0};
    for (tl_statement *s = r->kernel->body.first; s; s = tl_next(s, NULL)) {
        str tile = edit_is_product(s) && !s->compute.operands[1].is_transposed
                       ? edit_operand_name(s, 1)
                       : (str){0};
        const tl_statement *load = tile.length ? edit_load_of(r->kernel, tile) : NULL;
        const tl_statement *input = load ? input_of(r, load->copy.what->text) : NULL;
        if (!input || !is_byte_float(r, input) || input->parameter.is_permuted ||
            is_listed(&all, input->parameter.name))
            continue;
        if (!is_plain_matrix(r, &input->parameter.axes) || all.count == REASON_TURNED_MOST ||
            !is_used_across_alone(r, input->parameter.name, tile))
            continue;
        str name = input->parameter.name;
        str turned = fresh_in_program(r, reason_say(r, "%.*s_turned", STR_ARGS(name)));
        all.items[all.count++] = (across){name, turned, meets_their_order_alone(r, tile)};
    }
    return all;
}

/* --- the kernel that reads it turned ---------------------------------------------------------- */

static void read_turned(reason *r, const across *a) {
    tl_statement *input = input_of(r, a->tensor);
    tl_axes *axes = &input->parameter.axes;
    tl_axis last = axes->items[axes->count - 1];
    axes->items[axes->count - 1] = axes->items[axes->count - 2];
    axes->items[axes->count - 2] = last;
    input->parameter.name = a->turned;
    input->parameter.is_permuted = a->is_permuted;
    for (tl_statement *s = r->kernel->body.first; s; s = tl_next(s, NULL)) {
        if (s->kind != TL_COPY || !str_equal(s->copy.what->text, a->tensor)) continue;
        str tile = edit_target_name(s);
        for (tl_statement *p = r->kernel->body.first; p; p = tl_next(p, NULL))
            if (edit_is_product(p) && edit_operand_is(p, 1, tile))
                p->compute.operands[1].is_transposed = true;
        if (!s->copy.target) {
            s->copy.target = s->copy.what;
            s->copy.target_kind = TL_GET;
        }
        s->copy.what = tl_name_expr(r->memory, a->turned);
    }
}

/* --- the kernel that turns -------------------------------------------------------------------- */

/* An axis of the operand, and the same index as one of ours. */
typedef struct own_axis {
    str index;
    const char *text; /* as an Input declares it */
} own_axis;

static own_axis own_axis_of(reason *r, const tl_axis *a, int number) {
    int64_t length;
    str index = tl_axis_name(a);
    if (!index.length) index = str_format(r->memory, "matrix_%d", number);
    if (reason_known(r, a->extent, &length))
        return (own_axis){index, reason_say(r, "%.*s in %lld", STR_ARGS(index), (long long)length)};
    return (own_axis){index, a->is_bare ? edit_text(r->memory, a->extent)
                                        : reason_say(r, "%.*s in %s", STR_ARGS(index),
                                                     edit_text(r->memory, a->extent))};
}

/* "(b in batch, h in kv_heads; kv in kv_len, dv)"; with the last two the other way round. */
static const char *axes_text(reason *r, const own_axis *axes, int count, bool is_turned) {
    str text = STR("(");
    for (int i = 0; i < count; i++) {
        bool is_matrix = i >= count - 2;
        const own_axis *a = &axes[is_matrix && is_turned ? 2 * count - 3 - i : i];
        const char *between = i == count - 2 && i ? "; " : i ? ", " : "";
        reason_list(r, &text, "", "%s%s", between, a->text);
    }
    return reason_say(r, "%.*s)", STR_ARGS(text));
}

static tl_kernel *turning_kernel(reason *r, const across *a) {
    const tl_statement *input = input_of(r, a->tensor);
    const tl_axes *axes = &input->parameter.axes;
    tl_type type = input->parameter.type == TL_OPEN ? r->options->dtype : input->parameter.type;
    own_axis own[TL_AXES_MAX];
    str place = {"", 0};
    for (int i = 0; i < axes->count; i++) {
        own[i] = own_axis_of(r, &axes->items[i], i);
        reason_list(r, &place, ", ", "%.*s", STR_ARGS(own[i].index));
    }
    const char *turned = axes_text(r, own, axes->count, true), *word = tl_type_name(type);
    str view = fresh_in_program(r, "across");
    tl_kernel *kernel = arena_new(r->memory, tl_kernel);
    kernel->name = fresh_in_program(r, reason_say(r, "turn_%.*s", STR_ARGS(a->tensor)));
    kernel->body = tl_quote(
        r->memory,
        "Input %.*s %s %s\nOutput %.*s %s %s%s\nlet BN = %d\nlet %.*s %s = %.*s[%.*s]\n"
        "Copy %.*s from global to register\nCopy %.*s from register to global and get %.*s",
        STR_ARGS(a->tensor), word, axes_text(r, own, axes->count, false), STR_ARGS(a->turned), word,
        turned, a->is_permuted ? " permuted" : "", ROWS_OF_LINES, STR_ARGS(view), turned,
        STR_ARGS(a->tensor), STR_ARGS(place), STR_ARGS(view), STR_ARGS(view), STR_ARGS(a->turned));
    return kernel;
}

static void put_before(reason *r, tl_kernel *kernel) {
    tl_kernel **at = &r->program->first;
    while (*at != r->kernel) at = &(*at)->next;
    *at = kernel;
    kernel->next = r->kernel;
    r->program->kernel_count++;
    list_push(r->memory, &r->made, kernel);
}

/* --- does it pay? ----------------------------------------------------------------------------- */

/* A form of the kernel, reasoned for up to its tile sizes. */
typedef struct form {
    bool is_made, multiplies_bytes;
    double tflops, flops, bytes;
    double elements; /* of the operands that lie across */
    str why;         /* what it says of its products */
} form;

static double extent_of(reason *r, const tiles_list *tiles, str axis) {
    const tiles_span *span = tiles_extent(tiles, axis);
    return span ? nominal_value(r, span->length) : 1;
}

/* Flops, and bytes that products cannot do without, of one of many matrices. */
static void count_work(reason *r, form *f) {
    const tiles_list *tiles = tiles_read(r);
    for (tl_statement *s = r->kernel->body.first; s; s = tl_next(s, NULL)) {
        str row, deep, other, column;
        if (!edit_is_product(s) ||
            !tiles_operand_axes(tiles, &s->compute.operands[0], &row, &deep) ||
            !tiles_operand_axes(tiles, &s->compute.operands[1], &other, &column))
            continue;
        double elements = extent_of(r, tiles, deep) * extent_of(r, tiles, column);
        f->bytes += elements; /* of 8 bits, or the form is none that is asked for */
        f->flops += 2 * extent_of(r, tiles, row) * elements;
    }
}

static form try_form(const reason *r, const operands *turned) {
    form f = {0};
    reason trial = *r;
    diag_list scratch;
    diag_init(&scratch, r->memory, r->program->source_name, r->program->source);
    trial.diags = &scratch;
    trial.log = (reason_log){0};
    trial.offers = (reason_offers){0};
    trial.pin_is_used = arena_array(r->memory, bool, r->options->pin_count + 1);
    trial.way = 0, trial.is_plain = false, trial.predicted_tflops = 0;
    trial.program = tl_program_copy(r->memory, r->program);
    trial.kernel = trial.program->first;
    for (const tl_kernel *k = r->program->first; k != r->kernel; k = k->next)
        trial.kernel = trial.kernel->next;
    for (int i = 0; turned && i < turned->count; i++) {
        across a = turned->items[i];
        a.is_permuted = false; /* whether it would widen is asked here, which that forbids */
        read_turned(&trial, &a);
    }
    f.is_made = reason_bind(&trial) && reason_online(&trial) && reason_fold(&trial) &&
                reason_bytes(&trial) && reason_store(&trial) && reason_tile(&trial);
    if (!f.is_made) return f;
    f.multiplies_bytes = tiles_multiplies_bytes(trial.kernel);
    f.tflops = trial.predicted_tflops;
    count_work(&trial, &f);
    for (int i = 0; turned && i < turned->count; i++) {
        const tl_axes *axes = tiles_tensor(trial.kernel, turned->items[i].turned);
        f.elements += nominal_value(&trial, axes->items[axes->count - 1].extent) *
                      nominal_value(&trial, axes->items[axes->count - 2].extent);
    }
    for (int i = 0; i < trial.log.count; i++)
        if (str_is(trial.log.items[i].subject, "products")) f.why = trial.log.items[i].sentence;
    return f;
}

static const char *list_names(reason *r, const operands *all) {
    str text = {"", 0};
    for (int i = 0; i < all->count; i++)
        reason_list(r, &text, " and ", "%.*s", STR_ARGS(all->items[i].tensor));
    return edit_z(r->memory, text);
}

/* Seconds of the products, which take no less than their operands take to come. */
static double seconds_of(const reason *r, const form *f) {
    double products = f->tflops > 0 ? f->flops / (f->tflops * 1e12) : 0;
    return fmax(products, f->bytes / (r->target->memory * 1e9));
}

/* Is it to be turned? Says why, or why not. */
static bool pays(reason *r, const operands *all, const form *as_is, const form *turned) {
    const char *names = list_names(r, all);
    double turning = 2 * turned->elements / (TURN_SHARE * r->target->memory * 1e9);
    double share = 100 * turning / seconds_of(r, turned);
    bool is_permuted = true;
    for (int i = 0; i < all->count; i++) is_permuted &= all->items[i].is_permuted;
    bool is_faster = !as_is->is_made || seconds_of(r, turned) + turning < seconds_of(r, as_is);
    if (is_faster)
        reason_decide(r, "turning",
                      "%s lies across, and products of 8 bits by warpgroups take what lies along: "
                      "a kernel before writes it turned%s, in %.1f %% of the time of this one; "
                      "predicted %.0f TFLOPS instead of %.0f",
                      names,
                      is_permuted ? ", in the order in which accumulators hold weights, so that "
                                    "none is shuffled"
                                  : "",
                      share, turned->tflops, as_is->tflops);
    else
        reason_decide(r, "turning",
                      "%s stays as it lies: to turn it for products of 8 bits takes %.0f %% of "
                      "their time, more than they save",
                      names, share);
    return is_faster;
}

/* --- the decision ----------------------------------------------------------------------------- */

/* Pins are put into the kernel by pass bind only. */
static bool read_pin(reason *r, int64_t *value) {
    bool is_there = reason_let_integer(r, "turn", value);
    for (int i = 0; i < r->options->pin_count; i++)
        if (str_is(r->options->pins[i].name, "turn"))
            is_there = str_to_integer(r->options->pins[i].value, value) || is_there;
    return is_there;
}

static bool is_turned(reason *r, const operands *all, bool is_pinned, int64_t pinned) {
    if (is_pinned && !pinned) {
        reason_decide(r, "turning", "%s stays as it lies: %s", list_names(r, all),
                      reason_pin_word(r, "turn"));
        return false;
    }
    form turned = try_form(r, all);
    if (!turned.is_made || !turned.multiplies_bytes) {
        if (turned.why.length)
            reason_decide(r, "turning", "%s stays as it lies, since turned, too, %.*s",
                          list_names(r, all), STR_ARGS(turned.why));
        return false;
    }
    if (is_pinned) {
        reason_decide(r, "turning", "a kernel before turns %s: %s", list_names(r, all),
                      reason_pin_word(r, "turn"));
        return true;
    }
    form as_is = try_form(r, NULL);
    return pays(r, all, &as_is, &turned);
}

bool reason_turn(reason *r) {
    int64_t pinned = 0;
    bool is_pinned = read_pin(r, &pinned);
    if (reason_is_made(r) || r->kernel == r->turned) return true;
    operands all = gpu_has(r->target, GPU_FEATURE_wgmma) ? find_operands(r) : (operands){0};
    bool is_wanted = all.count > 0 && is_turned(r, &all, is_pinned, pinned);
    if (is_pinned && pinned && !is_wanted)
        return reason_stuck(r, NULL,
                            "turn=1: kernel %.*s has no operand of 8 bits that products of "
                            "warpgroups take once it is turned",
                            STR_ARGS(r->kernel->name));
    if (all.count > 0) reason_offers_switch(r, "turn", is_wanted);
    if (!is_wanted) return true;
    tl_kernel *first = NULL;
    for (int i = 0; i < all.count; i++) {
        tl_kernel *kernel = turning_kernel(r, &all.items[i]);
        put_before(r, kernel);
        if (!first) first = kernel;
    }
    for (int i = 0; i < all.count; i++) read_turned(r, &all.items[i]);
    r->turned = r->kernel;
    r->kernel = first; /* the one at hand has its turn after those */
    return true;
}
