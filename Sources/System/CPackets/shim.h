/* glibc shows recvmmsg to _GNU_SOURCE only, which Swift's importer does not define. */
#include <stddef.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum { earshot_packets_most = 32 };

/* Takes up to `count` packets, 32 at most, from a socket that keeps packets apart and tells their sender's credentials (SO_PASSCRED),
   and waits for none. The first `space` bytes of packet i stand at bytes + i * space; lengths[i] is its whole length, or -1 for the
   end of the socket. How many came, or -1 with errno. */
static inline int earshot_receive_packets(int socket, void *bytes, size_t space, int lengths[], int count) {
  /* As the kernel has it: struct mmsghdr. */
  struct {
    struct msghdr header;
    unsigned int length;
  } packets[earshot_packets_most];
  struct iovec rooms[earshot_packets_most];
  /* Room for the credentials and for no descriptor: one that is sent along would else be opened in this process. */
  union {
    struct cmsghdr header;
    unsigned char bytes[CMSG_SPACE(3 * sizeof(int))];
  } controls[earshot_packets_most];
  if (count > earshot_packets_most) count = earshot_packets_most;
  for (int i = 0; i < count; i++) {
    rooms[i] = (struct iovec){(char *)bytes + (size_t)i * space, space};
    packets[i].header = (struct msghdr){
        .msg_iov = &rooms[i], .msg_iovlen = 1, .msg_control = &controls[i], .msg_controllen = sizeof controls[i]};
    packets[i].length = 0;
  }
  const int came = (int)syscall(SYS_recvmmsg, socket, packets, count, MSG_TRUNC | MSG_DONTWAIT, NULL);
  for (int i = 0; i < came; i++) {
    /* A packet of no bytes has credentials beside it, and the end has not. */
    const int is_end = packets[i].length == 0 && packets[i].header.msg_controllen == 0;
    lengths[i] = is_end ? -1 : (int)packets[i].length;
  }
  return came;
}
