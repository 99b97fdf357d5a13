/* What the operations of private presence cost with libsecp256k1 and libssl alone, without any of our code. Prints the
 * microseconds of an ECDH and of a key pair, the handshakes of TLS 1.2 per second (both sides, with a group of 3072 bits),
 * and the megabytes per second that one side encrypts and the other decrypts, all in memory. */
#include <openssl/err.h>
#include <openssl/rand.h>
#include <openssl/ssl.h>
#include <secp256k1.h>
#include <secp256k1_ecdh.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static void fail(const char *what) {
  fprintf(stderr, "presence: %s\n", what);
  exit(1);
}

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

/* The bare X coordinate, as the protocol has it. */
static int bare_x(unsigned char *output, const unsigned char *x, const unsigned char *y, void *data) {
  (void)y;
  (void)data;
  memcpy(output, x, 32);
  return 1;
}

static unsigned int client_key(SSL *ssl, const char *hint, char *identity, unsigned int identity_size, unsigned char *key,
                               unsigned int key_size) {
  (void)ssl;
  (void)hint;
  if (identity_size < 2 || key_size < 16) return 0;
  strcpy(identity, "x");
  memset(key, 7, 16);
  return 16;
}

static unsigned int server_key(SSL *ssl, const char *identity, unsigned char *key, unsigned int key_size) {
  (void)ssl;
  (void)identity;
  if (key_size < 16) return 0;
  memset(key, 7, 16);
  return 16;
}

static SSL_CTX *context(int is_server) {
  SSL_CTX *context = SSL_CTX_new(is_server ? TLS_server_method() : TLS_client_method());
  if (context == NULL || SSL_CTX_set_max_proto_version(context, TLS1_2_VERSION) != 1 ||
      SSL_CTX_set_cipher_list(context, "DHE-PSK-AES256-GCM-SHA384") != 1)
    fail("libssl does not have the suite");
  SSL_CTX_set_security_level(context, 2);
  SSL_CTX_set_options(context, SSL_OP_NO_TICKET | SSL_OP_SINGLE_DH_USE);
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  if (is_server) {
    SSL_CTX_set_dh_auto(context, 1);
    SSL_CTX_set_psk_server_callback(context, server_key);
  } else {
    SSL_CTX_set_psk_client_callback(context, client_key);
  }
  return context;
}

/* Two sides whose bytes go through a pair of memory buffers. */
static void shake_hands(SSL_CTX *clients, SSL_CTX *servers, SSL **client, SSL **server) {
  BIO *one = NULL, *other = NULL;
  *client = SSL_new(clients);
  *server = SSL_new(servers);
  if (*client == NULL || *server == NULL || BIO_new_bio_pair(&one, 64 << 10, &other, 64 << 10) != 1) fail("no memory");
  SSL_set_bio(*client, one, one);
  SSL_set_bio(*server, other, other);
  SSL_set_connect_state(*client);
  SSL_set_accept_state(*server);
  for (int i = 0; i < 20; i++) {
    int there = SSL_do_handshake(*client), back = SSL_do_handshake(*server);
    if (there == 1 && back == 1) return;
    ERR_clear_error();
  }
  fail("the handshake fails");
}

int main(int count, char **words) {
  int scale = count > 1 ? atoi(words[1]) : 1;
  if (scale < 1) scale = 1;
  secp256k1_context *curve = secp256k1_context_create(SECP256K1_CONTEXT_NONE);
  unsigned char secret[32], output[32];
  secp256k1_pubkey key;
  RAND_bytes(secret, sizeof secret);
  if (!secp256k1_ec_pubkey_create(curve, &key, secret)) fail("not a key");
  int rounds = 2000 / scale + 1;
  double start = now();
  for (int i = 0; i < rounds; i++)
    if (!secp256k1_ecdh(curve, output, &key, secret, bare_x, NULL)) fail("ECDH fails");
  double ecdh = (now() - start) / rounds * 1e6;
  start = now();
  for (int i = 0; i < rounds; i++)
    if (!secp256k1_ec_pubkey_create(curve, &key, secret)) fail("not a key");
  double pair = (now() - start) / rounds * 1e6;
  secp256k1_context_destroy(curve);

  SSL_CTX *clients = context(0), *servers = context(1);
  SSL *client = NULL, *server = NULL;
  rounds = 50 / scale + 1;
  start = now();
  for (int i = 0; i < rounds; i++) {
    SSL_free(client);
    SSL_free(server);
    shake_hands(clients, servers, &client, &server);
  }
  double handshakes = rounds / (now() - start);

  static char text[16 << 10], back[16 << 10];
  rounds = 4096 / scale + 1;
  start = now();
  for (int i = 0; i < rounds; i++) {
    if (SSL_write(client, text, sizeof text) != (int)sizeof text) fail("the record is not written");
    for (int got = 0; got < (int)sizeof back;) {
      int part = SSL_read(server, back, (int)sizeof back - got);
      if (part <= 0) fail("the record is not read");
      got += part;
    }
  }
  double rate = (double)rounds * sizeof text / 1e6 / (now() - start);
  printf("%f %f %f %f\n", ecdh, pair, handshakes, rate);
  return 0;
}
