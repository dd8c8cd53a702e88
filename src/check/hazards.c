#include "check/hazards.h"

#include "tl/tl.h"

typedef struct reporter {
    arena *memory;
    const model *model;
    diag_list *diags;
    const events_finding *f;
} reporter;

static void note(reporter *r, diag_id id) {
    if (r->f->other) diag_report(r->diags, id, r->f->other->range, r->f->name);
}

static void hint_before(reporter *r, const char *word, str name) {
    str text = str_format(r->memory, "%s %.*s", word, STR_ARGS(name));
    diag_report(r->diags, DIAG_INSERT_BEFORE, r->f->at->range, text);
}

static str number(reporter *r, int64_t value) {
    return str_format(r->memory, "%lld", (long long)value);
}

static str role_around(const tl_statement *s) {
    const tl_statement *role = tl_role_of(s);
    return role ? role->role.name : (str){0};
}

/* The tile that the product which has not ended writes: waiting for it repairs what it disturbs. */
static str target_name(const tl_statement *product) {
    if (product->kind != TL_COMPUTE || !product->compute.target) return (str){0};
    return product->compute.target->text;
}

static void report_undefined(reporter *r) {
    const events_finding *f = r->f;
    bool accumulates = f->at->kind == TL_COMPUTE && f->at->compute.target_kind == TL_ACCUMULATE &&
                       f->at->compute.target &&
                       f->range.begin == f->at->compute.target->range.begin;
    if (!accumulates) {
        diag_report(r->diags, DIAG_HAZARD_UNDEFINED, f->range, f->name);
        return;
    }
    diag_report(r->diags, DIAG_HAZARD_NO_START, f->range, f->name);
    double start = tl_start(f->at->compute.operation); /* finite, so that no inf - inf occurs */
    str text = str_format(r->memory, "Compute Fill %s and get %.*s",
                          start < 0   ? "-1e30"
                          : start > 0 ? "1e30"
                                      : "0",
                          STR_ARGS(f->name));
    const tl_statement *outermost = f->at;
    while (outermost->parent && outermost->parent->kind == TL_FOR) outermost = outermost->parent;
    diag_report(r->diags, DIAG_INSERT_BEFORE, outermost->range, text);
}

static void report_slot(reporter *r) {
    const events_finding *f = r->f;
    if (f->at->kind == TL_COMPUTE) {
        diag_report(r->diags, DIAG_HAZARD_RING_FULL, f->range, f->name);
        return;
    }
    if (str_equal(f->name, f->other_name)) {
        diag_report(r->diags, DIAG_HAZARD_SLOT_HELD, f->at->range, f->name);
    } else {
        diag_report(r->diags, DIAG_HAZARD_BYTES_HELD, f->at->range, f->name, f->other_name);
    }
    if (!f->other) return;
    diag_id id = f->by_view ? DIAG_HAZARD_FILLED_HERE : DIAG_HAZARD_HELD_SINCE;
    diag_report(r->diags, id, f->other->range, f->other_name);
}

static void report_fillers(reporter *r) {
    str first = {0};
    for (int t = 0; t < r->model->tile_count && !first.length; t++) {
        const model_tile *tile = &r->model->tiles[t];
        bool is_it = str_equal(tile->name, r->f->name) && tile->role >= 0;
        if (is_it) first = r->model->roles[tile->role].name;
    }
    diag_report(r->diags, DIAG_HAZARD_TWO_FILLERS, r->f->at->range, r->f->name, first,
                role_around(r->f->at));
}

static void report_end(reporter *r) {
    const events_finding *f = r->f;
    str extent = tl_expr_text(r->memory, f->extent);
    str held = str_from(f->held), wanted = str_from(f->wanted);
    diag_expected(
        diag_report(r->diags, DIAG_END_HOLDS, f->range, f->name, f->axis, extent, held, wanted),
        wanted, held);
    const char *value = str_is(wanted, "-inf") ? "" : str_is(wanted, "0") ? ", 0" : ", -log(0)";
    str mask = str_format(r->memory, "Mask %.*s%s where %.*s >= %.*s", STR_ARGS(f->name), value,
                          STR_ARGS(f->axis), STR_ARGS(extent));
    diag_report(r->diags, DIAG_END_MASK, f->at->range, mask);
}

