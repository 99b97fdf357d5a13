/* libssl, without the macros and variadic calls that Swift's importer does not show. */
#include <openssl/ssl.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>
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

/* A context of a client of TLS 1.2 and 1.3 that verifies the server's certificate: with the certificates in the file, or with those of
 * the system if it is NULL. NULL if the file cannot be used. */
static inline SSL_CTX *earshot_tls_verifying_context(const char *trusted_file) {
  SSL_CTX *context = SSL_CTX_new(TLS_client_method());
  if (context == NULL) return NULL;
  SSL_CTX_set_security_level(context, 2);
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER, NULL);
  SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS);
  if (SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION) != 1 ||
      (trusted_file == NULL ? SSL_CTX_set_default_verify_paths(context)
                            : SSL_CTX_load_verify_locations(context, trusted_file, NULL)) != 1) {
    SSL_CTX_free(context);
    ERR_clear_error();
    return NULL;
  }
  SSL_CTX_set_options(context, SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_TICKET);
  return context;
}

/* A key with a password is refused: nobody is asked for it. */
static inline int earshot_tls_no_password(char *buffer, int size, int is_writing, void *owner) {
  (void)buffer, (void)size, (void)is_writing, (void)owner;
  return -1;
}

/* A context of a server of TLS 1.2 and 1.3 with a certificate, the chain behind it, and the private key, all in PEM. NULL if one of
 * them is not valid, or they do not belong together. */
static inline SSL_CTX *earshot_tls_serving_context(const void *chain, int chain_size, const void *key, int key_size) {
  SSL_CTX *context = SSL_CTX_new(TLS_server_method());
  BIO *certificates = BIO_new_mem_buf(chain, chain_size), *keys = BIO_new_mem_buf(key, key_size);
  X509 *certificate = certificates == NULL ? NULL : PEM_read_bio_X509_AUX(certificates, NULL, earshot_tls_no_password, NULL);
  EVP_PKEY *private = keys == NULL ? NULL : PEM_read_bio_PrivateKey(keys, NULL, earshot_tls_no_password, NULL);
  int is_good = context != NULL && certificate != NULL && private != NULL;
  if (is_good) {
    SSL_CTX_set_security_level(context, 2);
    is_good = SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION) == 1 &&
              SSL_CTX_use_certificate(context, certificate) == 1 && SSL_CTX_use_PrivateKey(context, private) == 1 &&
              SSL_CTX_check_private_key(context) == 1;
  }
  while (is_good) {
    X509 *next = PEM_read_bio_X509(certificates, NULL, earshot_tls_no_password, NULL);
    if (next == NULL) break;
    if (SSL_CTX_add0_chain_cert(context, next) != 1) {
      X509_free(next);
      is_good = 0;
    }
  }
  if (is_good) {
    SSL_CTX_set_options(context, SSL_OP_NO_TICKET | SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION |
                                     SSL_OP_CIPHER_SERVER_PREFERENCE);
    SSL_CTX_set_num_tickets(context, 0);
    SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS);
  } else {
    SSL_CTX_free(context);
  }
  X509_free(certificate);
  EVP_PKEY_free(private);
  BIO_free(certificates);
  BIO_free(keys);
  ERR_clear_error();
  return is_good ? context : NULL;
}

/* The name or the numeric address that the server's certificate must have: 1 if it is set. A name is sent to the server, too. */
static inline int earshot_tls_expect(SSL *ssl, const char *host, int is_numeric) {
  if (is_numeric) return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), host);
  SSL_set_hostflags(ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
  return SSL_set_tlsext_host_name(ssl, host) == 1 && SSL_set1_host(ssl, host) == 1;
}

/* Why the server's certificate was refused; NULL if it was not. */
static inline const char *earshot_tls_certificate_problem(const SSL *ssl) {
  long result = SSL_get_verify_result(ssl);
  return result == X509_V_OK ? NULL : X509_verify_cert_error_string(result);
}
