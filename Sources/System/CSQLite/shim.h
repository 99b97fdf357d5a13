#include <sqlite3.h>

/* What Swift cannot call: functions with a variable number of arguments, and a constant that is a cast. */

/* Binds a copy of the bytes. */
static inline int earshot_bind_blob(sqlite3_stmt *statement, int index, const void *bytes, sqlite3_uint64 count) {
  return count == 0 ? sqlite3_bind_zeroblob(statement, index, 0)
                    : sqlite3_bind_blob64(statement, index, bytes, count, SQLITE_TRANSIENT);
}

/* Binds a copy of the UTF-8. */
static inline int earshot_bind_text(sqlite3_stmt *statement, int index, const char *text, sqlite3_uint64 count) {
  return sqlite3_bind_text64(statement, index, text, count, SQLITE_TRANSIENT, SQLITE_UTF8);
}

/* A statement cannot damage the file on purpose: no writing to the schema, no journal turned off. */
static inline int earshot_set_defensive(sqlite3 *database) {
  return sqlite3_db_config(database, SQLITE_DBCONFIG_DEFENSIVE, 1, (int *)0);
}