/* Faults that one sentence with the tile's name says: DIAG_ID_COUNT for all others. */
static diag_id plain_id(const events_finding *f) {
    switch (f->fault) {
    case FAULT_NOTHING_COMES: return DIAG_HAZARD_NOTHING_COMES;
    case FAULT_NOT_HELD: return DIAG_HAZARD_NOT_HELD;
    case FAULT_NOTHING_IN_FLIGHT: return DIAG_HAZARD_NOTHING_IN_FLIGHT;
    case FAULT_NEVER_WAITED: return f->by_view ? DIAG_HAZARD_DEAD_COPY : DIAG_HAZARD_NEVER_WAITED;
    case FAULT_HELD_AT_END: return DIAG_HAZARD_HELD_AT_END;
    case FAULT_UNFINISHED_AT_END: return DIAG_HAZARD_UNFINISHED;
    case FAULT_TURN_AT_END: return DIAG_HAZARD_TURN_AT_END;
    case FAULT_TURN_NOT_HELD: return DIAG_HAZARD_TURN_NOT_HELD;
    case FAULT_TURN_HELD: return DIAG_HAZARD_TURN_HELD;
    case FAULT_UNREACHED: return DIAG_HAZARD_UNREACHED;
    case FAULT_BRANCH_DIFFERS: return DIAG_HAZARD_BRANCH;
    case FAULT_RELEASE_READ: return DIAG_HAZARD_RELEASE_READ;
    case FAULT_READ_IN_FLIGHT: return DIAG_HAZARD_READ_IN_FLIGHT;
    case FAULT_WRITE_IN_FLIGHT: return DIAG_HAZARD_WRITE_IN_FLIGHT;
    case FAULT_OPERAND_WRITTEN: return DIAG_HAZARD_OPERAND_WRITTEN;
    case FAULT_DEADLOCK: return DIAG_HAZARD_DEADLOCK;
    default: return DIAG_ID_COUNT;
    }
}

static void report_not_waited(reporter *r) {
    const events_finding *f = r->f;
    if (f->by_view) {
        diag_report(r->diags, DIAG_HAZARD_NO_WAIT, f->range, f->name, role_around(f->at));
        hint_before(r, "Wait", f->name);
    } else {
        diag_report(r->diags, DIAG_HAZARD_NOT_WAITED, f->range, f->name);
    }
}

/* The other place, and what to insert. */
static void explain(reporter *r) {
    const events_finding *f = r->f;
    str target = f->other ? target_name(f->other) : (str){0};
    switch (f->fault) {
    case FAULT_DEADLOCK: note(r, DIAG_HAZARD_OTHER_STANDS); break;
    case FAULT_RELEASE_READ:
    case FAULT_OPERAND_WRITTEN:
        note(r, DIAG_HAZARD_READ_BY);
        if (target.length) hint_before(r, "Wait", target);
        break;
    case FAULT_READ_IN_FLIGHT:
    case FAULT_WRITE_IN_FLIGHT:
        note(r, DIAG_HAZARD_WRITTEN_BY);
        hint_before(r, "Wait", f->name);
        break;
    default: break;
    }
}

/* Faults of the data: where they came from, what is past their end. */
static void report_data(reporter *r) {
    const events_finding *f = r->f;
    str found = number(r, f->found), expected = number(r, f->expected);
    switch (f->fault) {
    case FAULT_CONTRACTED:
        diag_report(r->diags, DIAG_HAZARD_CONTRACTED, f->range, f->axis, expected, f->name, found,
                    f->other_name);
        break;
    case FAULT_MEETING:
        diag_report(r->diags, DIAG_HAZARD_MEETING, f->range, f->axis, expected, f->name, found,
                    f->other_name);
        break;
    case FAULT_BEFORE:
        diag_report(r->diags, DIAG_PLACE_BEFORE, f->range, f->axis, f->name,
                    tl_expr_text(r->memory, f->extent), found);
        break;
    case FAULT_PLACE:
        diag_expected(
            diag_report(r->diags, DIAG_HAZARD_PLACE, f->range, f->name, f->axis, found, expected),
            expected, found);
        break;
    case FAULT_END: report_end(r); break;
    case FAULT_NOT_COVERED:
        diag_report(
            r->diags, DIAG_CONTROL_NOT_COVERED, f->range, f->axis,
            str_format(r->memory, "%lld to %lld", (long long)f->found, (long long)f->expected),
            tl_expr_text(r->memory, f->extent), number(r, f->length), f->name);
        break;
    default: break;
    }
}

