/* What Linux has and Swift's importer does not show: variadic calls, and headers that Glibc's module leaves out. */
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/resource.h>

/* Neither a core dump nor ptrace by the same user shows this process's memory. 0, or -1 with errno. */
static inline int earshot_hide_memory(void) {
  const struct rlimit none = {0, 0};
  if (setrlimit(RLIMIT_CORE, &none) != 0) return -1;
  return prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
}
