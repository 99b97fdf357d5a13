/* What Linux has and Swift's importer does not show: variadic calls, and headers that Glibc's module leaves out. */
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/timerfd.h>
#include <stdint.h>

/* Neither a core dump nor ptrace by the same user shows this process's memory. 0, or -1 with errno. */
static inline int earshot_hide_memory(void) {
  const struct rlimit none = {0, 0};
  if (setrlimit(RLIMIT_CORE, &none) != 0) return -1;
  return prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
}

/* Sets a timer of CLOCK_REALTIME that is due at the end of time, and cancelled when somebody sets the clock. */
static inline int earshot_watch_clock(int timer) {
  const struct itimerspec never = {{0, 0}, {INT64_MAX / 1000000000, 0}};
  return timerfd_settime(timer, TFD_TIMER_ABSTIME | TFD_TIMER_CANCEL_ON_SET, &never, 0);
}
