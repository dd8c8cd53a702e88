#include "tune/database.h"

#include <sqlite3.h>

#include <stdio.h>

enum { BUSY_S = 60, PAUSE_NS = 5000000 };

bool database_fail(database *d, const char *what) {
    bool is_busy = (sqlite3_errcode(d->handle) & 0xFF) == SQLITE_BUSY;
    if (is_busy) {
        snprintf(d->error, sizeof d->error, "%s: cannot %s: another process has held it for %d s",
                 d->name, what, BUSY_S);
    } else {
        snprintf(d->error, sizeof d->error, "%s: cannot %s: %s", d->name, what,
                 sqlite3_errmsg(d->handle));
    }
    return false;
}

sqlite3_stmt *database_prepare(database *d, const char *sql) {
    sqlite3_stmt *statement = NULL;
    if (sqlite3_prepare_v2(d->handle, sql, -1, &statement, NULL) != SQLITE_OK) {
        database_fail(d, "read it");
    }
    return statement;
}

bool database_run(database *d, sqlite3_stmt *statement, const char *what) {
    if (!statement) return false;
    int result = sqlite3_step(statement);
    sqlite3_finalize(statement);
    return result == SQLITE_DONE || result == SQLITE_ROW ? true : database_fail(d, what);
}

bool database_execute(database *d, const char *sql, const char *what) {
    return sqlite3_exec(d->handle, sql, NULL, NULL, NULL) == SQLITE_OK ? true
                                                                       : database_fail(d, what);
}

void database_bind_text(sqlite3_stmt *statement, int at, const char *text) {
    sqlite3_bind_text(statement, at, text ? text : "", -1, SQLITE_TRANSIENT);
}

const char *database_column_text(sqlite3_stmt *statement, int at) {
    const unsigned char *text = sqlite3_column_text(statement, at);
    return text ? (const char *)text : "";
}

/* --- opening ---------------------------------------------------------------------------------- */

/* Some of what makes a database is refused at once where another process makes it, too: the switch
 * to a write-ahead log does not wait as statements do.
 */
static bool prepare_step(database *d, const char *sql) {
    int64_t end_ns = os_time_ns() + (int64_t)BUSY_S * 1000000000;
    while ((sqlite3_exec(d->handle, sql, NULL, NULL, NULL) & 0xFF) == SQLITE_BUSY) {
        if (os_time_ns() > end_ns) break;
        os_sleep_ns(PAUSE_NS);
    }
    return sqlite3_errcode(d->handle) == SQLITE_OK || database_fail(d, "prepare it");
}

static int version_of(database *d) {
    sqlite3_stmt *statement = database_prepare(d, "PRAGMA user_version");
    int version = -1;
    if (statement && sqlite3_step(statement) == SQLITE_ROW) {
        version = sqlite3_column_int(statement, 0);
    } else {
        database_fail(d, "read it");
    }
    sqlite3_finalize(statement);
    return version;
}

static bool prepare_all(database *d, const database_form *form) {
    sqlite3_busy_timeout(d->handle, BUSY_S * 1000);
    int version = version_of(d);
    if (version > form->version) {
        snprintf(d->error, sizeof d->error, "%s is of a later version (%d)", d->name, version);
        return false;
    }
    const char *const steps[] = {"PRAGMA journal_mode = WAL", "PRAGMA synchronous = NORMAL",
                                 "BEGIN IMMEDIATE", form->schema, "COMMIT"};
    for (size_t i = 0; version >= 0 && i < sizeof steps / sizeof *steps; i++) {
        if (!prepare_step(d, steps[i])) return false;
    }
    return version >= 0;
}

bool database_open(database *d, const database_form *form, const char *path, os_error *why) {
    *d = (database){.name = form->name};
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE;
    bool is_open = sqlite3_open_v2(path, &d->handle, flags, NULL) == SQLITE_OK
                       ? prepare_all(d, form)
                       : database_fail(d, "open it");
    if (is_open) return true;
    snprintf(why->text, sizeof why->text, "%.400s ('%.100s')", d->error, path);
    database_close(d);
    return false;
}

void database_close(database *d) {
    sqlite3_close(d->handle);
    d->handle = NULL;
}
