/* What receiving a credential costs in plain C, with the libraries that the service uses: chunks are read, checked and put
 * in their places, and the frame is decrypted and inflated. Prints chunks a second for the first half, and encrypted bytes a
 * second for all of it, the best of some rounds each.
 *
 * The file has, in this machine's byte order: the key (32 bytes), the nonce (12), the frame's size, the bytes of a full
 * chunk's payload, the text's size (4 each), then each chunk behind its length (4): sequence from 1 on and CRC-16/KERMIT,
 * both 2 bytes, big endian, and the payload. */
#include <malloc.h>
#include <openssl/evp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <zlib.h>

static void fail(const char *what) {
  fprintf(stderr, "unseal: %s\n", what);
  exit(1);
}

/* CRC-16/KERMIT by slicing-by-eight, as the service does it: table n has a byte's effect when n bytes follow it. */
static uint16_t table[8][256];

static void make_tables(void) {
  for (unsigned byte = 0; byte < 256; byte++) {
    unsigned crc = byte;
    for (int bit = 0; bit < 8; bit++) crc = crc & 1 ? crc >> 1 ^ 0x8408 : crc >> 1;
    table[0][byte] = (uint16_t)crc;
  }
  for (int n = 1; n < 8; n++)
    for (unsigned byte = 0; byte < 256; byte++)
      table[n][byte] = (uint16_t)(table[n - 1][byte] >> 8 ^ table[0][table[n - 1][byte] & 0xFF]);
}

static uint16_t crc_by_eight(const uint8_t *bytes, size_t count) {
  uint16_t crc = 0;
  for (; count >= 8; bytes += 8, count -= 8) {
    uint64_t word;
    memcpy(&word, bytes, 8);
    word ^= crc;
    crc = table[7][word & 0xFF] ^ table[6][word >> 8 & 0xFF] ^ table[5][word >> 16 & 0xFF] ^
          table[4][word >> 24 & 0xFF] ^ table[3][word >> 32 & 0xFF] ^ table[2][word >> 40 & 0xFF] ^
          table[1][word >> 48 & 0xFF] ^ table[0][word >> 56];
  }
  while (count--) crc = (uint16_t)(crc >> 8 ^ table[0][(crc ^ *bytes++) & 0xFF]);
  return crc;
}

static uint16_t crc_by_one(const uint8_t *bytes, size_t count) {
  uint16_t crc = 0;
  while (count--) crc = (uint16_t)(crc >> 8 ^ table[0][(crc ^ *bytes++) & 0xFF]);
  return crc;
}

static struct {
  uint8_t key[32], nonce[12];
  uint32_t frame_size, payload, text_size;
  uint32_t count;
  uint8_t **chunks;
  uint32_t *lengths;
} job;

static void take(void *place, size_t count, FILE *file) {
  if (fread(place, 1, count, file) != count) fail("the file is too short");
}

static void *room(size_t count) {
  void *block = malloc(count ? count : 1);
  if (block == NULL) fail("out of memory");
  return block;
}

static void read_job(const char *path) {
  FILE *file = fopen(path, "rb");
  if (file == NULL) fail("the file does not exist");
  take(job.key, sizeof job.key, file);
  take(job.nonce, sizeof job.nonce, file);
  take(&job.frame_size, 4, file);
  take(&job.payload, 4, file);
  take(&job.text_size, 4, file);
  uint32_t most = (job.frame_size + job.payload - 1) / job.payload;
  job.chunks = room(most * sizeof *job.chunks);
  job.lengths = room(most * sizeof *job.lengths);
  uint32_t length;
  while (job.count < most && fread(&length, 1, 4, file) == 4) {
    job.chunks[job.count] = room(length);
    job.lengths[job.count] = length;
    take(job.chunks[job.count++], length, file);
  }
  fclose(file);
}

