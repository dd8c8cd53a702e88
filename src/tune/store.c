#include "tune/store.h"

#include "tune/database.h"

#include <sqlite3.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEVICE_LEASE_S = 300 };

struct store {
    database database;
};

static const struct {
    const char *name, *sentence;
} states[] = {
#define STATE(id, name, sentence) {name, sentence},
#include "tune/states.def"
#undef STATE
};

const char *store_state_name(store_state state) {
    return states[state].name;
}
const char *store_state_sentence(store_state state) {
    return states[state].sentence;
}
static store_state state_named(const char *name) {
    for (int i = 0; name && i < STORE_STATE_COUNT; i++) {
        if (strcmp(states[i].name, name) == 0) return (store_state)i;
    }
    return STORE_OPEN;
}

static const char schema[] =
    "CREATE TABLE IF NOT EXISTS problem("
    " id INTEGER PRIMARY KEY, problem TEXT NOT NULL, title TEXT NOT NULL, gpu TEXT NOT NULL,"
    " device TEXT NOT NULL, software TEXT NOT NULL, cases TEXT NOT NULL,"
    " UNIQUE(problem, gpu, device, software, cases));"
    "CREATE TABLE IF NOT EXISTS candidate("
    " id INTEGER PRIMARY KEY, problem INTEGER NOT NULL REFERENCES problem(id),"
    " pins TEXT NOT NULL, decided TEXT NOT NULL DEFAULT '', kernel TEXT NOT NULL DEFAULT '', state "
    "TEXT NOT NULL,"
    " predicted_tflops REAL, registers INTEGER, spill_bytes INTEGER, shared_bytes INTEGER,"
    " ratio REAL, tflops REAL, model_tflops REAL, spread REAL, attempts INTEGER NOT NULL DEFAULT 0,"
    " owner TEXT NOT NULL DEFAULT '', changed_s INTEGER NOT NULL DEFAULT 0,"
    " why TEXT NOT NULL DEFAULT '', UNIQUE(problem, pins));"
    "CREATE TABLE IF NOT EXISTS device("
    " device TEXT PRIMARY KEY, owner TEXT NOT NULL, since_s INTEGER NOT NULL);"
    "PRAGMA user_version = 1;";

const char *store_error(const store *s) {
    return s->database.error;
}

bool store_open(const char *path, store **out, os_error *why) {
    static const database_form form = {"the tuning database", 1, schema};
    *out = NULL;
    store *s = calloc(1, sizeof *s);
    if (!s) {
        snprintf(why->text, sizeof why->text, "out of memory");
        return false;
    }
    bool is_open = database_open(&s->database, &form, path, why);
    if (is_open) *out = s;
    else free(s);
    return is_open;
}

void store_close(store *s) {
    if (!s) return;
    database_close(&s->database);
    free(s);
}

void store_owner(char owner[STORE_OWNER_BYTES]) {
    snprintf(owner, STORE_OWNER_BYTES, "%d", os_process_id());
}

/* --- candidates ------------------------------------------------------------------------------- */

int64_t store_problem(store *s, const store_key *key) {
    const char *const texts[] = {key->problem,  key->gpu,   key->device,
                                 key->software, key->cases, key->title};
    sqlite3_stmt *insert = database_prepare(
        &s->database, "INSERT OR IGNORE INTO problem(problem, gpu, device, software, cases, title)"
                      " VALUES(?1, ?2, ?3, ?4, ?5, ?6)");
    for (int i = 0; insert && i < 6; i++) database_bind_text(insert, i + 1, texts[i]);
    if (!database_run(&s->database, insert, "write a problem")) return 0;
    sqlite3_stmt *find =
        database_prepare(&s->database, "SELECT id FROM problem WHERE problem = ?1 AND gpu = ?2"
                                       " AND device = ?3 AND software = ?4 AND cases = ?5");
    for (int i = 0; find && i < 5; i++) database_bind_text(find, i + 1, texts[i]);
    int64_t id = 0;
    if (find && sqlite3_step(find) == SQLITE_ROW) id = sqlite3_column_int64(find, 0);
    sqlite3_finalize(find);
    return id;
}

