/* What libsodium's primitives cost by themselves, in plain C: microseconds for the eight X25519 operations of one XX handshake
 * (two public keys, six agreements), for sealing and for opening 512 bytes with ChaCha20-Poly1305, and for verifying an
 * Ed25519 signature of 100 bytes. Prints the best of some rounds each, on one line. */
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double processor_time(void) {
  struct timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static unsigned char scalar[32], point[32], secret[32];
static unsigned char key[32], nonce[12], plain[512], sealed[528];
static unsigned char public_key[32], private_key[64], message[100], signature[64];

static int agree(void) {
  int failed = 0;
  for (int i = 0; i < 2; i++) failed |= crypto_scalarmult_base(secret, scalar);
  for (int i = 0; i < 6; i++) failed |= crypto_scalarmult(secret, scalar, point);
  return failed;
}

static int seal(void) {
  return crypto_aead_chacha20poly1305_ietf_encrypt(sealed, NULL, plain, sizeof plain, NULL, 0, NULL, nonce, key);
}

static int open_sealed(void) {
  return crypto_aead_chacha20poly1305_ietf_decrypt(plain, NULL, NULL, sealed, sizeof sealed, NULL, 0, nonce, key);
}

static int verify(void) { return crypto_sign_verify_detached(signature, message, sizeof message, public_key); }

/* Microseconds for one call, the best of some rounds. */
static double measure(int (*work)(void), int calls, int rounds) {
  double best = 1e9;
  for (int round = 0; round < rounds; round++) {
    double begin = processor_time();
    for (int call = 0; call < calls; call++) {
      if (work() != 0) {
        fprintf(stderr, "primitives: libsodium returned an error\n");
        exit(1);
      }
    }
    double each = (processor_time() - begin) / calls;
    if (each < best) best = each;
  }
  return best * 1e6;
}

int main(int count, char **arguments) {
  int rounds = count > 1 ? atoi(arguments[1]) : 3;
  if (sodium_init() < 0) return 1;
  randombytes_buf(scalar, sizeof scalar);
  randombytes_buf(secret, sizeof secret);
  randombytes_buf(key, sizeof key);
  if (crypto_scalarmult_base(point, secret) != 0) return 1;
  crypto_sign_keypair(public_key, private_key);
  crypto_sign_detached(signature, NULL, message, sizeof message, private_key);
  double agreeing = measure(agree, 50, rounds);
  double sealing = measure(seal, 5000, rounds);
  double opening = measure(open_sealed, 5000, rounds);
  double verifying = measure(verify, 200, rounds);
  printf("%.3f %.4f %.4f %.3f\n", agreeing, sealing, opening, verifying);
  return 0;
}
