/* For tests of the emulator: reads a kernel's PTX from tests/exec/emulate, runs it, and finds the
 * lines of its source by marks (a comment "@name" on the line).
 */
#ifndef FLASHTL_TESTS_EMULATE_SUPPORT_H
#define FLASHTL_TESTS_EMULATE_SUPPORT_H

#include "base/os.h"
#include "emulate/emulate.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

typedef struct emulate_case {
    arena memory;
    emulate_module *module;
    emulate_launch launch;
    emulate_result result;
    text_buffer ptx, source, report;
} emulate_case;

static inline void case_read(text_buffer *text, const char *name, const char *ending) {
    char path[512];
    os_error why;
    snprintf(path, sizeof path, "%s/tests/exec/emulate/%s%s", FLASHTL_SOURCE_FOLDER, name, ending);
    text_init(text, 64u << 20);
    if (!os_read_file(path, 64u << 20, text, &why)) fail_msg("%s", why.text);
}

/* 'variant' is empty, or "-no-barrier" for share-no-barrier.ptx, made from share.cu. */
static inline void case_open(emulate_case *c, const char *name, const char *variant) {
    char file[256];
    memset(c, 0, sizeof *c);
    arena_init(&c->memory, (size_t)1 << 30);
    snprintf(file, sizeof file, "%s%s", name, variant);
    case_read(&c->ptx, file, ".ptx");
    case_read(&c->source, name, ".cu");
    text_init(&c->report, 1u << 20);
    diag_list diagnostics;
    diag_init(&diagnostics, &c->memory, str_from(file), text_str(&c->ptx));
    c->module = emulate_read(&c->memory, text_str(&c->ptx), &diagnostics);
    if (!c->module) {
        diag_render_text(&diagnostics, false, &c->report);
        fail_msg("%s", c->report.data);
    }
}

static inline void case_close(emulate_case *c) {
    text_done(&c->ptx);
    text_done(&c->source);
    text_done(&c->report);
    arena_done(&c->memory);
}

static inline emulate_outcome case_run(emulate_case *c) {
    emulate_outcome outcome = emulate_run(c->module, &c->launch, &c->memory, &c->result);
    emulate_render_text(&c->result, STR("kernel.cu"), &c->report);
    return outcome;
}

static inline void case_run_clean(emulate_case *c) {
    if (case_run(c) != EMULATE_CLEAN) fail_msg("%s", c->report.data);
}

/* The line with the mark "@name". */
static inline int case_line(const emulate_case *c, const char *mark) {
    char wanted[64];
    snprintf(wanted, sizeof wanted, "@%s", mark);
    int line = 1;
    for (const char *at = c->source.data; *at; at++) {
        if (*at == '\n') line++;
        size_t length = strlen(wanted);
        if (strncmp(at, wanted, length) == 0 && (at[length] < 'a' || at[length] > 'z') &&
            at[length] != '_')
            return line;
    }
    fail_msg("no mark %s in the source", wanted);
    return 0;
}

static inline bool case_touches(const emulate_place *place, int line) {
    for (int i = 0; i < place->frame_count; i++)
        if (place->frames[i].line == line) return true;
    return false;
}

/* There must be a finding of this kind at the marked line, with the other line where one is named.
 */
static inline const emulate_finding *case_expect(emulate_case *c, emulate_kind kind,
                                                 const char *mark, const char *other) {
    for (int i = 0; i < c->result.finding_count; i++) {
        const emulate_finding *f = &c->result.findings[i];
        if (f->kind != kind) continue;
        if (mark && !case_touches(&f->place, case_line(c, mark))) continue;
        if (other && (!f->has_other || !case_touches(&f->other, case_line(c, other)))) continue;
        return f;
    }
    fail_msg("no finding %s at @%s (other @%s); the report:\n%s", emulate_kind_name(kind),
             mark ? mark : "-", other ? other : "-", c->report.data ? c->report.data : "");
    return NULL;
}

#endif