int64_t store_newest(store *s, const char *gpu, const char *problem) {
    sqlite3_stmt *find = database_prepare(
        &s->database, "SELECT max(id) FROM problem WHERE gpu = ?1 AND problem = ?2");
    if (!find) return 0;
    database_bind_text(find, 1, gpu);
    database_bind_text(find, 2, problem);
    int64_t id = sqlite3_step(find) == SQLITE_ROW ? sqlite3_column_int64(find, 0) : 0;
    sqlite3_finalize(find);
    return id;
}

#define ROW_COLUMNS                                                                                \
    "id, pins, decided, kernel, state, predicted_tflops, registers, spill_bytes, shared_bytes, "   \
    "ratio,"                                                                                       \
    " tflops, model_tflops, spread, attempts, why"

static void read_row(sqlite3_stmt *statement, store_row *row) {
    *row = (store_row){.id = sqlite3_column_int64(statement, 0),
                       .state = state_named(database_column_text(statement, 4)),
                       .predicted_tflops = sqlite3_column_double(statement, 5),
                       .registers = sqlite3_column_int(statement, 6),
                       .spill_bytes = sqlite3_column_int(statement, 7),
                       .shared_bytes = sqlite3_column_int(statement, 8),
                       .ratio = sqlite3_column_double(statement, 9),
                       .tflops = sqlite3_column_double(statement, 10),
                       .model_tflops = sqlite3_column_double(statement, 11),
                       .spread = sqlite3_column_double(statement, 12),
                       .attempts = sqlite3_column_int(statement, 13)};
    snprintf(row->pins, sizeof row->pins, "%s", database_column_text(statement, 1));
    snprintf(row->decided, sizeof row->decided, "%s", database_column_text(statement, 2));
    snprintf(row->kernel, sizeof row->kernel, "%s", database_column_text(statement, 3));
    snprintf(row->why, sizeof row->why, "%s", database_column_text(statement, 14));
}

static bool find_row(store *s, int64_t problem, const char *pins, store_row *row) {
    sqlite3_stmt *find = database_prepare(
        &s->database, "SELECT " ROW_COLUMNS " FROM candidate WHERE problem = ?1 AND pins = ?2");
    if (!find) return false;
    sqlite3_bind_int64(find, 1, problem);
    database_bind_text(find, 2, pins);
    bool is_there = sqlite3_step(find) == SQLITE_ROW;
    if (is_there) read_row(find, row);
    sqlite3_finalize(find);
    return is_there;
}

bool store_put(store *s, int64_t problem, store_row *row) {
    sqlite3_stmt *put = database_prepare(
        &s->database,
        "INSERT INTO candidate(problem, pins, kernel, state, predicted_tflops, registers,"
        " spill_bytes, shared_bytes, why, changed_s) VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9,"
        " ?10) ON CONFLICT(problem, pins) DO UPDATE SET kernel = ?3, state = ?4,"
        " predicted_tflops = ?5, registers = ?6, spill_bytes = ?7, shared_bytes = ?8, why = ?9,"
        " changed_s = ?10, ratio = NULL, tflops = NULL, model_tflops = NULL, spread = NULL,"
        " attempts = CASE WHEN kernel = ?3 THEN attempts ELSE 0 END"
        " WHERE kernel <> ?3 OR state IN ('open', 'built')");
    if (!put) return false;
    sqlite3_bind_int64(put, 1, problem);
    database_bind_text(put, 2, row->pins);
    database_bind_text(put, 3, row->kernel);
    database_bind_text(put, 4, store_state_name(row->state));
    sqlite3_bind_double(put, 5, row->predicted_tflops);
    sqlite3_bind_int(put, 6, row->registers);
    sqlite3_bind_int(put, 7, row->spill_bytes);
    sqlite3_bind_int(put, 8, row->shared_bytes);
    database_bind_text(put, 9, row->why);
    sqlite3_bind_int64(put, 10, os_clock_s());
    if (!database_run(&s->database, put, "write a candidate")) return false;
    return find_row(s, problem, row->pins, row) || database_fail(&s->database, "read a candidate");
}

