/* The least that BlueZ lets a GATT server be: one service, one characteristic, every write answered and forgotten.
 * What the service does with a credential is measured against it. Usage: bare_gatt hci0
 *
 * With a third word, bare_gatt hci0 socket, commands come by a socket, as the service has them from BlueZ 5.76 on, and a read
 * returns how many bytes came by it: eight bytes, the lowest first. */
#include <dbus/dbus.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define SERVICE "0000fff0-0000-1000-8000-00805f9b34fb"
#define CHARACTERISTIC "0000fff1-0000-1000-8000-00805f9b34fb"
#define ROOT "/bare"
#define SERVICE_PATH ROOT "/service"
#define CHARACTERISTIC_PATH SERVICE_PATH "/characteristic"
#define ADVERTISEMENT_PATH ROOT "/advertisement"

typedef DBusMessageIter Iter;

static int has_socket;
/* The end of the socket by which commands come; negative without one. */
static int commands = -1;
/* Bytes that came by it. */
static uint64_t received;

static void open_container(Iter *outer, int type, const char *contents, Iter *inner) {
  dbus_message_iter_open_container(outer, type, contents, inner);
}

static void close_container(Iter *outer, Iter *inner) { dbus_message_iter_close_container(outer, inner); }

static void append_text(Iter *to, int type, const char *text) { dbus_message_iter_append_basic(to, type, &text); }

/* "name": a text of this type, or an array of texts where `texts` ends with a null and type is an array; of a truth value
 * whether there are no texts. */
static void append_property(Iter *properties, const char *name, int type, const char *const *texts) {
  Iter entry, variant, array;
  const char single[] = {(char)type, 0};
  open_container(properties, DBUS_TYPE_DICT_ENTRY, NULL, &entry);
  append_text(&entry, DBUS_TYPE_STRING, name);
  open_container(&entry, DBUS_TYPE_VARIANT, type == DBUS_TYPE_ARRAY ? "as" : single, &variant);
  if (type == DBUS_TYPE_ARRAY) {
    open_container(&variant, DBUS_TYPE_ARRAY, "s", &array);
    for (; *texts; texts++) append_text(&array, DBUS_TYPE_STRING, *texts);
    close_container(&variant, &array);
  } else if (type == DBUS_TYPE_BOOLEAN) {
    dbus_bool_t yes = texts == NULL;
    dbus_message_iter_append_basic(&variant, type, &yes);
  } else {
    append_text(&variant, type, *texts);
  }
  close_container(&entry, &variant);
  close_container(properties, &entry);
}

static void append_service(Iter *to) {
  Iter properties;
  open_container(to, DBUS_TYPE_ARRAY, "{sv}", &properties);
  append_property(&properties, "UUID", DBUS_TYPE_STRING, (const char *[]){SERVICE});
  append_property(&properties, "Primary", DBUS_TYPE_BOOLEAN, NULL);
  close_container(to, &properties);
}

static void append_characteristic(Iter *to) {
  Iter properties;
  open_container(to, DBUS_TYPE_ARRAY, "{sv}", &properties);
  append_property(&properties, "UUID", DBUS_TYPE_STRING, (const char *[]){CHARACTERISTIC});
  append_property(&properties, "Service", DBUS_TYPE_OBJECT_PATH, (const char *[]){SERVICE_PATH});
  append_property(&properties, "Flags", DBUS_TYPE_ARRAY, (const char *[]){"write", "write-without-response", has_socket ? "read" : NULL, NULL});
  if (has_socket) append_property(&properties, "WriteAcquired", DBUS_TYPE_BOOLEAN, (const char *[]){NULL});
  close_container(to, &properties);
}

static void append_advertisement(Iter *to) {
  Iter properties;
  open_container(to, DBUS_TYPE_ARRAY, "{sv}", &properties);
  append_property(&properties, "Type", DBUS_TYPE_STRING, (const char *[]){"peripheral"});
  append_property(&properties, "ServiceUUIDs", DBUS_TYPE_ARRAY, (const char *[]){SERVICE, NULL});
  append_property(&properties, "LocalName", DBUS_TYPE_STRING, (const char *[]){"bare"});
  close_container(to, &properties);
}

static void append_object(Iter *objects, const char *path, const char *interface, void (*append)(Iter *)) {
  Iter object, interfaces, entry;
  open_container(objects, DBUS_TYPE_DICT_ENTRY, NULL, &object);
  append_text(&object, DBUS_TYPE_OBJECT_PATH, path);
  open_container(&object, DBUS_TYPE_ARRAY, "{sa{sv}}", &interfaces);
  open_container(&interfaces, DBUS_TYPE_DICT_ENTRY, NULL, &entry);
  append_text(&entry, DBUS_TYPE_STRING, interface);
  append(&entry);
  close_container(&interfaces, &entry);
  close_container(&object, &interfaces);
  close_container(objects, &object);
}

