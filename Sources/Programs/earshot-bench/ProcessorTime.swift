import Glibc

/// Seconds that this thread has computed: on a machine with other work the clock on the wall says how much of that there is.
func processorTime() -> Double {
  var time = timespec()
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time)
  return Double(time.tv_sec) + Double(time.tv_nsec) / 1e9
}
