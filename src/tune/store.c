#include "tune/store.h"

#include <sqlite3.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { VERSION = 1, BUSY_MS = 20000, DEVICE_LEASE_S = 300 };

struct store {
    sqlite3 *database;
    char error[512];
};

static const struct {
    const char *name, *sentence;
    bool is_final;
} states[] = {
#define STATE(id, name, is_final, sentence) {name, sentence, is_final},
#include "tune/states.def"
#undef STATE
};

const char *store_state_name(store_state state) {
    return states[state].name;
}
const char *store_state_sentence(store_state state) {
    return states[state].sentence;
}
bool store_state_is_final(store_state state) {
    return states[state].is_final;
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

/* --- statements ---------------------------------------------------------------------------------
 */

static bool fail(store *s, const char *what) {
    snprintf(s->error, sizeof s->error, "the tuning database: cannot %s: %s", what,
             sqlite3_errmsg(s->database));
    return false;
}

const char *store_error(const store *s) {
    return s->error;
}

static sqlite3_stmt *prepare(store *s, const char *sql) {
    sqlite3_stmt *statement = NULL;
    if (sqlite3_prepare_v2(s->database, sql, -1, &statement, NULL) != SQLITE_OK) fail(s, "read it");
    return statement;
}

static void bind_text(sqlite3_stmt *statement, int at, const char *text) {
    sqlite3_bind_text(statement, at, text ? text : "", -1, SQLITE_TRANSIENT);
}

/* Ends a statement that gives no rows. */
static bool run(store *s, sqlite3_stmt *statement, const char *what) {
    if (!statement) return false;
    int result = sqlite3_step(statement);
    sqlite3_finalize(statement);
    return result == SQLITE_DONE || result == SQLITE_ROW ? true : fail(s, what);
}

static const char *column_text(sqlite3_stmt *statement, int at) {
    const unsigned char *text = sqlite3_column_text(statement, at);
    return text ? (const char *)text : "";
}

/* --- opening ------------------------------------------------------------------------------------
 */

static int version_of(store *s) {
    sqlite3_stmt *statement = prepare(s, "PRAGMA user_version");
    int version = -1;
    if (statement && sqlite3_step(statement) == SQLITE_ROW) {
        version = sqlite3_column_int(statement, 0);
    } else {
        fail(s, "read it");
    }
    sqlite3_finalize(statement);
    return version;
}

static bool prepare_database(store *s) {
    sqlite3_busy_timeout(s->database, BUSY_MS);
    int version = version_of(s);
    if (version > VERSION) {
        snprintf(s->error, sizeof s->error, "the tuning database is of a later version (%d)",
                 version);
        return false;
    }
    const char *const steps[] = {"PRAGMA journal_mode = WAL", "PRAGMA synchronous = NORMAL",
                                 "BEGIN IMMEDIATE", schema, "COMMIT"};
    for (size_t i = 0; version >= 0 && i < sizeof steps / sizeof *steps; i++) {
        if (sqlite3_exec(s->database, steps[i], NULL, NULL, NULL) != SQLITE_OK) {
            return fail(s, "prepare it");
        }
    }
    return version >= 0;
}

bool store_open(const char *path, store **out, os_error *why) {
    *out = NULL;
    store *s = calloc(1, sizeof *s);
    if (!s) {
        snprintf(why->text, sizeof why->text, "out of memory");
        return false;
    }
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE;
    bool is_open = sqlite3_open_v2(path, &s->database, flags, NULL) == SQLITE_OK
                       ? prepare_database(s)
                       : fail(s, "open it");
    if (is_open) *out = s;
    else {
        snprintf(why->text, sizeof why->text, "%.400s ('%.100s')", s->error, path);
        store_close(s);
    }
    return is_open;
}

void store_close(store *s) {
    if (!s) return;
    sqlite3_close(s->database);
    free(s);
}

void store_owner(char owner[STORE_OWNER_BYTES]) {
    snprintf(owner, STORE_OWNER_BYTES, "%d", os_process_id());
}

/* --- candidates ---------------------------------------------------------------------------------
 */

int64_t store_problem(store *s, const store_key *key) {
    const char *const texts[] = {key->problem,  key->gpu,   key->device,
                                 key->software, key->cases, key->title};
    sqlite3_stmt *insert =
        prepare(s, "INSERT OR IGNORE INTO problem(problem, gpu, device, software, cases, title)"
                   " VALUES(?1, ?2, ?3, ?4, ?5, ?6)");
    for (int i = 0; insert && i < 6; i++) bind_text(insert, i + 1, texts[i]);
    if (!run(s, insert, "write a problem")) return 0;
    sqlite3_stmt *find = prepare(s, "SELECT id FROM problem WHERE problem = ?1 AND gpu = ?2"
                                    " AND device = ?3 AND software = ?4 AND cases = ?5");
    for (int i = 0; find && i < 5; i++) bind_text(find, i + 1, texts[i]);
    int64_t id = 0;
    if (find && sqlite3_step(find) == SQLITE_ROW) id = sqlite3_column_int64(find, 0);
    sqlite3_finalize(find);
    return id;
}

int64_t store_newest(store *s, const char *gpu, const char *problem) {
    sqlite3_stmt *find = prepare(s, "SELECT max(id) FROM problem WHERE gpu = ?1 AND problem = ?2");
    if (!find) return 0;
    bind_text(find, 1, gpu);
    bind_text(find, 2, problem);
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
                       .state = state_named(column_text(statement, 4)),
                       .predicted_tflops = sqlite3_column_double(statement, 5),
                       .registers = sqlite3_column_int(statement, 6),
                       .spill_bytes = sqlite3_column_int(statement, 7),
                       .shared_bytes = sqlite3_column_int(statement, 8),
                       .ratio = sqlite3_column_double(statement, 9),
                       .tflops = sqlite3_column_double(statement, 10),
                       .model_tflops = sqlite3_column_double(statement, 11),
                       .spread = sqlite3_column_double(statement, 12),
                       .attempts = sqlite3_column_int(statement, 13)};
    snprintf(row->pins, sizeof row->pins, "%s", column_text(statement, 1));
    snprintf(row->decided, sizeof row->decided, "%s", column_text(statement, 2));
    snprintf(row->kernel, sizeof row->kernel, "%s", column_text(statement, 3));
    snprintf(row->why, sizeof row->why, "%s", column_text(statement, 14));
}

