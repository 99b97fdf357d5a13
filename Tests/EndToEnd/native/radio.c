/* Preloaded into btvirt, which lacks eleven things that a radio of many has.
 *
 * 1. It takes ten events at a time and touches what an earlier one of them has freed: 5.82 crashes now and then when one of several
 *    advertisements ends. One event at a time, none is stale.
 * 2. It tells both ends of a link the number that the link has at the central, and hands packets on under the sender's number. Each
 *    end has the lowest number that is free there, so that only ends with as many links understand each other. What is told
 *    and handed on has the receiver's number here.
 * 3. A controller that connects ends its own advertisements. They go on here.
 * 4. Everybody hears everybody. The file DEAF has a line for each pair that does not, `00:AA:01:00:00:00 00:AA:01:02:00:02`:
 *    neither is told of the other's advertisements, and so neither connects.
 * 5. It refuses to switch an advertisement on that is on, or off one that is off. No controller does; the kernel then takes the
 *    advertisement for what it is not, and can neither change it nor take it away.
 * 6. Of those who scan it tells the first of an advertisement and of its scan response, and the others of two scan responses, in the same
 *    order (5.82): to their hosts nobody is there to connect to. The first of the two is an advertisement here.
 * 7. An attempt to connect to a controller that does not advertise just then gets no answer, and cannot be cancelled. The host gives it up
 *    after some seconds, and kernel 6.1 then takes the same entry out of a list twice. Here a cancelled attempt ends as Core says, with Unknown
 *    Connection Identifier (7.8.13).
 * 8. Who scans hears an advertisement once, when the scan or the advertisement begins (5.66): an attempt to connect waits for the next scan,
 *    some ten seconds. Or five times a second (5.82): four services that scan keep an emulated processor busy with nothing else. Here all is
 *    heard again every two seconds: the scan is ended and begun anew where nothing at all came, and what a connectable public address
 *    says more often is left out. Beside an advertiser that goes on by itself another one that does not is heard once.
 * 9. Nothing takes time on its air. Where the file RATE has a number, each controller sends so many bytes of data a second, headers of the
 *    HCI counted: it takes a packet from its host when the one before is gone.
 * 10. It does not answer a BR/EDR connection to an address that no controller has (5.82), and the host waits 40 s. Here the attempt ends with
 *    Page Timeout at once, as 5.66 does.
 * 11. From the second pairing of a controller on it does not send IO Capability Request to the end that accepts. Its kernel then assumes
 *    that the keys are to be stored, and asks for an agent. Here the event precedes each User Confirmation Request that it lacks before, and
 *    the answer to it is kept from btvirt. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define DEAF "/run/virtual-radio-deaf"
#define RATE "/run/virtual-radio-rate"
#define CONTROLLERS 32 /* file descriptors up to this one */
#define FIRST_NUMBER 42 /* btvirt's ACL_HANDLE */
#define LINKS 64
#define SETS 16
#define HEARD_EVERY 2.0 /* seconds */
#define LATENESS 0.02 /* seconds that a controller may make up for, since this program is not woken on time */

/* Of the Host Controller Interface, Core 5.4 Vol 4 Part E 7.7. */
enum { COMMAND = 1, DATA = 2, EVENT = 4 };
enum { RESET = 0x0C03, READ_ADDRESS = 0x1009, CANCEL_CONNECTION = 0x200E, ENABLE_ADVERTISING = 0x2039, ENABLE_SCAN = 0x2042,
  CREATE_CONNECTION = 0x2043, PAGE = 0x0405, CAPABILITY_REPLY = 0x042B };
enum { COMMAND_DISALLOWED = 0x0C };
enum { PAGE_TIMEOUT = 0x04 };
enum { PAGED = 0x03, DISCONNECTED = 0x05, COMMAND_COMPLETE = 0x0E, COMMAND_STATUS = 0x0F, CAPABILITY_REQUEST = 0x31, CONFIRMATION_REQUEST = 0x33,
  PAIRED = 0x36, LE_META = 0x3E };
enum { CONNECTED = 0x01, ADVERTISING_REPORT = 0x02, UPDATED = 0x03, KEY_REQUEST = 0x05, PARAMETER_REQUEST = 0x06, CONNECTED_MORE = 0x0A,
  EXTENDED_REPORT = 0x0D, SET_ENDED = 0x12 };

