/* What Linux has and Swift's importer does not show: variadic calls, and headers that Glibc's module leaves out. */
#include <linux/capability.h>
#include <malloc.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/timex.h>
#include <stdint.h>
#include <unistd.h>

/* Neither a core dump nor ptrace by the same user shows this process's memory. 0, or -1 with errno. */
static inline int earshot_hide_memory(void) {
  const struct rlimit none = {0, 0};
  if (setrlimit(RLIMIT_CORE, &none) != 0) return -1;
  return prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
}

/* Blocks of 128 KiB and more go back to the kernel as soon as they are freed, however many there were before. */
static inline void earshot_give_back_blocks(void) {
  mallopt(M_MMAP_THRESHOLD, 128 << 10);
  mallopt(M_TRIM_THRESHOLD, 128 << 10);
}

/* What this thread is called; the first 15 bytes count. */
static inline void earshot_name_thread(const char *name) { prctl(PR_SET_NAME, name, 0, 0, 0); }

/* The capabilities of this thread, as sets of bits. 0, or -1 with errno. */
static inline int earshot_get_capabilities(unsigned long long *effective, unsigned long long *permitted,
                                           unsigned long long *inheritable) {
  struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
  struct __user_cap_data_struct data[2];
  if (syscall(SYS_capget, &header, data) != 0) return -1;
  *effective = (unsigned long long)data[1].effective << 32 | data[0].effective;
  *permitted = (unsigned long long)data[1].permitted << 32 | data[0].permitted;
  *inheritable = (unsigned long long)data[1].inheritable << 32 | data[0].inheritable;
  return 0;
}

static inline int earshot_set_capabilities(unsigned long long effective, unsigned long long permitted,
                                           unsigned long long inheritable) {
  struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
  struct __user_cap_data_struct data[2] = {
      {(unsigned)effective, (unsigned)permitted, (unsigned)inheritable},
      {(unsigned)(effective >> 32), (unsigned)(permitted >> 32), (unsigned)(inheritable >> 32)}};
  return (int)syscall(SYS_capset, &header, data);
}

/* Programs that this thread starts get no capabilities from it. */
static inline int earshot_clear_ambient_capabilities(void) {
  return prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
}

/* Sets a timer of CLOCK_REALTIME that is due at the end of time, and cancelled when somebody sets the clock. */
static inline int earshot_watch_clock(int timer) {
  const struct itimerspec never = {{0, 0}, {INT64_MAX / 1000000000, 0}};
  return timerfd_settime(timer, TFD_TIMER_ABSTIME | TFD_TIMER_CANCEL_ON_SET, &never, 0);
}

/* Whether a time service keeps the clock right: 1 or 0. */
static inline int earshot_is_clock_synchronised(void) {
  struct timex state = {0};
  return adjtimex(&state) >= 0 && (state.status & STA_UNSYNC) == 0;
}
