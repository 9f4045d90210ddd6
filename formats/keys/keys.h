/* keys.h - content keys: XXH3-128 hashes of bytes, of files and of lists of named fields, by which
 * a dataset finds its values. The functions are thread-safe: all state belongs to the caller. */
#ifndef FORMATS_KEYS_KEYS_H
#define FORMATS_KEYS_KEYS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/err.h"
#include "formats/keys/part.h"

typedef struct vf_key { uint8_t b[16]; } vf_key;             /* XXH3-128, big-endian as printed */
enum { VF_KEY_HEX = 33 };
char *vf_key_hex(char buf[VF_KEY_HEX], vf_key k);            /* 32 lower-case hex digits */
bool vf_key_parse(vf_key *k, const char *hex);               /* exactly 32 lower-case digits */
bool vf_key_parse_n(vf_key *k, const char *hex, size_t n);   /* the same without a NUL */
vf_key vf_hash(const void *data, size_t n);
vf_key vf_hash2(const void *a, size_t na, const void *b, size_t nb);    /* hash of a, then b */

/* A key is the hash of everything its value depends on, fed field by field: each field is its name,
 * a NUL, its length as u64 and its bytes, so that no two lists of fields give the same bytes. */
typedef struct vf_hasher {
    _Alignas(64) unsigned char state[640];                   /* XXH3's state; owns no memory */
} vf_hasher;
void vf_hasher_begin(vf_hasher *h, const char *kind);        /* "latent", "text", ... */
void vf_hasher_bytes(vf_hasher *h, const char *field, const void *p, size_t n);
void vf_hasher_str(vf_hasher *h, const char *field, const char *s);
void vf_hasher_int(vf_hasher *h, const char *field, int64_t v);
vf_key vf_hasher_end(vf_hasher *h);
/* The same state for the hash of bytes that come in pieces: that of vf_hash over all of them. */
void vf_hasher_plain(vf_hasher *h);
void vf_hasher_add(vf_hasher *h, const void *p, size_t n);
/* Sets *k to the XXH3-128 of a whole file, or of a part, read in blocks of 128 KiB. VC_ESTOP: *stop
 * became nonzero; stop may be NULL. VC_EFORMAT: the file is not regular, or ends inside the
 * part. */
int vf_hash_file(vf_key *k, const char *path, const atomic_int *stop, vc_err *err);
int vf_hash_part(vf_key *k, const vf_part *part, const atomic_int *stop, vc_err *err);

#endif
