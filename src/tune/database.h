/* An SQLite database that several processes may use at once: write-ahead log, and statements that
 * wait for one another. A process may be killed at any moment; what was written stays whole. Not
 * thread-safe; a connection does not survive a fork.
 */
#ifndef FLASHTL_TUNE_DATABASE_H
#define FLASHTL_TUNE_DATABASE_H

#include "base/os.h"

typedef struct database {
    struct sqlite3 *handle;
    const char *name; /* "the tuning database" */
    char error[512];  /* one sentence about the last failure */
} database;

/* What makes one: 'schema' is run on every opening, so it creates only what is not there. */
typedef struct database_form {
    const char *name;
    int version; /* PRAGMA user_version, which 'schema' sets */
    const char *schema;
} database_form;

/* Opens or creates it. False with one sentence: no file, no database, of a later version. */
bool database_open(database *d, const database_form *form, const char *path, os_error *why);
void database_close(database *d);

/* Fills in 'error': cannot 'what'. Always false. */
bool database_fail(database *d, const char *what);
/* NULL on failure. */
struct sqlite3_stmt *database_prepare(database *d, const char *sql);
/* Ends a statement that gives no rows; false when it is NULL or fails. */
bool database_run(database *d, struct sqlite3_stmt *statement, const char *what);
/* The same for a text of statements without parameters. */
bool database_execute(database *d, const char *sql, const char *what);

void database_bind_text(struct sqlite3_stmt *statement, int at, const char *text); /* NULL: "" */
/* "" for NULL; valid until the next step. */
const char *database_column_text(struct sqlite3_stmt *statement, int at);

#endif
