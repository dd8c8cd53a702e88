/* Expected diagnostics, in comments of the text that causes them:
 *
 *     Copy K form global to shared // expect error on 'form': expected a clause of Copy
 *                                  // expect hint: did you mean 'from'?
 *
 * `expect SEVERITY [on 'characters']: words` stands on the line that is meant, or on lines of their
 * own right below it; the message must contain the words, and its range must cover exactly the
 * characters. Every error and warning must be expected; notes and hints may be.
 */
#ifndef FLASHTL_TESTS_EXPECT_H
#define FLASHTL_TESTS_EXPECT_H

#include "diag/diag.h"

#include <stdio.h>
#include <string.h>

typedef struct expectation {
    int line;
    str severity, on, words;
    bool has_on, is_met;
} expectation;

typedef struct expectations {
    expectation items[256];
    int count;
} expectations;

static const char *const expect_severities[] = {"error", "warning", "note", "hint"};

static void expect_parse_one(str text, int line, expectations *all) {
    expectation e = {.line = line};
    size_t word = 0;
    while (word < text.length && text.data[word] != ' ' && text.data[word] != ':') word++;
    e.severity = (str){text.data, word};
    text = (str){text.data + word, text.length - word};
    if (str_starts(text, STR(" on '"))) {
        text = (str){text.data + 5, text.length - 5};
        e.has_on = true;
        e.on = str_cut(&text, '\'');
    }
    str_cut(&text, ':');
    e.words = str_trim(text);
    if (all->count < 256) all->items[all->count++] = e;
}

static void expect_collect(str source, expectations *all) {
    str mark = STR("// expect ");
    for (int number = 1, meant = 1; source.length; number++) {
        str line = str_cut(&source, '\n');
        bool is_continuation = str_starts(str_trim(line), mark);
        if (!is_continuation) meant = number;
        for (size_t at = 0; at + mark.length <= line.length; at++) {
            str rest = {line.data + at, line.length - at};
            if (!str_starts(rest, mark)) continue;
            rest = (str){rest.data + mark.length, rest.length - mark.length};
            expect_parse_one(rest, meant, all);
            break;
        }
    }
}

static bool expect_contains(str text, str part) {
    for (size_t i = 0; i + part.length <= text.length; i++) {
        if (str_starts((str){text.data + i, text.length - i}, part)) return true;
    }
    return false;
}

static bool expect_meets(const expectation *e, const diag_list *diags, const diag *d) {
    int line, column;
    diag_position(diags->source, d->range.begin, &line, &column);
    uint32_t end =
        d->range.end > diags->source.length ? (uint32_t)diags->source.length : d->range.end;
    str covered = {diags->source.data + d->range.begin, end - d->range.begin};
    return line == e->line && str_is(e->severity, expect_severities[d->severity]) &&
           expect_contains(d->message, e->words) && (!e->has_on || str_equal(covered, e->on));
}

static bool expect_mark(expectations *all, const diag_list *diags, const diag *d) {
    for (int i = 0; i < all->count; i++) {
        if (all->items[i].is_met || !expect_meets(&all->items[i], diags, d)) continue;
        all->items[i].is_met = true;
        return true;
    }
    return false;
}

/* Compares; what differs is printed to standard error. Returns the number of differences. */
static int expect_compare(const diag_list *diags) {
    expectations all = {.count = 0};
    expect_collect(diags->source, &all);
    int wrong = 0;
    for (const diag *d = diags->first; d; d = d->next) {
        if (!expect_mark(&all, diags, d)) {
            int line, column;
            diag_position(diags->source, d->range.begin, &line, &column);
            fprintf(stderr, "unexpected %s in line %d, column %d: %.*s\n",
                    expect_severities[d->severity], line, column, STR_ARGS(d->message));
            wrong++;
        }
        for (const diag *n = d->attached; n; n = n->next) expect_mark(&all, diags, n);
    }
    for (int i = 0; i < all.count; i++) {
        const expectation *e = &all.items[i];
        if (e->is_met) continue;
        fprintf(stderr, "missing %.*s in line %d: %.*s\n", STR_ARGS(e->severity), e->line,
                STR_ARGS(e->words));
        wrong++;
    }
    return wrong;
}

#endif