struct end { int controller; uint16_t number; };
struct link { struct end central, peripheral; };

static struct link links[LINKS];
static uint8_t addresses[CONTROLLERS][6];
static enum { UNKNOWN, CONTROLLER, OTHER } kinds[CONTROLLERS];
static int reader = -1; /* whose packet is being handled */
static uint8_t ended[CONTROLLERS][SETS]; /* advertisements that are begun again, by the number of the set */
static int advertising_answers[CONTROLLERS]; /* to commands that no host has sent */
static int scan_answers[CONTROLLERS];
static uint8_t attempts[CONTROLLERS][8];  /* to connect: 1 while there is one, the kind of address and the address */
static bool cancelled[CONTROLLERS];
static bool was_asked[CONTROLLERS]; /* for its capabilities, in the pairing that is under way */
static bool keeps_reply[CONTROLLERS]; /* the next answer to that question is not for btvirt */
static bool has_kept[CONTROLLERS]; /* btvirt has read Read BD ADDR in its place */
static uint8_t pages[CONTROLLERS][7]; /* to an absent address: 1 until its answer, 2 after it, and the address */
static struct report { uint32_t hash; double at; } heard[CONTROLLERS][CONTROLLERS][8];
static bool scans[CONTROLLERS];       /* as its host has said */
static double heard_at[CONTROLLERS];  /* when anything was heard last, or the scan was begun */
static int scan_steps[CONTROLLERS];   /* commands that are missing until the scan is begun anew */
static struct epoll_event waits[CONTROLLERS]; /* what btvirt wants to be told when there is a command */
static struct held { uint8_t bytes[4096]; ssize_t size; double due; } held[CONTROLLERS]; /* a packet that btvirt has not read yet */
static double sent_at[CONTROLLERS]; /* when the last packet of data is gone */
static bool awaits_response[CONTROLLERS][CONTROLLERS]; /* who has heard whose advertisement, and not its scan response yet */

static bool is_controller(int file) {
  if (file < 0 || file >= CONTROLLERS) return false;
  if (kinds[file] == UNKNOWN) {
    char path[64], target[64] = "";
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    kinds[file] = readlink(path, target, sizeof target - 1) > 0 && !strcmp(target, "/dev/vhci") ? CONTROLLER : OTHER;
  }
  return kinds[file] == CONTROLLER;
}

static uint16_t number_at(const uint8_t *bytes) { return (bytes[0] | bytes[1] << 8) & 0x0FFF; }

static void put_number(uint8_t *bytes, uint16_t number) {
  bytes[0] = number & 0xFF;
  bytes[1] = (bytes[1] & 0xF0) | number >> 8;
}

static bool is(struct end end, int controller, uint16_t number) { return end.controller == controller && end.number == number; }

static struct link *find(int controller, uint16_t number) {
  for (int i = 0; i < LINKS; i++)
    if (links[i].peripheral.number && (is(links[i].central, controller, number) || is(links[i].peripheral, controller, number)))
      return &links[i];
  return NULL;
}

/* The number that btvirt has given the link at the peripheral. */
static uint16_t free_number(int controller) {
  uint16_t number = FIRST_NUMBER;
  while (find(controller, number)) number++;
  return number;
}

/* A link comes up: the peripheral is told first, then the central, both with the central's number. */
static struct link *coming(uint16_t number) {
  for (int i = 0; i < LINKS; i++)
    if (links[i].peripheral.number && links[i].central.controller < 0 && links[i].central.number == number) return &links[i];
  return NULL;
}

static void connected(int file, uint8_t *number, bool is_central) {
  uint16_t told = number_at(number);
  if (is_central) {
    struct link *link = coming(told);
    if (link) link->central.controller = file;
    return;
  }
  for (int i = 0; i < LINKS; i++)
    if (!links[i].peripheral.number) {
      links[i] = (struct link){{-1, told}, {file, free_number(file)}};
      put_number(number, links[i].peripheral.number);
      return;
    }
}

/* Translates what one end said to the other. */
static void translate(int file, uint8_t *number) {
  uint16_t told = number_at(number);
  struct link *link = reader >= 0 && reader != file ? find(reader, told) : NULL;
  if (link && link->central.controller == file) put_number(number, link->central.number);
  if (link && link->peripheral.controller == file) put_number(number, link->peripheral.number);
}