static bool find_row(store *s, int64_t problem, const char *pins, store_row *row) {
    sqlite3_stmt *find =
        prepare(s, "SELECT " ROW_COLUMNS " FROM candidate WHERE problem = ?1 AND pins = ?2");
    if (!find) return false;
    sqlite3_bind_int64(find, 1, problem);
    bind_text(find, 2, pins);
    bool is_there = sqlite3_step(find) == SQLITE_ROW;
    if (is_there) read_row(find, row);
    sqlite3_finalize(find);
    return is_there;
}

bool store_put(store *s, int64_t problem, store_row *row) {
    sqlite3_stmt *put = prepare(
        s, "INSERT INTO candidate(problem, pins, kernel, state, predicted_tflops, registers,"
           " spill_bytes, shared_bytes, why, changed_s) VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9,"
           " ?10) ON CONFLICT(problem, pins) DO UPDATE SET kernel = ?3, state = ?4,"
           " predicted_tflops = ?5, registers = ?6, spill_bytes = ?7, shared_bytes = ?8, why = ?9,"
           " changed_s = ?10, ratio = NULL, tflops = NULL, model_tflops = NULL, spread = NULL,"
           " attempts = CASE WHEN kernel = ?3 THEN attempts ELSE 0 END"
           " WHERE kernel <> ?3 OR state IN ('open', 'built')");
    if (!put) return false;
    sqlite3_bind_int64(put, 1, problem);
    bind_text(put, 2, row->pins);
    bind_text(put, 3, row->kernel);
    bind_text(put, 4, store_state_name(row->state));
    sqlite3_bind_double(put, 5, row->predicted_tflops);
    sqlite3_bind_int(put, 6, row->registers);
    sqlite3_bind_int(put, 7, row->spill_bytes);
    sqlite3_bind_int(put, 8, row->shared_bytes);
    bind_text(put, 9, row->why);
    sqlite3_bind_int64(put, 10, os_clock_s());
    if (!run(s, put, "write a candidate")) return false;
    return find_row(s, problem, row->pins, row) || fail(s, "read a candidate");
}

