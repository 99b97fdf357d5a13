#define _GNU_SOURCE
#include "wipe.h"

#include <dlfcn.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

/* Not a part of its caller, whose frame is not to be overwritten. */
__attribute__((noinline)) void earshot_wipe_stack(void) {
  char room[64 << 10];
  explicit_bzero(room, sizeof room);
}

#ifndef __has_feature
#define __has_feature(feature) 0
#endif
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || defined(EARSHOT_PLAIN_FREE)

/* Sanitizers have an allocator of their own. */
int earshot_free_wipes(void) { return 0; }

#else

/* A program's own free(3) takes the place of the C library's everywhere: "Replacing malloc" in the manual of the GNU C
 * Library. The memory itself stays the C library's: it offers its functions under these names to whoever does that. */
extern void *__libc_malloc(size_t size);
extern void __libc_free(void *block);

/* Whether the C library has mapped the block by itself. It unmaps the block when it is freed, and the kernel wipes; to
 * overwrite it would only bring in the pages that nobody has touched. The bit stands in the size in front of the block
 * ("MallocInternals" in the wiki of the GNU C Library). */
static int is_mapped(const void *block) { return (((const size_t *)block)[-1] & 2) != 0; }

void free(void *block) {
  if (block == NULL) return;
  /* No compiler takes this for a write that nobody reads. */
  if (!is_mapped(block)) explicit_bzero(block, malloc_usable_size(block));
  __libc_free(block);
}

/* The C library's own would leave the bytes behind where it moves a block, and behind the end of one that shrinks. */
void *realloc(void *block, size_t size) {
  if (block == NULL) return __libc_malloc(size);
  if (size == 0) {
    free(block);
    return NULL;
  }
  size_t had = malloc_usable_size(block);
  if (size <= had && size > had / 2) {
    explicit_bzero((char *)block + size, had - size);
    return block;
  }
  void *moved = __libc_malloc(size);
  if (moved == NULL) return NULL;
  memcpy(moved, block, size < had ? size : had);
  free(block);
  return moved;
}

int earshot_free_wipes(void) { return dlsym(RTLD_DEFAULT, "free") == (void *)free; }

#endif