static void disconnected(int file, uint16_t number) {
  struct link *link = find(file, number);
  if (!link) return;
  /* The other end is told as well, and takes the entry out with its own number: it is free when both have been told. */
  if (is(link->central, file, number)) link->central = (struct end){-2, 0};
  if (is(link->peripheral, file, number)) link->peripheral.controller = -2;
  if (link->central.controller == -2 && link->peripheral.controller == -2) *link = (struct link){{-1, 0}, {0, 0}};
}

static void forget(int file) {
  attempts[file][0] = 0;
  scans[file] = false;
  for (int i = 0; i < LINKS; i++)
    if (links[i].central.controller == file || links[i].peripheral.controller == file) links[i] = (struct link){{-1, 0}, {0, 0}};
}

static bool are_deaf(const uint8_t *one, const uint8_t *other) {
  static char text[4096];
  static struct timespec read_at;
  struct stat stat_now;
  if (stat(DEAF, &stat_now)) return false;
  if (stat_now.st_mtim.tv_sec != read_at.tv_sec || stat_now.st_mtim.tv_nsec != read_at.tv_nsec) {
    FILE *file = fopen(DEAF, "re");
    if (!file) return false;
    text[fread(text, 1, sizeof text - 1, file)] = 0;
    fclose(file);
    read_at = stat_now.st_mtim;
  }
  char line[2][40];
  for (int i = 0; i < 2; i++) {
    const uint8_t *a = i ? other : one, *b = i ? one : other;
    snprintf(line[i], sizeof line[i], "%02X:%02X:%02X:%02X:%02X:%02X %02X:%02X:%02X:%02X:%02X:%02X", a[5], a[4], a[3], a[2], a[1],
      a[0], b[5], b[4], b[3], b[2], b[1], b[0]);
  }
  return strstr(text, line[0]) || strstr(text, line[1]);
}

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec + time.tv_nsec / 1e9;
}

/* Whether a report says what was said a moment ago, in the scan that its host has begun. */
static bool is_repeated(int file, int other, const uint8_t *report, size_t size) {
  uint32_t hash = 2166136261;
  for (size_t i = 0; i < size; i++) hash = (hash ^ report[i]) * 16777619;
  struct report *last = &heard[file][other][hash % 8];
  if (last->hash == hash && now() - last->at < HEARD_EVERY * 0.9) return true;
  *last = (struct report){hash, now()};
  return false;
}

/* Puts the type of a report of a connectable advertiser right.
 *
 * Whether the report reaches the host: a scan response does where its advertisement did. */
static bool put_right(int file, uint8_t *report, size_t size) {
  enum { CONNECTABLE = 0x13, RESPONSE = 0x1B };
  static bool was_heard[CONTROLLERS][CONTROLLERS];
  for (int other = 0; other < CONTROLLERS; other++) {
    if (kinds[other] != CONTROLLER || memcmp(addresses[other], report + 3, 6)) continue;
    if (report[0] == RESPONSE && !awaits_response[file][other]) report[0] = CONNECTABLE;
    awaits_response[file][other] = report[0] == CONNECTABLE;
    if (report[0] == CONNECTABLE) was_heard[file][other] = !is_repeated(file, other, report, size);
    if (report[0] == CONNECTABLE || report[0] == RESPONSE) return was_heard[file][other];
  }
  return true;
}

static uint16_t opcode_at(const uint8_t *bytes) { return bytes[0] | bytes[1] << 8; }

/* An answer to a command: what it says has the opcode at 1 and the status at 3. Whether it reaches the host. */
static bool answer(int file, uint8_t *body, size_t rest) {
  if (rest < 3) return true;
  uint16_t command = opcode_at(body + 1);
  int *own = command == ENABLE_ADVERTISING ? advertising_answers : command == ENABLE_SCAN ? scan_answers : NULL;
  if (own && own[file]) {
    own[file]--;
    return false;
  }
  bool is_disallowed = rest >= 4 && body[3] == COMMAND_DISALLOWED;
  /* It is so already. */
  if (own && is_disallowed) body[3] = 0;
  if (command == CANCEL_CONNECTION && is_disallowed && attempts[file][0]) {
    body[3] = 0;
    cancelled[file] = true;
  }
  if (command == READ_ADDRESS && has_kept[file]) {
    /* Both answers have a status and an address. */
    has_kept[file] = false;
    body[1] = CAPABILITY_REPLY & 0xFF;
    body[2] = CAPABILITY_REPLY >> 8;
    return true;
  }
  if (command == READ_ADDRESS && rest >= 10) memcpy(addresses[file], body + 4, 6);
  return true;
}