bool store_knows_kernel(store *s, int64_t problem, const store_row *row) {
    sqlite3_stmt *find =
        database_prepare(&s->database, "SELECT 1 FROM candidate WHERE problem = ?1 AND kernel = ?2"
                                       " AND pins <> ?3 AND state <> 'same'");
    if (!find) return false;
    sqlite3_bind_int64(find, 1, problem);
    database_bind_text(find, 2, row->kernel);
    database_bind_text(find, 3, row->pins);
    bool is_known = sqlite3_step(find) == SQLITE_ROW;
    sqlite3_finalize(find);
    return is_known;
}

bool store_each(store *s, int64_t problem, void (*visit)(void *user, const store_row *row),
                void *user) {
    sqlite3_stmt *all =
        database_prepare(&s->database, "SELECT " ROW_COLUMNS " FROM candidate WHERE problem = ?1"
                                       " ORDER BY coalesce(ratio, 0) DESC, id");
    if (!all) return false;
    sqlite3_bind_int64(all, 1, problem);
    int result;
    store_row row;
    while ((result = sqlite3_step(all)) == SQLITE_ROW) {
        read_row(all, &row);
        visit(user, &row);
    }
    sqlite3_finalize(all);
    return result == SQLITE_DONE ? true : database_fail(&s->database, "read candidates");
}

/* --- measuring -------------------------------------------------------------------------------- */

bool store_claim(store *s, int64_t id, const char *owner) {
    sqlite3_stmt *claim = database_prepare(
        &s->database, "UPDATE candidate SET state = 'measuring', owner = ?2, changed_s = ?3,"
                      " attempts = attempts + 1 WHERE id = ?1 AND state = 'built'");
    if (!claim) return false;
    sqlite3_bind_int64(claim, 1, id);
    database_bind_text(claim, 2, owner);
    sqlite3_bind_int64(claim, 3, os_clock_s());
    return database_run(&s->database, claim, "claim a candidate") &&
           sqlite3_changes(s->database.handle) == 1;
}

bool store_finish(store *s, const store_row *row) {
    sqlite3_stmt *finish = database_prepare(
        &s->database,
        "UPDATE candidate SET state = ?2, owner = '', ratio = ?3, tflops = ?4,"
        " model_tflops = ?5, spread = ?6, why = ?7, changed_s = ?8, decided = ?9 WHERE id = ?1");
    if (!finish) return false;
    sqlite3_bind_int64(finish, 1, row->id);
    database_bind_text(finish, 2, store_state_name(row->state));
    sqlite3_bind_double(finish, 3, row->ratio);
    sqlite3_bind_double(finish, 4, row->tflops);
    sqlite3_bind_double(finish, 5, row->model_tflops);
    sqlite3_bind_double(finish, 6, row->spread);
    database_bind_text(finish, 7, row->why);
    sqlite3_bind_int64(finish, 8, os_clock_s());
    database_bind_text(finish, 9, row->decided);
    return database_run(&s->database, finish, "write a result");
}

bool store_blame(store *s, const char *owner, store_state state, const char *why) {
    sqlite3_stmt *blame =
        database_prepare(&s->database, "UPDATE candidate SET state = ?2, why = ?3, owner = ''"
                                       " WHERE owner = ?1 AND state = 'measuring'");
    if (!blame) return false;
    database_bind_text(blame, 1, owner);
    database_bind_text(blame, 2, store_state_name(state));
    database_bind_text(blame, 3, why);
    return database_run(&s->database, blame, "write a result");
}

static bool give_back(store *s, const char *owner) {
    sqlite3_stmt *back = database_prepare(
        &s->database,
        "UPDATE candidate SET owner = '', state = CASE WHEN attempts >= ?2 THEN 'abandoned'"
        " ELSE 'built' END WHERE owner = ?1 AND state = 'measuring'");
    if (!back) return false;
    database_bind_text(back, 1, owner);
    sqlite3_bind_int(back, 2, STORE_ATTEMPTS);
    return database_run(&s->database, back, "give candidates back");
}

