/* free(3) and realloc(3) of the whole process, its libraries included: what is given back is overwritten first. */

/* Whether free(3) in this process is the one that overwrites: 1, or 0 where a sanitizer or a preloaded library has its own. */
int earshot_free_wipes(void);

/* Overwrites what calls that have returned left on the stack of this thread: the 64 KiB below the caller's frame. */
void earshot_wipe_stack(void);