/* Whether a controller's packet reaches its host; the packet is put right. */
static bool hand_over(int file, uint8_t *packet, size_t size) {
  if (packet[0] == DATA && size >= 5) translate(file, packet + 1);
  if (packet[0] != EVENT || size < 4) return true;
  uint8_t *body = packet + 3;
  size_t rest = size - 3;
  if (packet[1] == DISCONNECTED && rest >= 4 && !body[0]) disconnected(file, number_at(body + 1));
  if (packet[1] == COMMAND_COMPLETE) return answer(file, body, rest);
  if (packet[1] == CAPABILITY_REQUEST) was_asked[file] = true;
  if (packet[1] == PAIRED) was_asked[file] = false;
  /* 5.66 ends the attempt itself. */
  if (packet[1] == PAGED && rest >= 9 && pages[file][0] == 2 && !memcmp(body + 3, pages[file] + 1, 6)) {
    pages[file][0] = 0;
    return false;
  }
  if (packet[1] != LE_META) return true;
  switch (body[0]) {
  case CONNECTED:
  case CONNECTED_MORE:
    if (rest >= 5 && !body[1]) connected(file, body + 2, body[4] == 0);
    if (rest >= 5 && body[4] == 0) attempts[file][0] = 0;
    break;
  case UPDATED:
    if (rest >= 4) translate(file, body + 2);
    break;
  case KEY_REQUEST:
  case PARAMETER_REQUEST:
    if (rest >= 3) translate(file, body + 1);
    break;
  case SET_ENDED:
    if (rest >= 6) {
      uint16_t number = number_at(body + 3);
      struct link *link = coming(number);
      if (link && link->peripheral.controller == file) {
        put_number(body + 3, link->peripheral.number);
      } else if ((link = find(file, number)) && is(link->central, file, number) && body[2] < SETS) {
        ended[file][body[2]] = 1;
        return false;
      }
    }
    break;
  case ADVERTISING_REPORT:
    return rest < 10 || !are_deaf(body + 4, addresses[file]);
  case EXTENDED_REPORT:
    heard_at[file] = now();
    return rest < 11 || (!are_deaf(body + 5, addresses[file]) && put_right(file, body + 2, rest - 2));
  }
  return true;
}

#define ORIGINAL(name) (__typeof__(&name))dlsym(RTLD_NEXT, #name)

/* LE Enhanced Connection Complete: the attempt was cancelled. */
static size_t end_attempt(int file, uint8_t *packet) {
  memset(packet, 0, 34);
  memcpy(packet, (uint8_t[]){EVENT, LE_META, 31, CONNECTED_MORE, 0x02}, 5);
  memcpy(packet + 8, attempts[file] + 1, 7);
  attempts[file][0] = 0;
  cancelled[file] = false;
  return 34;
}

/* Connection Complete: nobody has answered. */
static size_t end_page(int file, uint8_t *packet) {
  memset(packet, 0, 14);
  memcpy(packet, (uint8_t[]){EVENT, PAGED, 11, PAGE_TIMEOUT}, 4);
  memcpy(packet + 6, pages[file] + 1, 6);
  packet[12] = 1; /* ACL */
  pages[file][0] = 2;
  return 14;
}

static bool is_answer_to_page(const uint8_t *packet, size_t size) {
  return size >= 7 && packet[0] == EVENT && packet[1] == COMMAND_STATUS && opcode_at(packet + 5) == PAGE;
}

static bool is_present(const uint8_t *address) {
  for (int file = 0; file < CONTROLLERS; file++)
    if (kinds[file] == CONTROLLER && !memcmp(addresses[file], address, 6)) return true;
  return false;
}

