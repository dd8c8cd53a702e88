#include "evaluate/results.h"

#include "tune/database.h"

#include <sqlite3.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct results {
    database database;
};

static const struct {
    const char *name;
    bool is_over;
} states[] = {
#define STATE(id, name, is_over) {name, is_over},
#include "evaluate/states.def"
#undef STATE
};

bool results_is_over(results_state state) {
    return states[state].is_over;
}

static results_state state_named(const char *name) {
    for (int i = 0; i < RESULTS_STATE_COUNT; i++) {
        if (strcmp(states[i].name, name) == 0) return (results_state)i;
    }
    return RESULTS_OPEN;
}

static const char schema[] =
    "CREATE TABLE IF NOT EXISTS experiment("
    " id INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, what TEXT NOT NULL);"
    "CREATE TABLE IF NOT EXISTS reference("
    " id INTEGER PRIMARY KEY, experiment INTEGER NOT NULL REFERENCES experiment(id),"
    " task TEXT NOT NULL, task_hash TEXT NOT NULL, passed INTEGER NOT NULL, rung TEXT NOT NULL,"
    " tflops REAL NOT NULL, launch_cost REAL NOT NULL, why TEXT NOT NULL,"
    " UNIQUE(experiment, task_hash));"
    "CREATE TABLE IF NOT EXISTS trial("
    " id INTEGER PRIMARY KEY, experiment INTEGER NOT NULL REFERENCES experiment(id),"
    " task TEXT NOT NULL, task_hash TEXT NOT NULL, model TEXT NOT NULL, setting TEXT NOT NULL,"
    " sample INTEGER NOT NULL, state TEXT NOT NULL DEFAULT 'open', owner INTEGER NOT NULL DEFAULT "
    "0,"
    " attempts INTEGER NOT NULL DEFAULT 0, passed INTEGER, first_passed INTEGER, read INTEGER,"
    " checked INTEGER, rung TEXT, finding TEXT, answers INTEGER, question_tokens INTEGER,"
    " answer_tokens INTEGER, price REAL, model_ms REAL, judge_ms REAL, tflops REAL, relative REAL,"
    " launch_cost REAL, why TEXT NOT NULL DEFAULT '', lost_tokens INTEGER NOT NULL DEFAULT 0,"
    " lost_price REAL NOT NULL DEFAULT 0, changed_s INTEGER NOT NULL DEFAULT 0,"
    " UNIQUE(experiment, task_hash, model, setting, sample));"
    "PRAGMA user_version = 1;";

bool results_open(const char *path, results **out, os_error *why) {
    static const database_form form = {"the database of evaluations", 1, schema};
    results *r = calloc(1, sizeof *r);
    *out = NULL;
    if (!r) {
        snprintf(why->text, sizeof why->text, "out of memory");
        return false;
    }
    bool is_open = database_open(&r->database, &form, path, why);
    if (is_open) *out = r;
    else free(r);
    return is_open;
}

void results_close(results *r) {
    if (!r) return;
    database_close(&r->database);
    free(r);
}

const char *results_error(const results *r) {
    return r->database.error;
}

/* --- statements ------------------------------------------------------------------------------- */

static sqlite3_stmt *prepare(results *r, const char *sql) {
    return database_prepare(&r->database, sql);
}

static bool run(results *r, sqlite3_stmt *statement, const char *what) {
    return database_run(&r->database, statement, what);
}

static bool has_changed(const results *r) {
    return sqlite3_changes(r->database.handle) == 1;
}

/* Steps to the one row of a query; false on failure. */
static bool step_once(results *r, sqlite3_stmt *statement, bool *found) {
    int result = sqlite3_step(statement);
    *found = result == SQLITE_ROW;
    return *found || result == SQLITE_DONE || database_fail(&r->database, "read it");
}

bool results_begin(results *r) {
    return database_execute(&r->database, "BEGIN IMMEDIATE", "write it");
}

bool results_commit(results *r) {
    return database_execute(&r->database, "COMMIT", "write it");
}

