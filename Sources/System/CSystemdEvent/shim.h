/* eventfd is what wakes the loop from another thread. */
#include <sys/eventfd.h>
#include <systemd/sd-event.h>
#include <systemd/sd-daemon.h>
