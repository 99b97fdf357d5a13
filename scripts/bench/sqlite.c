/* What storing blobs costs in plain SQLite with the durability of the social server: WAL, synchronous=FULL, a row for each blob and
 * an index over its sum. Prints inserts a second.
 *
 *   sqlite FILE COUNT GROUP SIZE: COUNT rows with SIZE bytes, GROUP rows for each commit */
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static void check(int result, int wanted, sqlite3 *database) {
  if (result == wanted) return;
  fprintf(stderr, "sqlite: %s\n", sqlite3_errmsg(database));
  exit(1);
}

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

int main(int count, char **words) {
  if (count != 5) return 2;
  long rows = atol(words[2]), group = atol(words[3]), size = atol(words[4]);
  if (rows < 1 || group < 1 || size < 1 || size > 1 << 20) return 2;
  remove(words[1]);
  sqlite3 *database;
  check(sqlite3_open(words[1], &database), SQLITE_OK, database);
  check(sqlite3_exec(database,
                     "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL;"
                     "CREATE TABLE blob(sum BLOB PRIMARY KEY, bytes BLOB NOT NULL) WITHOUT ROWID",
                     NULL, NULL, NULL),
        SQLITE_OK, database);
  sqlite3_stmt *insert;
  check(sqlite3_prepare_v2(database, "INSERT INTO blob VALUES(randomblob(64), ?)", -1, &insert, NULL), SQLITE_OK,
        database);
  char *bytes = malloc((size_t)size);
  if (bytes == NULL) return 1;
  memset(bytes, 'x', (size_t)size);
  double start = now();
  for (long row = 0; row < rows; row++) {
    if (row % group == 0) check(sqlite3_exec(database, "BEGIN", NULL, NULL, NULL), SQLITE_OK, database);
    check(sqlite3_bind_blob(insert, 1, bytes, (int)size, SQLITE_STATIC), SQLITE_OK, database);
    check(sqlite3_step(insert), SQLITE_DONE, database);
    check(sqlite3_reset(insert), SQLITE_OK, database);
    if (row % group == group - 1 || row == rows - 1)
      check(sqlite3_exec(database, "COMMIT", NULL, NULL, NULL), SQLITE_OK, database);
  }
  printf("%.1f\n", (double)rows / (now() - start));
  sqlite3_finalize(insert);
  sqlite3_close(database);
  free(bytes);
  return 0;
}