ssize_t writev(int file, const struct iovec *parts, int count) {
  static __typeof__(&writev) original;
  if (!original) original = ORIGINAL(writev);
  uint8_t packet[4096];
  size_t size = 0;
  if (!is_controller(file)) return original(file, parts, count);
  for (int i = 0; i < count; i++) {
    if (size + parts[i].iov_len > sizeof packet) return original(file, parts, count);
    memcpy(packet + size, parts[i].iov_base, parts[i].iov_len);
    size += parts[i].iov_len;
  }
  if (size > 0 && !hand_over(file, packet, size)) return size;
  if (size >= 9 && packet[0] == EVENT && packet[1] == CONFIRMATION_REQUEST && !was_asked[file]) {
    uint8_t request[9] = {EVENT, CAPABILITY_REQUEST, 6};
    memcpy(request + 3, packet + 3, 6);
    original(file, &(struct iovec){request, sizeof request}, 1);
    keeps_reply[file] = true;
  }
  ssize_t written = original(file, &(struct iovec){packet, size}, 1);
  if (cancelled[file]) original(file, &(struct iovec){packet, end_attempt(file, packet)}, 1);
  if (pages[file][0] == 1 && is_answer_to_page(packet, size)) original(file, &(struct iovec){packet, end_page(file, packet)}, 1);
  return written;
}

static void was_read(int file, const uint8_t *packet, ssize_t size) {
  reader = is_controller(file) ? file : -1;
  if (reader < 0 || size < 3 || packet[0] != COMMAND) return;
  switch (opcode_at(packet + 1)) {
  case RESET:
    forget(file);
    break;
  case ENABLE_SCAN:
    if (size < 5) break;
    scans[file] = packet[4];
    heard_at[file] = now();
    memset(heard[file], 0, sizeof heard[file]);
    break;
  case PAGE:
    if (size < 10) break;
    pages[file][0] = !is_present(packet + 4);
    memcpy(pages[file] + 1, packet + 4, 6);
    break;
  case CREATE_CONNECTION:
    if (size < 13) break;
    attempts[file][0] = 1;
    memcpy(attempts[file] + 1, packet + 6, 7);
  }
}

/* A command as if the host had sent it, before the next one of the host's: after a link has come up one follows at once. */
static size_t begin_again(int file, uint8_t *buffer, size_t most) {
  if (most < 10 || !is_controller(file)) return 0;
  for (uint8_t set = 0; set < SETS; set++)
    if (ended[file][set]) {
      ended[file][set] = 0;
      advertising_answers[file]++;
      memcpy(buffer, (uint8_t[]){COMMAND, ENABLE_ADVERTISING & 0xFF, ENABLE_ADVERTISING >> 8, 6, 1, 1, set, 0, 0, 0}, 10);
      return 10;
    }
  return 0;
}

/* The host's scan ended, and begun again, in two commands. */
static size_t scan_again(int file, uint8_t *buffer, size_t most) {
  if (most < 10 || !is_controller(file) || !scan_steps[file]) return 0;
  scan_steps[file]--;
  scan_answers[file]++;
  heard_at[file] = now();
  memcpy(buffer, (uint8_t[]){COMMAND, ENABLE_SCAN & 0xFF, ENABLE_SCAN >> 8, 6, scan_steps[file] == 0, 0, 0, 0, 0, 0}, 10);
  return 10;
}

static ssize_t read_original(int file, void *buffer, size_t most) {
  static __typeof__(&read) original;
  if (!original) original = ORIGINAL(read);
  return original(file, buffer, most);
}

/* Replaces an answer that is not for btvirt. Returns the size. */
static ssize_t keep_reply(int file, uint8_t *packet, ssize_t size) {
  if (!keeps_reply[file] || size < 4 || packet[0] != COMMAND || opcode_at(packet + 1) != CAPABILITY_REPLY) return size;
  keeps_reply[file] = false;
  has_kept[file] = true;
  memcpy(packet, (uint8_t[]){COMMAND, READ_ADDRESS & 0xFF, READ_ADDRESS >> 8, 0}, 4);
  return 4;
}

ssize_t read(int file, void *buffer, size_t most) {
  size_t made = begin_again(file, buffer, most);
  if (!made) made = scan_again(file, buffer, most);
  if (made) {
    reader = file;
    return made;
  }
  ssize_t size;
  if (is_controller(file) && held[file].size && (size_t)held[file].size <= most) {
    size = held[file].size;
    memcpy(buffer, held[file].bytes, size);
    held[file].size = 0;
  } else {
    size = read_original(file, buffer, most);
  }
  was_read(file, buffer, size);
  return is_controller(file) && size > 0 ? keep_reply(file, buffer, size) : size;
}

