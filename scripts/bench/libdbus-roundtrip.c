/* What a call over the bus costs with libdbus alone: one process calls, another answers, both in C and without any
 * binding. Prints the median of the round trips in microseconds. */
#include <dbus/dbus.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static const char name[] = "org.example.Bare";

static void fail(const char *what) {
  fprintf(stderr, "libdbus-roundtrip: %s\n", what);
  exit(1);
}

static DBusConnection *join(const char *address) {
  DBusConnection *bus = dbus_connection_open_private(address, NULL);
  if (bus == NULL || !dbus_bus_register(bus, NULL)) fail("the bus cannot be reached");
  return bus;
}

/* Owns the name, says so with a line, and answers every call until the bus goes. */
static void serve(const char *address) {
  DBusConnection *bus = join(address);
  if (dbus_bus_request_name(bus, name, DBUS_NAME_FLAG_DO_NOT_QUEUE, NULL) != DBUS_REQUEST_NAME_REPLY_PRIMARY_OWNER)
    fail("the bus name cannot be acquired");
  puts("ready");
  fflush(stdout);
  while (dbus_connection_read_write(bus, -1)) {
    DBusMessage *call;
    while ((call = dbus_connection_pop_message(bus)) != NULL) {
      if (dbus_message_get_type(call) == DBUS_MESSAGE_TYPE_METHOD_CALL) {
        DBusMessage *answer = dbus_message_new_method_return(call);
        if (answer == NULL || !dbus_connection_send(bus, answer, NULL)) fail("out of memory");
        dbus_message_unref(answer);
      }
      dbus_message_unref(call);
    }
  }
}

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec * 1e6 + (double)time.tv_nsec / 1e3;
}

static int ascending(const void *one, const void *other) {
  double a = *(const double *)one, b = *(const double *)other;
  return (a > b) - (a < b);
}

static void call(const char *address, int count) {
  DBusConnection *bus = join(address);
  double *times = calloc((size_t)count, sizeof *times);
  if (times == NULL) fail("out of memory");
  for (int i = 0; i < count; i++) {
    DBusMessage *ping = dbus_message_new_method_call(name, "/", "org.freedesktop.DBus.Peer", "Ping");
    double begin = now();
    DBusMessage *answer = ping ? dbus_connection_send_with_reply_and_block(bus, ping, 5000, NULL) : NULL;
    times[i] = now() - begin;
    if (answer == NULL) fail("the call was not answered");
    dbus_message_unref(ping);
    dbus_message_unref(answer);
  }
  qsort(times, (size_t)count, sizeof *times, ascending);
  printf("%.1f\n", times[count / 2]);
  free(times);
}

int main(int argc, char **argv) {
  if (argc == 3 && argv[1][0] == 's') serve(argv[2]);
  else if (argc == 4 && argv[1][0] == 'c' && atoi(argv[3]) > 0) call(argv[2], atoi(argv[3]));
  else fail("serve ADDRESS | call ADDRESS COUNT");
  return 0;
}
