/* libmicrohttpd, without the variadic calls that Swift's importer does not show. */
#include <microhttpd.h>
#include <stddef.h>

/* A server without a thread and without a listening socket: the owner hands connections over and polls the descriptor
 * of `earshot_http_descriptor`. Responses have no date: it would show how wrong the machine's clock is. NULL if there
 * are no descriptors or no memory left. */
static inline struct MHD_Daemon *earshot_http_start(MHD_AccessHandlerCallback on_request,
                                                    MHD_NotifyConnectionCallback on_connection, void *owner,
                                                    unsigned int connections, size_t memory) {
  return MHD_start_daemon(MHD_USE_EPOLL | MHD_USE_NO_LISTEN_SOCKET | MHD_USE_SUPPRESS_DATE_NO_CLOCK, 0, NULL, NULL,
                          on_request, owner, MHD_OPTION_NOTIFY_CONNECTION, on_connection, owner,
                          MHD_OPTION_CONNECTION_LIMIT, connections, MHD_OPTION_CONNECTION_MEMORY_LIMIT, memory,
                          MHD_OPTION_CONNECTION_TIMEOUT, 0u, MHD_OPTION_STRICT_FOR_CLIENT, 0, MHD_OPTION_END);
}

/* The descriptor that is readable when `MHD_run` has work; -1 if there is none. */
static inline int earshot_http_descriptor(struct MHD_Daemon *server) {
  const union MHD_DaemonInfo *info = MHD_get_daemon_info(server, MHD_DAEMON_INFO_EPOLL_FD);
  return info == NULL ? -1 : info->epoll_fd;
}

/* The descriptor of a connection; -1 if it is unknown. */
static inline int earshot_http_socket(struct MHD_Connection *connection) {
  const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
  return info == NULL ? -1 : info->connect_fd;
}

/* The bytes of a request's head, with its empty line. */
static inline size_t earshot_http_head_size(struct MHD_Connection *connection) {
  const union MHD_ConnectionInfo *info =
      MHD_get_connection_info(connection, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);
  return info == NULL ? 0 : info->header_size;
}

/* Whether a request has the header that HTTP/1.1 demands. (The strict mode of libmicrohttpd 0.9.75 checks this too, and
 * sends the head of its refusal twice.) */
static inline int earshot_http_has_host(struct MHD_Connection *connection) {
  return MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Host") != NULL;
}

/* Milliseconds after which `MHD_run` must be called though the descriptor is not readable; -1: never. */
static inline long long earshot_http_timeout(struct MHD_Daemon *server) {
  unsigned long long milliseconds = 0;
  if (MHD_get_timeout(server, &milliseconds) != MHD_YES) return -1;
  return milliseconds > 3600000 ? 3600000 : (long long)milliseconds;
}

/* A response with a copy of the body; NULL if there is no memory. */
static inline struct MHD_Response *earshot_http_response(const void *body, size_t size) {
  return MHD_create_response_from_buffer(size, (void *)body, MHD_RESPMEM_MUST_COPY);
}

/* What a callback returns: 1 goes on, 0 closes the connection. */
static inline enum MHD_Result earshot_http_result(int is_done) { return is_done ? MHD_YES : MHD_NO; }
