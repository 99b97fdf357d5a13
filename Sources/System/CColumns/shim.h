#include <stdint.h>
#include <wchar.h>

/* Of X/Open, and hidden from Swift. */
extern int wcwidth(wchar_t character);

/* The columns of a character on a terminal, by the locale that is set; -1 for one that is not printed. */
static inline int earshot_columns(uint32_t character) { return wcwidth((wchar_t)character); }