static void report_other(reporter *r) {
    const events_finding *f = r->f;
    switch (f->fault) {
    case FAULT_NOT_WAITED: report_not_waited(r); break;
    case FAULT_UNDEFINED: report_undefined(r); break;
    case FAULT_SLOT_HELD: report_slot(r); break;
    case FAULT_TWO_FILLERS: report_fillers(r); break;
    case FAULT_TOO_LONG:
        diag_report(r->diags, DIAG_HAZARD_TOO_LONG, r->model->kernel->range, number(r, f->found));
        break;
    case FAULT_TOO_MANY:
        diag_report(r->diags, DIAG_HAZARD_TOO_MANY, r->model->kernel->range, number(r, f->found));
        break;
    default: report_data(r);
    }
}

static void report_one(reporter *r) {
    const events_finding *f = r->f;
    diag_id plain = plain_id(f);
    if (plain != DIAG_ID_COUNT) {
        diag_report(r->diags, plain, f->range, f->name);
        explain(r);
    } else {
        report_other(r);
    }
    if (f->left_out)
        diag_report(r->diags, DIAG_HAZARD_LEFT_OUT, f->left_out->branch.condition->range, f->name,
                    tl_expr_text(r->memory, f->left_out->branch.condition));
}

/* How near to the mistake a fault is: what a nearer one explains is left out. */
typedef enum nearness {
    NEAR_STATEMENT,  /* the statement itself is wrong */
    NEAR_END,        /* something is left over at the end */
    NEAR_STANDSTILL, /* nobody can go on */
    NEAR_DATA,       /* the data are not those that are meant */
    NEAR_RAGGED,
    NEAR_COVERAGE
} nearness;

static nearness nearness_of(events_fault fault) {
    switch (fault) {
    case FAULT_HELD_AT_END:
    case FAULT_UNFINISHED_AT_END:
    case FAULT_TURN_AT_END: return NEAR_END;
    case FAULT_SLOT_HELD:
    case FAULT_DEADLOCK:
    case FAULT_NOTHING_COMES:
    case FAULT_NEVER_WAITED: return NEAR_STANDSTILL;
    case FAULT_CONTRACTED:
    case FAULT_MEETING:
    case FAULT_PLACE: return NEAR_DATA;
    case FAULT_END: return NEAR_RAGGED;
    case FAULT_NOT_COVERED: return NEAR_COVERAGE;
    default: return NEAR_STATEMENT;
    }
}

/* Was the tile, or the product that is in the way, named before? */
static bool is_repeated(const events_result *events, int number, nearness nearest) {
    const events_finding *f = &events->findings[number];
    for (int i = 0; i < number; i++) {
        const events_finding *earlier = &events->findings[i];
        if (nearness_of(earlier->fault) != nearest) continue;
        if (nearest == NEAR_STANDSTILL || nearest == NEAR_COVERAGE) return true;
        if (f->name.length && str_equal(f->name, earlier->name)) return true;
        if (f->other && f->other == earlier->other) return true;
    }
    return false;
}

bool hazards_report(arena *memory, const model *m, const events_result *events, diag_list *diags) {
    nearness nearest = NEAR_COVERAGE;
    for (int i = 0; i < events->finding_count; i++) {
        nearness near = nearness_of(events->findings[i].fault);
        if (near < nearest) nearest = near;
    }
    for (int i = 0; i < events->finding_count; i++) {
        if (nearness_of(events->findings[i].fault) != nearest) continue;
        if (is_repeated(events, i, nearest)) continue;
        reporter r = {memory, m, diags, &events->findings[i]};
        report_one(&r);
    }
    return events->finding_count == 0;
}
