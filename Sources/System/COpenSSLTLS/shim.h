/* libssl, without the macros and variadic calls that Swift's importer does not show. */
#include <openssl/ssl.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <stdint.h>

/* The key for a client's identity, written to `key`: its length, or 0 if the identity is unknown. */
typedef unsigned int (*earshot_tls_find_key)(void *owner, const char *identity, unsigned char *key,
                                             unsigned int key_size);
/* The client's own identity, with its terminator, and its key: the length of the key, or 0. */
typedef unsigned int (*earshot_tls_own_key)(void *owner, char *identity, unsigned int identity_size,
                                            unsigned char *key, unsigned int key_size);
/* An alert that was sent or received. */
typedef void (*earshot_tls_alert)(void *owner, int is_sent, int description);

/* What a context calls; each with the owner that `earshot_tls_session` was given. */
struct earshot_tls_calls {
  earshot_tls_find_key find_key;
  earshot_tls_own_key own_key;
  earshot_tls_alert alert;
};

/* Where the calls of a context are kept: index 0 of the extra data is the application's. */
static inline const struct earshot_tls_calls *earshot_tls_calls_of(const SSL *ssl) {
  return (const struct earshot_tls_calls *)SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl));
}

static inline unsigned int earshot_tls_on_server_psk(SSL *ssl, const char *identity, unsigned char *key,
                                                     unsigned int size) {
  return earshot_tls_calls_of(ssl)->find_key(SSL_get_app_data(ssl), identity, key, size);
}

static inline unsigned int earshot_tls_on_client_psk(SSL *ssl, const char *hint, char *identity,
                                                     unsigned int identity_size, unsigned char *key,
                                                     unsigned int size) {
  (void)hint;
  return earshot_tls_calls_of(ssl)->own_key(SSL_get_app_data(ssl), identity, identity_size, key, size);
}

static inline void earshot_tls_on_info(const SSL *ssl, int where, int value) {
  if ((where & SSL_CB_ALERT) == 0) return;
  earshot_tls_calls_of(ssl)->alert(SSL_get_app_data(ssl), (where & SSL_CB_WRITE) != 0, value & 0xff);
}

/* A context of TLS 1.2 with the cipher suites of the list, without tickets, session cache, compression, renegotiation
 * and identity hint; NULL if libssl refuses. Security level 2 refuses DH groups under 2048 bits. The file of the
 * system's defaults may not weaken this, so that everything is set here. `calls` must outlive the context. */
static inline SSL_CTX *earshot_tls_context(int is_server, const char *suites,
                                           const struct earshot_tls_calls *calls) {
  SSL_CTX *context = SSL_CTX_new(is_server ? TLS_server_method() : TLS_client_method());
  if (context == NULL) return NULL;
  SSL_CTX_set_security_level(context, 2);
  if (SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION) != 1 ||
      SSL_CTX_set_max_proto_version(context, TLS1_2_VERSION) != 1 || SSL_CTX_set_cipher_list(context, suites) != 1 ||
      (is_server && SSL_CTX_set_dh_auto(context, 1) != 1)) {
    SSL_CTX_free(context);
    return NULL;
  }
  SSL_CTX_clear_options(context, SSL_CTX_get_options(context));
  SSL_CTX_set_options(context, SSL_OP_NO_TICKET | SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION |
                                   SSL_OP_CIPHER_SERVER_PREFERENCE | SSL_OP_SINGLE_DH_USE);
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS);
  SSL_CTX_set_app_data(context, (void *)calls);
  if (is_server) {
    SSL_CTX_set_psk_server_callback(context, earshot_tls_on_server_psk);
  } else {
    SSL_CTX_set_psk_client_callback(context, earshot_tls_on_client_psk);
  }
  SSL_CTX_set_info_callback(context, earshot_tls_on_info);
  return context;
}

/* A session over two memory BIOs, which it owns: `in` has what the peer sent, `out` what goes to the peer. */
static inline SSL *earshot_tls_session(SSL_CTX *context, int is_server, void *owner, BIO **in, BIO **out) {
  SSL *ssl = SSL_new(context);
  if (ssl == NULL) return NULL;
  *in = BIO_new(BIO_s_mem());
  *out = BIO_new(BIO_s_mem());
  if (*in == NULL || *out == NULL) {
    BIO_free(*in);
    BIO_free(*out);
    SSL_free(ssl);
    return NULL;
  }
  SSL_set_bio(ssl, *in, *out);
  SSL_set_app_data(ssl, owner);
  if (is_server) {
    SSL_set_accept_state(ssl);
  } else {
    SSL_set_connect_state(ssl);
  }
  return ssl;
}

/* Bytes that wait in a memory BIO. */
static inline size_t earshot_tls_pending(BIO *bio) { return BIO_ctrl_pending(bio); }

/* The number of the suite in the registry of IANA that the handshake has chosen, also while it goes on; 0 if there is none. */
static inline uint32_t earshot_tls_suite(const SSL *ssl) {
  const SSL_CIPHER *cipher = SSL_get_pending_cipher(ssl);
  if (cipher == NULL) cipher = SSL_get_current_cipher(ssl);
  return cipher == NULL ? 0 : SSL_CIPHER_get_protocol_id(cipher);
}

/* Whether the last entry of this thread's error list has this reason; the list is emptied. */
static inline int earshot_tls_last_reason(void) {
  int reason = ERR_GET_REASON(ERR_peek_last_error());
  ERR_clear_error();
  return reason;
}