int64_t results_experiment(results *r, const char *key, const char *what) {
    sqlite3_stmt *insert = prepare(r, "INSERT OR IGNORE INTO experiment(key, what) VALUES(?1, ?2)");
    if (insert) database_bind_text(insert, 1, key), database_bind_text(insert, 2, what);
    int64_t id = 0;
    if (!run(r, insert, "write an experiment")) return 0;
    return results_find_experiment(r, key, &id) ? id : 0;
}

bool results_find_experiment(results *r, const char *key, int64_t *id) {
    sqlite3_stmt *find = prepare(r, "SELECT id FROM experiment WHERE key = ?1");
    *id = 0;
    if (!find) return false;
    database_bind_text(find, 1, key);
    bool found = false, is_read = step_once(r, find, &found);
    if (is_read && found) *id = sqlite3_column_int64(find, 0);
    sqlite3_finalize(find);
    return is_read;
}

/* --- references ------------------------------------------------------------------------------- */

bool results_find_reference(results *r, int64_t experiment, const char *task_hash,
                            results_reference *out, bool *found) {
    sqlite3_stmt *find = prepare(r, "SELECT passed, rung, tflops, launch_cost, why FROM reference"
                                    " WHERE experiment = ?1 AND task_hash = ?2");
    if (!find) return false;
    sqlite3_bind_int64(find, 1, experiment);
    database_bind_text(find, 2, task_hash);
    bool is_read = step_once(r, find, found);
    if (*found) {
        out->passed = sqlite3_column_int(find, 0);
        snprintf(out->rung, sizeof out->rung, "%s", database_column_text(find, 1));
        out->tflops = sqlite3_column_double(find, 2);
        out->launch_cost = sqlite3_column_double(find, 3);
        snprintf(out->why, sizeof out->why, "%s", database_column_text(find, 4));
    }
    sqlite3_finalize(find);
    return is_read;
}

bool results_put_reference(results *r, int64_t experiment, const char *task, const char *task_hash,
                           const results_reference *reference) {
    sqlite3_stmt *put =
        prepare(r, "INSERT OR REPLACE INTO reference(experiment, task, task_hash, passed, rung,"
                   " tflops, launch_cost, why) VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)");
    if (!put) return false;
    sqlite3_bind_int64(put, 1, experiment);
    database_bind_text(put, 2, task);
    database_bind_text(put, 3, task_hash);
    sqlite3_bind_int(put, 4, reference->passed);
    database_bind_text(put, 5, reference->rung);
    sqlite3_bind_double(put, 6, reference->tflops);
    sqlite3_bind_double(put, 7, reference->launch_cost);
    database_bind_text(put, 8, reference->why);
    return run(r, put, "write a reference");
}

/* --- trials ----------------------------------------------------------------------------------- */

static void bind_trial(sqlite3_stmt *statement, int64_t experiment, const results_trial *t) {
    sqlite3_bind_int64(statement, 1, experiment);
    database_bind_text(statement, 2, t->task_hash);
    database_bind_text(statement, 3, t->model);
    database_bind_text(statement, 4, t->setting);
    sqlite3_bind_int(statement, 5, t->sample);
}

bool results_add(results *r, int64_t experiment, const results_trial *t, results_row *out) {
    sqlite3_stmt *insert = prepare(r, "INSERT OR IGNORE INTO trial(experiment, task_hash, model,"
                                      " setting, sample, task) VALUES(?1, ?2, ?3, ?4, ?5, ?6)");
    if (!insert) return false;
    bind_trial(insert, experiment, t);
    database_bind_text(insert, 6, t->task);
    if (!run(r, insert, "write a trial")) return false;
    sqlite3_stmt *find = prepare(
        r,
        "SELECT id, state, coalesce(passed, 0) FROM trial WHERE experiment = ?1 AND task_hash = ?2"
        " AND model = ?3 AND setting = ?4 AND sample = ?5");
    if (!find) return false;
    bind_trial(find, experiment, t);
    bool found = false, is_read = step_once(r, find, &found);
    if (found) {
        *out = (results_row){.id = sqlite3_column_int64(find, 0),
                             .state = state_named(database_column_text(find, 1)),
                             .passed = sqlite3_column_int(find, 2)};
    }
    sqlite3_finalize(find);
    return is_read && found;
}

