/* Preloaded into btvirt, which takes ten events at a time and touches what an earlier one of them has freed: with several
 * advertisements on the air, 5.82 crashes now and then when one of them ends. One event at a time, none is stale. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sys/epoll.h>

int epoll_wait(int epoll, struct epoll_event *events, int most, int timeout) {
  static int (*original)(int, struct epoll_event *, int, int);
  if (!original) original = (int (*)(int, struct epoll_event *, int, int))dlsym(RTLD_NEXT, "epoll_wait");
  (void)most;
  return original(epoll, events, 1, timeout);
}