ssize_t __read_chk(int file, void *buffer, size_t most, size_t room);
ssize_t __read_chk(int file, void *buffer, size_t most, size_t room) {
  (void)room;
  return read(file, buffer, most);
}

static int poll_original(int epoll, int what, int file, struct epoll_event *event) {
  static __typeof__(&epoll_ctl) original;
  if (!original) original = ORIGINAL(epoll_ctl);
  return original(epoll, what, file, event);
}

int epoll_ctl(int epoll, int what, int file, struct epoll_event *event) {
  if (file >= 0 && file < CONTROLLERS && what != EPOLL_CTL_DEL) waits[file] = *event;
  return poll_original(epoll, what, file, event);
}

/* Bytes a second; 0 where data takes no time. */
static double rate(void) {
  static double found, looked_at;
  if (now() - looked_at < 0.1) return found;
  looked_at = now();
  FILE *file = fopen(RATE, "re");
  found = 0;
  if (!file) return 0;
  if (fscanf(file, "%lf", &found) != 1) found = 0;
  fclose(file);
  return found;
}

/* A packet that a host has for its controller waits here for as long as data takes on the air. Whether it does. */
static bool hold(int epoll, const struct epoll_event *event) {
  double bytes = rate();
  if (!bytes || !(event->events & EPOLLIN)) return false;
  for (int file = 0; file < CONTROLLERS; file++) {
    struct held *packet = &held[file];
    if (event->data.ptr != waits[file].data.ptr || !is_controller(file) || packet->size) continue;
    packet->size = read_original(file, packet->bytes, sizeof packet->bytes);
    packet->due = 0;
    if (packet->size < 0) packet->size = 0;
    if (!packet->size || packet->bytes[0] != DATA) return false;
    double begin = now() - LATENESS > sent_at[file] ? now() - LATENESS : sent_at[file];
    packet->due = sent_at[file] = begin + packet->size / bytes;
    poll_original(epoll, EPOLL_CTL_MOD, file, &(struct epoll_event){.data = waits[file].data});
    return true;
  }
  return false;
}

/* Milliseconds until btvirt may read a packet that waits, and whose it is. */
static int next_held(int *whose) {
  int wait = 1000;
  for (int file = 0; file < CONTROLLERS; file++) {
    if (!held[file].size) continue;
    int rest = held[file].due <= now() ? 0 : (int)((held[file].due - now()) * 1000) + 1;
    if (rest >= wait) continue;
    wait = rest;
    *whose = file;
  }
  return wait;
}

/* A controller that has heard nothing at all for so long. */
static int idle_scanner(void) {
  for (int file = 0; file < CONTROLLERS; file++) {
    if (!scans[file]) {
      scan_steps[file] = 0;
      continue;
    }
    if (!scan_steps[file] && now() - heard_at[file] >= HEARD_EVERY) scan_steps[file] = 2;
    if (scan_steps[file]) return file;
  }
  return -1;
}

int epoll_wait(int epoll, struct epoll_event *events, int most, int timeout) {
  static __typeof__(&epoll_wait) original;
  if (!original) original = ORIGINAL(epoll_wait);
  (void)most;
  reader = -1;
  for (;;) {
    int file = idle_scanner();
    int slice = timeout >= 0 && timeout < 200 ? timeout : 200; /* ms until scanners are looked at again */
    int ready = -1;
    int wait = next_held(&ready);
    if (!wait) {
      poll_original(epoll, EPOLL_CTL_MOD, ready, &waits[ready]);
      events[0] = waits[ready];
      events[0].events = EPOLLIN;
      return 1;
    }
    if (wait < slice) slice = wait;
    int count = original(epoll, events, 1, file >= 0 ? 0 : slice);
    if (count > 0 && hold(epoll, events)) continue;
    if (count) return count;
    if (file >= 0) {
      events[0] = waits[file];
      events[0].events = EPOLLIN;
      return 1;
    }
    if (timeout == slice) return 0;
    if (timeout > 0) timeout -= slice;
  }
}
