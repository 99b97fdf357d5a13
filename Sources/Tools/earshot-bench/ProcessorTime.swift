import Glibc

/// Processor time of this thread, in seconds. Unlike wall-clock time it does not depend on other load of the machine.
func processorTime() -> Double {
  var time = timespec()
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time)
  return Double(time.tv_sec) + Double(time.tv_nsec) / 1e9
}