bool results_state_of(results *r, int64_t id, results_state *out) {
    sqlite3_stmt *find = prepare(r, "SELECT state FROM trial WHERE id = ?1");
    if (!find) return false;
    sqlite3_bind_int64(find, 1, id);
    bool found = false, is_read = step_once(r, find, &found);
    if (found) *out = state_named(database_column_text(find, 0));
    sqlite3_finalize(find);
    return is_read && found;
}

bool results_claim(results *r, int64_t id, bool *claimed) {
    sqlite3_stmt *claim = prepare(r, "UPDATE trial SET state = 'running', owner = ?2,"
                                     " changed_s = ?3 WHERE id = ?1 AND state = 'open'");
    if (!claim) return false;
    sqlite3_bind_int64(claim, 1, id);
    sqlite3_bind_int(claim, 2, os_process_id());
    sqlite3_bind_int64(claim, 3, os_clock_s());
    if (!run(r, claim, "claim a trial")) return false;
    *claimed = has_changed(r);
    return true;
}

bool results_finish(results *r, const results_row *row) {
    sqlite3_stmt *finish = prepare(
        r, "UPDATE trial SET state = 'done', owner = 0, passed = ?2, first_passed = ?3, read = ?4,"
           " checked = ?5, rung = ?6, finding = ?7, answers = ?8, question_tokens = ?9,"
           " answer_tokens = ?10, price = ?11, model_ms = ?12, judge_ms = ?13, tflops = ?14,"
           " launch_cost = ?15, changed_s = ?16, relative = ?17, why = '' WHERE id = ?1");
    if (!finish) return false;
    sqlite3_bind_int64(finish, 1, row->id);
    sqlite3_bind_int(finish, 2, row->passed);
    sqlite3_bind_int(finish, 3, row->first_passed);
    sqlite3_bind_int(finish, 4, row->read);
    sqlite3_bind_int(finish, 5, row->checked);
    database_bind_text(finish, 6, row->rung);
    database_bind_text(finish, 7, row->finding);
    sqlite3_bind_int(finish, 8, row->answers);
    sqlite3_bind_int64(finish, 9, row->question_tokens);
    sqlite3_bind_int64(finish, 10, row->answer_tokens);
    sqlite3_bind_double(finish, 11, row->price);
    sqlite3_bind_double(finish, 12, row->model_ms);
    sqlite3_bind_double(finish, 13, row->judge_ms);
    sqlite3_bind_double(finish, 14, row->tflops);
    sqlite3_bind_double(finish, 15, row->launch_cost);
    sqlite3_bind_int64(finish, 16, os_clock_s());
    sqlite3_bind_double(finish, 17, row->relative);
    return run(r, finish, "write a result");
}

bool results_give_back(results *r, const results_row *row, bool counts) {
    sqlite3_stmt *back = prepare(
        r, "UPDATE trial SET owner = 0, attempts = attempts + ?2, state = CASE WHEN attempts + ?2"
           " >= ?3 THEN 'failed' ELSE 'open' END, lost_tokens = lost_tokens + ?4,"
           " lost_price = lost_price + ?5, why = ?6, changed_s = ?7 WHERE id = ?1");
    if (!back) return false;
    sqlite3_bind_int64(back, 1, row->id);
    sqlite3_bind_int(back, 2, counts);
    sqlite3_bind_int(back, 3, RESULTS_ATTEMPTS);
    sqlite3_bind_int64(back, 4, row->question_tokens + row->answer_tokens);
    sqlite3_bind_double(back, 5, row->price);
    database_bind_text(back, 6, row->why);
    sqlite3_bind_int64(back, 7, os_clock_s());
    return run(r, back, "give a trial back");
}

static bool reopen(results *r, int64_t owner) {
    sqlite3_stmt *open =
        prepare(r, "UPDATE trial SET state = 'open', owner = 0 WHERE state = 'running'"
                   " AND owner = ?1");
    if (!open) return false;
    sqlite3_bind_int64(open, 1, owner);
    return run(r, open, "open trials again");
}

