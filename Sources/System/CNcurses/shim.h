/* ncurses has one screen for the whole process, reached by globals and macros, which Swift does not import. */
#define NCURSES_WIDECHAR 1
#define NCURSES_NOMACROS 1
#include <curses.h>
#include <langinfo.h>
#include <locale.h>
#include <signal.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>
#include <wchar.h>

/* <term.h> declares it, but also defines macros with names like columns and lines. */
extern char *tigetstr(const char *name);

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

static inline int earshot_colours(void) { return COLORS; }

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

/* A crash would leave the terminal in raw mode with half a frame on it. The handlers below write the sequences that end the
   screen, restore the terminal settings, and let the signal take its course. They call only async-signal-safe functions. */
static struct {
  int output;
  int is_set;
  struct termios settings;
  char end[256];
  size_t length;
  struct sigaction before[NSIG];
} earshot_crash_guard = { .output = -1 };

static const int earshot_crash_signals[] = { SIGSEGV, SIGBUS, SIGILL, SIGTRAP, SIGFPE, SIGABRT };
enum { EARSHOT_CRASH_SIGNALS = sizeof earshot_crash_signals / sizeof *earshot_crash_signals };

static inline void earshot_on_crash(int number) {
  if (earshot_crash_guard.is_set) {
    earshot_crash_guard.is_set = 0;
    if (write(earshot_crash_guard.output, earshot_crash_guard.end, earshot_crash_guard.length) < 0) {}
    tcsetattr(earshot_crash_guard.output, TCSANOW, &earshot_crash_guard.settings);
  }
  sigaction(number, &earshot_crash_guard.before[number], NULL);
  raise(number);
}

static inline void earshot_add_to_end(const char *text) {
  /* Delays, written as $<5>, are for terminals on slow lines. */
  if (text == NULL || text == (char *)-1 || strstr(text, "$<") != NULL) return;
  size_t length = strlen(text);
  if (earshot_crash_guard.length + length > sizeof earshot_crash_guard.end) return;
  memcpy(earshot_crash_guard.end + earshot_crash_guard.length, text, length);
  earshot_crash_guard.length += length;
}

/* The settings are those of the terminal before ncurses changed them. */
static inline void earshot_guard_crashes(int output, const struct termios *settings) {
  earshot_crash_guard.output = output;
  earshot_crash_guard.settings = *settings;
  earshot_crash_guard.length = 0;
  earshot_add_to_end("\033[?2004l");
  earshot_add_to_end(tigetstr("sgr0"));
  earshot_add_to_end(tigetstr("cnorm"));
  earshot_add_to_end(tigetstr("rmcup"));
  earshot_add_to_end(tigetstr("rmkx"));
  earshot_crash_guard.is_set = 1;
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_handler = earshot_on_crash;
  sigemptyset(&action.sa_mask);
  for (int index = 0; index < EARSHOT_CRASH_SIGNALS; index++)
    sigaction(earshot_crash_signals[index], &action, &earshot_crash_guard.before[earshot_crash_signals[index]]);
}

static inline void earshot_release_crashes(void) {
  if (earshot_crash_guard.output < 0) return;
  earshot_crash_guard.output = -1;
  earshot_crash_guard.is_set = 0;
  for (int index = 0; index < EARSHOT_CRASH_SIGNALS; index++)
    sigaction(earshot_crash_signals[index], &earshot_crash_guard.before[earshot_crash_signals[index]], NULL);
}