/* Gives bluetoothd the other end of a new socket, and says that packets may be as long as it likes. */
static void append_socket(Iter *to, DBusMessage *call) {
  int ends[2];
  uint16_t mtu = 517;
  Iter from, options;
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) return;
  /* bluetoothd says what the client's link takes. */
  if (dbus_message_iter_init(call, &from) && dbus_message_iter_get_arg_type(&from) == DBUS_TYPE_ARRAY) {
    for (dbus_message_iter_recurse(&from, &options); dbus_message_iter_get_arg_type(&options) == DBUS_TYPE_DICT_ENTRY;
         dbus_message_iter_next(&options)) {
      Iter entry, value;
      const char *name;
      dbus_message_iter_recurse(&options, &entry);
      dbus_message_iter_get_basic(&entry, &name);
      dbus_message_iter_next(&entry);
      dbus_message_iter_recurse(&entry, &value);
      if (strcmp(name, "mtu") == 0) dbus_message_iter_get_basic(&value, &mtu);
    }
  }
  if (commands >= 0) close(commands);
  commands = ends[0];
  dbus_message_iter_append_basic(to, DBUS_TYPE_UNIX_FD, &ends[1]);
  dbus_message_iter_append_basic(to, DBUS_TYPE_UINT16, &mtu);
  close(ends[1]);
}

static void append_count(Iter *to) {
  uint8_t bytes[8], *start = bytes;
  Iter array;
  for (int i = 0; i < 8; i++) bytes[i] = (uint8_t)(received >> 8 * i);
  open_container(to, DBUS_TYPE_ARRAY, "y", &array);
  dbus_message_iter_append_fixed_array(&array, DBUS_TYPE_BYTE, &start, sizeof bytes);
  close_container(to, &array);
}

static void take_commands(void) {
  uint8_t packet[1024];
  ssize_t size;
  while ((size = recv(commands, packet, sizeof packet, MSG_DONTWAIT)) > 0) received += (uint64_t)size;
  if (size == 0) {
    close(commands);
    commands = -1;
  }
}

static DBusHandlerResult called(DBusConnection *bus, DBusMessage *call, void *unused) {
  (void)unused;
  if (dbus_message_get_type(call) != DBUS_MESSAGE_TYPE_METHOD_CALL) return DBUS_HANDLER_RESULT_NOT_YET_HANDLED;
  DBusMessage *answer = dbus_message_new_method_return(call);
  Iter top, objects;
  dbus_message_iter_init_append(answer, &top);
  if (strcmp(dbus_message_get_member(call), "GetManagedObjects") == 0) {
    open_container(&top, DBUS_TYPE_ARRAY, "{oa{sa{sv}}}", &objects);
    append_object(&objects, SERVICE_PATH, "org.bluez.GattService1", append_service);
    append_object(&objects, CHARACTERISTIC_PATH, "org.bluez.GattCharacteristic1", append_characteristic);
    close_container(&top, &objects);
  } else if (strcmp(dbus_message_get_member(call), "GetAll") == 0) {
    append_advertisement(&top);
  } else if (strcmp(dbus_message_get_member(call), "AcquireWrite") == 0) {
    append_socket(&top, call);
  } else if (strcmp(dbus_message_get_member(call), "ReadValue") == 0) {
    append_count(&top);
  }
  if (!dbus_message_get_no_reply(call)) dbus_connection_send(bus, answer, NULL);
  dbus_message_unref(answer);
  return DBUS_HANDLER_RESULT_HANDLED;
}

/* Its answer is waited for by the loop, which serves bluetoothd's questions meanwhile. */
static void register_at(DBusConnection *bus, const char *adapter, const char *manager, const char *method, const char *path) {
  char where[64];
  Iter top, options;
  snprintf(where, sizeof where, "/org/bluez/%s", adapter);
  DBusMessage *call = dbus_message_new_method_call("org.bluez", where, manager, method);
  dbus_message_iter_init_append(call, &top);
  append_text(&top, DBUS_TYPE_OBJECT_PATH, path);
  open_container(&top, DBUS_TYPE_ARRAY, "{sv}", &options);
  close_container(&top, &options);
  dbus_connection_send(bus, call, NULL);
  dbus_message_unref(call);
}

int main(int count, char **words) {
  const DBusObjectPathVTable table = {.message_function = called};
  DBusConnection *bus = dbus_bus_get(DBUS_BUS_SYSTEM, NULL);
  if (count < 2 || count > 3 || !bus) return 1;
  has_socket = count == 3;
  dbus_connection_register_fallback(bus, ROOT, &table, NULL);
  register_at(bus, words[1], "org.bluez.GattManager1", "RegisterApplication", ROOT);
  register_at(bus, words[1], "org.bluez.LEAdvertisingManager1", "RegisterAdvertisement", ADVERTISEMENT_PATH);
  dbus_connection_flush(bus);
  int calls;
  if (!dbus_connection_get_unix_fd(bus, &calls)) return 1;
  for (;;) {
    while (dbus_connection_dispatch(bus) == DBUS_DISPATCH_DATA_REMAINS) {
    }
    dbus_connection_flush(bus);
    struct pollfd ready[2] = {{.fd = calls, .events = POLLIN}, {.fd = commands, .events = POLLIN}};
    if (poll(ready, 2, -1) < 0) return 1;
    if (ready[1].revents) take_commands();
    if (ready[0].revents && !dbus_connection_read_write(bus, 0)) return 0;
  }
}
