/* ncurses has one screen for the whole process, reached by globals and macros, which Swift does not import. */
#define NCURSES_WIDECHAR 1
#define NCURSES_NOMACROS 1
#include <curses.h>
#include <langinfo.h>
#include <locale.h>
#include <wchar.h>

/* Keys that the terminal descriptions do not name. */
enum {
  EARSHOT_PASTE_BEGIN = 01100,
  EARSHOT_PASTE_END,
  EARSHOT_ALT_UP,
  EARSHOT_ALT_DOWN
};

/* Raw input with function keys, no echo, no waiting; output is drawn by earshot_draw_... alone. */
static inline void earshot_prepare_screen(void) {
  raw();
  noecho();
  nonl();
  keypad(stdscr, TRUE);
  meta(stdscr, TRUE);
  nodelay(stdscr, TRUE);
  intrflush(stdscr, FALSE);
  scrollok(stdscr, FALSE);
  /* Milliseconds in which the rest of a sequence must follow its escape. */
  set_escdelay(25);
  define_key("\033[200~", EARSHOT_PASTE_BEGIN);
  define_key("\033[201~", EARSHOT_PASTE_END);
  define_key("\033[1;3A", EARSHOT_ALT_UP);
  define_key("\033[1;3B", EARSHOT_ALT_DOWN);
}

/* Returns 0 and a character, 1 and a function key's code, or -1 where there is no key now. */
static inline int earshot_next_key(unsigned *key) {
  wint_t value = 0;
  int kind = wget_wch(stdscr, &value);
  *key = value;
  return kind == OK ? 0 : kind == KEY_CODE_YES ? 1 : -1;
}

/* One cell: a character and what combines with it, at most CCHARW_MAX, and a 0. */
static inline void earshot_draw_cell(int row, int column, const wchar_t *text, unsigned attributes, short pair) {
  cchar_t cell;
  if (setcchar(&cell, text, attributes, pair, NULL) == OK) mvwadd_wch(stdscr, row, column, &cell);
}

static inline void earshot_begin_drawing(void) { werase(stdscr); }

/* A cursor outside of the screen is hidden. */
static inline void earshot_end_drawing(int row, int column) {
  curs_set(row >= 0);
  if (row >= 0) wmove(stdscr, row, column);
  wrefresh(stdscr);
}

/* Draws everything again, whatever the terminal shows now. */
static inline void earshot_redraw_all(void) { clearok(stdscr, TRUE); }

static inline unsigned earshot_attributes(int bold, int dim, int reverse, int underline) {
  return (bold ? A_BOLD : 0) | (dim ? A_DIM : 0) | (reverse ? A_REVERSE : 0) | (underline ? A_UNDERLINE : 0);
}