bool store_knows_kernel(store *s, int64_t problem, const store_row *row) {
    sqlite3_stmt *find = prepare(s, "SELECT 1 FROM candidate WHERE problem = ?1 AND kernel = ?2"
                                    " AND pins <> ?3 AND state <> 'same'");
    if (!find) return false;
    sqlite3_bind_int64(find, 1, problem);
    bind_text(find, 2, row->kernel);
    bind_text(find, 3, row->pins);
    bool is_known = sqlite3_step(find) == SQLITE_ROW;
    sqlite3_finalize(find);
    return is_known;
}

bool store_each(store *s, int64_t problem, void (*visit)(void *user, const store_row *row),
                void *user) {
    sqlite3_stmt *all = prepare(s, "SELECT " ROW_COLUMNS " FROM candidate WHERE problem = ?1"
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
    return result == SQLITE_DONE ? true : fail(s, "read candidates");
}

/* --- measuring ----------------------------------------------------------------------------------
 */

bool store_claim(store *s, int64_t id, const char *owner) {
    sqlite3_stmt *claim =
        prepare(s, "UPDATE candidate SET state = 'measuring', owner = ?2, changed_s = ?3,"
                   " attempts = attempts + 1 WHERE id = ?1 AND state = 'built'");
    if (!claim) return false;
    sqlite3_bind_int64(claim, 1, id);
    bind_text(claim, 2, owner);
    sqlite3_bind_int64(claim, 3, os_clock_s());
    return run(s, claim, "claim a candidate") && sqlite3_changes(s->database) == 1;
}

bool store_finish(store *s, const store_row *row) {
    sqlite3_stmt *finish = prepare(
        s, "UPDATE candidate SET state = ?2, owner = '', ratio = ?3, tflops = ?4,"
           " model_tflops = ?5, spread = ?6, why = ?7, changed_s = ?8, decided = ?9 WHERE id = ?1");
    if (!finish) return false;
    sqlite3_bind_int64(finish, 1, row->id);
    bind_text(finish, 2, store_state_name(row->state));
    sqlite3_bind_double(finish, 3, row->ratio);
    sqlite3_bind_double(finish, 4, row->tflops);
    sqlite3_bind_double(finish, 5, row->model_tflops);
    sqlite3_bind_double(finish, 6, row->spread);
    bind_text(finish, 7, row->why);
    sqlite3_bind_int64(finish, 8, os_clock_s());
    bind_text(finish, 9, row->decided);
    return run(s, finish, "write a result");
}

bool store_blame(store *s, const char *owner, store_state state, const char *why) {
    sqlite3_stmt *blame = prepare(s, "UPDATE candidate SET state = ?2, why = ?3, owner = ''"
                                     " WHERE owner = ?1 AND state = 'measuring'");
    if (!blame) return false;
    bind_text(blame, 1, owner);
    bind_text(blame, 2, store_state_name(state));
    bind_text(blame, 3, why);
    return run(s, blame, "write a result");
}

static bool give_back(store *s, const char *owner) {
    sqlite3_stmt *back = prepare(
        s, "UPDATE candidate SET owner = '', state = CASE WHEN attempts >= ?2 THEN 'abandoned'"
           " ELSE 'built' END WHERE owner = ?1 AND state = 'measuring'");
    if (!back) return false;
    bind_text(back, 1, owner);
    sqlite3_bind_int(back, 2, STORE_ATTEMPTS);
    return run(s, back, "give candidates back");
}

bool store_recover(store *s) {
    enum { OWNERS_MAX = 64 };
    char gone[OWNERS_MAX][STORE_OWNER_BYTES];
    int count = 0;
    sqlite3_stmt *owners =
        prepare(s, "SELECT DISTINCT owner FROM candidate WHERE state = 'measuring'");
    if (!owners) return false;
    while (count < OWNERS_MAX && sqlite3_step(owners) == SQLITE_ROW) {
        const char *owner = column_text(owners, 0);
        if (os_process_lives(atoi(owner))) continue;
        snprintf(gone[count++], STORE_OWNER_BYTES, "%s", owner);
    }
    sqlite3_finalize(owners);
    for (int i = 0; i < count; i++) {
        if (!give_back(s, gone[i])) return false;
    }
    return true;
}

/* --- the device ---------------------------------------------------------------------------------
 */

bool store_take_device(store *s, const char *device, const char *owner) {
    char holder[STORE_OWNER_BYTES] = "";
    int64_t since_s = 0, now_s = os_clock_s();
    sqlite3_stmt *find = prepare(s, "SELECT owner, since_s FROM device WHERE device = ?1");
    if (!find) return false;
    bind_text(find, 1, device);
    if (sqlite3_step(find) == SQLITE_ROW) {
        snprintf(holder, sizeof holder, "%s", column_text(find, 0));
        since_s = sqlite3_column_int64(find, 1);
    }
    sqlite3_finalize(find);
    bool is_free = !holder[0] || strcmp(holder, owner) == 0 || !os_process_lives(atoi(holder)) ||
                   now_s - since_s > DEVICE_LEASE_S;
    if (!is_free) return false;
    /* Only if nobody else was quicker. */
    sqlite3_stmt *take = prepare(
        s, "INSERT INTO device(device, owner, since_s) VALUES(?1, ?2, ?3) ON CONFLICT(device) DO"
           " UPDATE SET owner = ?2, since_s = ?3 WHERE owner = ?4");
    if (!take) return false;
    bind_text(take, 1, device);
    bind_text(take, 2, owner);
    sqlite3_bind_int64(take, 3, now_s);
    bind_text(take, 4, holder);
    return run(s, take, "take the GPU") && sqlite3_changes(s->database) == 1;
}

bool store_leave_device(store *s, const char *device, const char *owner) {
    sqlite3_stmt *leave = prepare(s, "DELETE FROM device WHERE device = ?1 AND owner = ?2");
    if (!leave) return false;
    bind_text(leave, 1, device);
    bind_text(leave, 2, owner);
    return run(s, leave, "leave the GPU");
}

/* --- the best -----------------------------------------------------------------------------------
 */

/* The newest setting of a problem that has figures counts. */
bool store_each_best(store *s, const char *gpu, void (*visit)(void *user, const store_best *best),
                     void *user) {
    sqlite3_stmt *best = prepare(
        s, "SELECT " ROW_COLUMNS ", p_problem, p_title, p_device, p_software, p_cases FROM ("
           " SELECT c.*, p.problem AS p_problem, p.title AS p_title, p.device AS p_device,"
           " p.software AS p_software, p.cases AS p_cases, row_number() OVER (PARTITION BY"
           " p.problem ORDER BY p.id DESC, c.ratio DESC) AS place"
           " FROM candidate c JOIN problem p ON c.problem = p.id"
           " WHERE p.gpu = ?1 AND c.state = 'measured' AND c.ratio > 0)"
           " WHERE place = 1 ORDER BY p_title, p_problem");
    if (!best) return false;
    bind_text(best, 1, gpu);
    int result;
    store_row row;
    while ((result = sqlite3_step(best)) == SQLITE_ROW) {
        read_row(best, &row);
        store_best found = {column_text(best, 15), column_text(best, 16), column_text(best, 17),
                            column_text(best, 18), column_text(best, 19), &row};
        visit(user, &found);
    }
    sqlite3_finalize(best);
    return result == SQLITE_DONE ? true : fail(s, "read the best");
}