/* What this process would be at is left from another that had its number. */
static bool reopen_orphans(results *r) {
    enum { OWNERS_MAX = 64 };
    int64_t gone[OWNERS_MAX];
    int count = 0;
    sqlite3_stmt *owners = prepare(r, "SELECT DISTINCT owner FROM trial WHERE state = 'running'");
    if (!owners) return false;
    while (count < OWNERS_MAX && sqlite3_step(owners) == SQLITE_ROW) {
        int owner = sqlite3_column_int(owners, 0);
        bool is_at_work = os_process_lives(owner) && owner != os_process_id();
        if (!is_at_work) gone[count++] = owner;
    }
    sqlite3_finalize(owners);
    for (int i = 0; i < count; i++) {
        if (!reopen(r, gone[i])) return false;
    }
    return true;
}

bool results_recover(results *r, int64_t experiment) {
    sqlite3_stmt *again = prepare(r, "UPDATE trial SET state = 'open', attempts = 0"
                                     " WHERE experiment = ?1 AND state = 'failed'");
    if (!again) return false;
    sqlite3_bind_int64(again, 1, experiment);
    return run(r, again, "open trials again") && reopen_orphans(r);
}

/* --- all of them ------------------------------------------------------------------------------ */

bool results_spent(results *r, int64_t experiment, int64_t *tokens, double *price) {
    sqlite3_stmt *sum = prepare(
        r, "SELECT total(coalesce(question_tokens, 0) + coalesce(answer_tokens, 0) + lost_tokens),"
           " total(coalesce(price, 0) + lost_price) FROM trial WHERE experiment = ?1");
    if (!sum) return false;
    sqlite3_bind_int64(sum, 1, experiment);
    bool found = false, is_read = step_once(r, sum, &found);
    if (found) {
        double spent = sqlite3_column_double(sum, 0); /* a database may hold anything */
        *tokens = spent > 0 && spent < 1e18 ? (int64_t)spent : spent > 0 ? INT64_MAX / 2 : 0;
        *price = sqlite3_column_double(sum, 1);
    }
    sqlite3_finalize(sum);
    return is_read;
}

static void read_row(sqlite3_stmt *s, results_row *row) {
    *row = (results_row){.id = sqlite3_column_int64(s, 5),
                         .state = state_named(database_column_text(s, 6)),
                         .passed = sqlite3_column_int(s, 7),
                         .first_passed = sqlite3_column_int(s, 8),
                         .read = sqlite3_column_int(s, 9),
                         .checked = sqlite3_column_int(s, 10),
                         .answers = sqlite3_column_int(s, 13),
                         .question_tokens = sqlite3_column_int64(s, 14),
                         .answer_tokens = sqlite3_column_int64(s, 15),
                         .price = sqlite3_column_double(s, 16),
                         .model_ms = sqlite3_column_double(s, 17),
                         .judge_ms = sqlite3_column_double(s, 18),
                         .tflops = sqlite3_column_double(s, 19),
                         .launch_cost = sqlite3_column_double(s, 20),
                         .relative = sqlite3_column_double(s, 21)};
    snprintf(row->rung, sizeof row->rung, "%s", database_column_text(s, 11));
    snprintf(row->finding, sizeof row->finding, "%s", database_column_text(s, 12));
    snprintf(row->why, sizeof row->why, "%s", database_column_text(s, 22));
}

bool results_each(results *r, int64_t experiment,
                  void (*visit)(void *user, const results_trial *trial, const results_row *row),
                  void *user) {
    sqlite3_stmt *all = prepare(
        r, "SELECT task_hash, task, model, setting, sample, id, state, passed, first_passed, read,"
           " checked, rung, finding, answers, question_tokens, answer_tokens, price, model_ms,"
           " judge_ms, tflops, launch_cost, relative, why FROM trial WHERE experiment = ?1 ORDER "
           "BY id");
    if (!all) return false;
    sqlite3_bind_int64(all, 1, experiment);
    int result;
    results_row row;
    while ((result = sqlite3_step(all)) == SQLITE_ROW) {
        read_row(all, &row);
        results_trial trial = {database_column_text(all, 0), database_column_text(all, 1),
                               database_column_text(all, 2), database_column_text(all, 3),
                               sqlite3_column_int(all, 4)};
        visit(user, &trial, &row);
    }
    sqlite3_finalize(all);
    return result == SQLITE_DONE ? true : database_fail(&r->database, "read results");
}