/* The frame, from all chunks; each is compared with what it must be. */
static uint8_t *assemble(uint16_t (*crc)(const uint8_t *, size_t)) {
  uint32_t count = (job.frame_size + job.payload - 1) / job.payload, stored = 0;
  uint8_t *frame = room(job.frame_size), *here = calloc(count, 1);
  if (here == NULL) fail("out of memory");
  for (uint32_t i = 0; i < job.count; i++) {
    const uint8_t *chunk = job.chunks[i];
    uint32_t length = job.lengths[i];
    if (length < 5) continue;
    uint32_t index = (uint32_t)(chunk[0] << 8 | chunk[1]) - 1, size = length - 4;
    if (crc(chunk + 4, size) != (chunk[2] << 8 | chunk[3]) || index >= count) continue;
    uint32_t start = index * job.payload;
    uint32_t expected = job.frame_size - start < job.payload ? job.frame_size - start : job.payload;
    if (size != expected) continue;
    memcpy(frame + start, chunk + 4, size);
    stored += !here[index];
    here[index] = 1;
  }
  free(here);
  if (stored != count) fail("the frame is not complete");
  return frame;
}

static uint8_t *decrypt(uint8_t *frame, size_t *count) {
  int written = 0, size = (int)job.frame_size - 16;
  uint8_t *plain = room((size_t)size);
  EVP_CIPHER_CTX *context = EVP_CIPHER_CTX_new();
  if (context == NULL || EVP_DecryptInit_ex2(context, EVP_aes_256_gcm(), job.key, job.nonce, NULL) != 1 ||
      EVP_DecryptUpdate(context, plain, &written, frame, size) != 1 ||
      EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_SET_TAG, 16, frame + size) != 1 ||
      EVP_DecryptFinal_ex(context, plain + size, &written) != 1)
    fail("the frame cannot be decrypted");
  EVP_CIPHER_CTX_free(context);
  *count = (size_t)size;
  return plain;
}

/* The text, whose size nobody knows beforehand: its room doubles. */
static uint8_t *inflated(uint8_t *bytes, size_t count, size_t *text_size) {
  size_t size = 4 * count;
  uint8_t *text = room(size);
  z_stream stream = {.next_in = bytes, .avail_in = (uInt)count};
  if (inflateInit2(&stream, 31) != Z_OK) fail("zlib cannot be initialised");
  for (;;) {
    stream.next_out = text + stream.total_out;
    stream.avail_out = (uInt)(size - stream.total_out);
    int status = inflate(&stream, Z_NO_FLUSH);
    if (status == Z_STREAM_END) break;
    if (status != Z_OK) fail("the frame cannot be inflated");
    text = realloc(text, size *= 2);
    if (text == NULL) fail("out of memory");
  }
  *text_size = stream.total_out;
  inflateEnd(&stream);
  return text;
}

/* The processor's time: on a machine with other work the clock on the wall says how much of that there was. */
static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static double best(double one, double other) { return one > other ? one : other; }

int main(int argc, char **argv) {
  if (argc != 3 || atoi(argv[2]) < 1) fail("FILE ROUNDS");
  /* Each frame gets its memory from the kernel and gives it back, as in the service. */
  mallopt(M_MMAP_THRESHOLD, 128 << 10);
  make_tables();
  read_job(argv[1]);
  double by_eight = 0, by_one = 0, whole = 0;
  for (int round = 0; round < atoi(argv[2]); round++) {
    double begin = now();
    free(assemble(crc_by_eight));
    by_eight = best(by_eight, job.count / (now() - begin));
    begin = now();
    free(assemble(crc_by_one));
    by_one = best(by_one, job.count / (now() - begin));

    size_t count, size;
    begin = now();
    uint8_t *frame = assemble(crc_by_eight);
    uint8_t *plain = decrypt(frame, &count);
    free(frame);
    uint8_t *text = inflated(plain, count, &size);
    free(plain);
    whole = best(whole, job.frame_size / (now() - begin));
    if (size != job.text_size) fail("the inflated text has a different size");
    free(text);
  }
  printf("%.0f %.0f %.0f\n", by_eight, by_one, whole);
  return 0;
}