bool store_recover(store *s) {
    enum { OWNERS_MAX = 64 };
    char gone[OWNERS_MAX][STORE_OWNER_BYTES];
    int count = 0;
    sqlite3_stmt *owners = database_prepare(
        &s->database, "SELECT DISTINCT owner FROM candidate WHERE state = 'measuring'");
    if (!owners) return false;
    while (count < OWNERS_MAX && sqlite3_step(owners) == SQLITE_ROW) {
        const char *owner = database_column_text(owners, 0);
        if (os_process_lives(atoi(owner))) continue;
        snprintf(gone[count++], STORE_OWNER_BYTES, "%s", owner);
    }
    sqlite3_finalize(owners);
    for (int i = 0; i < count; i++) {
        if (!give_back(s, gone[i])) return false;
    }
    return true;
}

/* --- the device ------------------------------------------------------------------------------- */

bool store_take_device(store *s, const char *device, const char *owner) {
    char holder[STORE_OWNER_BYTES] = "";
    int64_t since_s = 0, now_s = os_clock_s();
    sqlite3_stmt *find =
        database_prepare(&s->database, "SELECT owner, since_s FROM device WHERE device = ?1");
    if (!find) return false;
    database_bind_text(find, 1, device);
    if (sqlite3_step(find) == SQLITE_ROW) {
        snprintf(holder, sizeof holder, "%s", database_column_text(find, 0));
        since_s = sqlite3_column_int64(find, 1);
    }
    sqlite3_finalize(find);
    bool is_free = !holder[0] || strcmp(holder, owner) == 0 || !os_process_lives(atoi(holder)) ||
                   now_s - since_s > DEVICE_LEASE_S;
    if (!is_free) return false;
    /* Only if nobody else was quicker. */
    sqlite3_stmt *take = database_prepare(
        &s->database,
        "INSERT INTO device(device, owner, since_s) VALUES(?1, ?2, ?3) ON CONFLICT(device) DO"
        " UPDATE SET owner = ?2, since_s = ?3 WHERE owner = ?4");
    if (!take) return false;
    database_bind_text(take, 1, device);
    database_bind_text(take, 2, owner);
    sqlite3_bind_int64(take, 3, now_s);
    database_bind_text(take, 4, holder);
    return database_run(&s->database, take, "take the GPU") &&
           sqlite3_changes(s->database.handle) == 1;
}

bool store_leave_device(store *s, const char *device, const char *owner) {
    sqlite3_stmt *leave =
        database_prepare(&s->database, "DELETE FROM device WHERE device = ?1 AND owner = ?2");
    if (!leave) return false;
    database_bind_text(leave, 1, device);
    database_bind_text(leave, 2, owner);
    return database_run(&s->database, leave, "leave the GPU");
}

/* --- the best --------------------------------------------------------------------------------- */

/* The newest setting of a problem that has figures counts. */
bool store_each_best(store *s, const char *gpu, void (*visit)(void *user, const store_best *best),
                     void *user) {
    sqlite3_stmt *best = database_prepare(
        &s->database,
        "SELECT " ROW_COLUMNS ", p_problem, p_title, p_device, p_software, p_cases FROM ("
        " SELECT c.*, p.problem AS p_problem, p.title AS p_title, p.device AS p_device,"
        " p.software AS p_software, p.cases AS p_cases, row_number() OVER (PARTITION BY"
        " p.problem ORDER BY p.id DESC, c.ratio DESC) AS place"
        " FROM candidate c JOIN problem p ON c.problem = p.id"
        " WHERE p.gpu = ?1 AND c.state = 'measured' AND c.ratio > 0)"
        " WHERE place = 1 ORDER BY p_title, p_problem");
    if (!best) return false;
    database_bind_text(best, 1, gpu);
    int result;
    store_row row;
    while ((result = sqlite3_step(best)) == SQLITE_ROW) {
        read_row(best, &row);
        store_best found = {database_column_text(best, 15), database_column_text(best, 16),
                            database_column_text(best, 17), database_column_text(best, 18),
                            database_column_text(best, 19), &row};
        visit(user, &found);
    }
    sqlite3_finalize(best);
    return result == SQLITE_DONE ? true : database_fail(&s->database, "read the best");
}
