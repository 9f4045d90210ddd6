/* vlat.h - libvlat reads the latent datasets of vprep: samples, latents, text embeddings and
 * conditions, for trainers and tools that are not part of vlt.
 *
 *     vlat_error err;
 *     vlat_dataset *d;
 *     if (vlat_dataset_open(&d, "latents.lmdb", &err))
 *         fprintf(stderr, "%s\n", err.text);
 *     for (uint32_t i = 0; i < vlat_dataset_count(d); i++)
 *         ...                                      (a whole program: examples/read.c)
 *     vlat_dataset_close(&d);
 *
 * docs/format.md describes the dataset, its records and its values. The library reads closed shards
 * only, writes nothing, takes no lock, prints nothing and installs no signal handler. Every page is
 * checked before it is followed, so a damaged or hostile file gives an error. A file that another
 * program cuts short while it is open raises SIGBUS, as with every map of a file.
 *
 * Handles are immutable after open: many threads may read through one dataset. A function that can
 * fail returns 0 or a negative VLAT_E* code and fills *err, which may be NULL; the out-pointer is
 * then NULL. Pointers that the library returns are borrowed from the handle of the call and live
 * until that handle is closed. Records and values are closed before their dataset. Structs that the
 * library fills are passed with their size, so that a program keeps working when a later version of
 * the library adds fields at their end. */
#ifndef VLAT_H
#define VLAT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define VLAT_API_MAJOR 0     /* changes when a program has to be compiled again */
#define VLAT_API_MINOR 1     /* grows with each addition */

enum {
    VLAT_EFAIL = -1,         /* a failure without a code of its own */
    VLAT_ENOMEM = -2,        /* no memory or no file descriptor is left */
    VLAT_EIO = -3,           /* the system could not open, read or map a file */
    VLAT_EFORMAT = -4,       /* the dataset is damaged, or of an unknown format */
    VLAT_ENOENT = -5,        /* there is no such dataset, sample, key or tensor */
    VLAT_EINVAL = -6,        /* an argument is not allowed, or the dataset is not finished */
    VLAT_ESTOP = -9          /* the caller's function stopped the check */
};

typedef struct vlat_error {
    int code;                /* 0 or a VLAT_E* */
    char text[1200];         /* one line that names file, key, value and remedy */
} vlat_error;

/* Returns the version of the library in use, as "0.1.0". */
const char *vlat_version(void);

/* ---- datasets ---- */

typedef struct vlat_dataset vlat_dataset;

/* Opens a finished dataset: checks the manifest, sizes and indexes, and reads no value. A million
 * samples open in well under a second. VLAT_EINVAL: vprep has not finished the dataset. */
int vlat_dataset_open(vlat_dataset **d, const char *path, vlat_error *err);
/* Frees the handle and sets *d to NULL; d and *d may be NULL. */
void vlat_dataset_close(vlat_dataset **d);

/* Returns manifest.json as text: model family, normalization, text encoders, buckets. */
const char *vlat_dataset_manifest(const vlat_dataset *d);
/* Returns the number of live samples; each variant of a sample is one. */
uint32_t vlat_dataset_count(const vlat_dataset *d);

enum { VLAT_KEY = 33 };      /* bytes of a content key: 32 hex digits and a NUL */

typedef struct vlat_sample {
    uint32_t number, variant;        /* the sample's key in the dataset */
    char latent[VLAT_KEY];           /* key of its latent */
    uint8_t video;                   /* 1: a clip, 0: a still */
    uint16_t f, h, w;                /* latent grid */
    uint32_t tokens;                 /* of the transformer's picture sequence; 0: not known */
    uint32_t frames;                 /* pixel frames */
    uint32_t captions;               /* 255: or more */
    float weight, fps;               /* fps 0: not known */
} vlat_sample;

/* Fills *s, of `size` bytes (sizeof *s), with sample i below the count. Samples are in the order of
 * their numbers, then variants. VLAT_EINVAL: i is too large. */
int vlat_dataset_sample(const vlat_dataset *d, uint32_t i, vlat_sample *s, size_t size,
                        vlat_error *err);
/* Finds a sample by number and variant. VLAT_ENOENT: the dataset has no such sample. */
int vlat_dataset_find(const vlat_dataset *d, uint32_t number, uint32_t variant, uint32_t *i,
                      vlat_error *err);
/* Gets the JPEG of a sample's thumbnail, borrowed from d. VLAT_ENOENT: the sample has none. */
int vlat_dataset_thumb(const vlat_dataset *d, uint32_t i, const void **jpeg, size_t *n,
                       vlat_error *err);

/* Checks every page, checksum, record, reference and shape of the dataset at path. Each finding is
 * passed to `found`: the place (file and key) and the fault. found returns 0 to continue. The
 * result is 0 if the whole dataset was checked, with or without findings. */
int vlat_dataset_verify(const char *path,
                        int (*found)(void *arg, const char *where, const char *fault), void *arg,
                        vlat_error *err);

/* ---- records: captions, and keys of texts and conditions ---- */

typedef struct vlat_record vlat_record;

/* Reads the record of sample i and compares it with its checksum. */
int vlat_record_open(vlat_record **r, const vlat_dataset *d, uint32_t i, vlat_error *err);
void vlat_record_close(vlat_record **r);                     /* r and *r may be NULL */
/* Returns the record as stored: *n bytes of JSON without a NUL. */
const char *vlat_record_json(const vlat_record *r, size_t *n);
/* Return caption c of the record, and the key of its text of an encoder, which are numbered as in
 * the manifest. NULL: the record has no such caption, or no such encoder. */
const char *vlat_record_caption(const vlat_record *r, uint32_t c);
const char *vlat_record_text(const vlat_record *r, uint32_t c, uint32_t encoder);
/* Returns the key of a condition, a value among the latents, by its role: "image", "mask",
 * "loss_mask". NULL: the record has none. */
const char *vlat_record_condition(const vlat_record *r, const char *role);

/* ---- values: the tensors of a key ---- */

typedef struct vlat_value vlat_value;

enum { VLAT_LATENT, VLAT_TEXT };     /* latents and conditions; text embeddings */
enum { VLAT_CHECK = 1 };             /* compare the value with its checksum */

typedef enum vlat_dtype {
    VLAT_F32, VLAT_BF16, VLAT_F16, VLAT_F8E4M3, VLAT_F8E5M2, VLAT_F64,
    VLAT_I64, VLAT_I32, VLAT_I16, VLAT_I8, VLAT_U8, VLAT_BOOL
} vlat_dtype;

enum { VLAT_DIMS = 8 };

typedef struct vlat_tensor {         /* a view of a tensor in the file's map */
    const char *name;                /* "mean", "logvar", "prompt_embeds", ... */
    const void *data;                /* little-endian, row-major, of any alignment */
    uint64_t bytes;
    int32_t dtype, nd;               /* vlat_dtype; number of dimensions */
    int64_t dim[VLAT_DIMS];          /* outermost first */
} vlat_tensor;

/* Opens the value of a key (32 hex digits) without a copy. `flags`: 0 or VLAT_CHECK. */
int vlat_value_open(vlat_value **v, const vlat_dataset *d, int kind, const char *key, int flags,
                    vlat_error *err);
void vlat_value_close(vlat_value **v);                       /* v and *v may be NULL */
/* Returns the number of tensors. */
int vlat_value_count(const vlat_value *v);
/* Fill *t, of `size` bytes (sizeof *t), with tensor i in the order of names, or with a tensor by
 * its name. VLAT_EINVAL: i is too large; VLAT_ENOENT: the value has no such tensor. */
int vlat_value_at(const vlat_value *v, int i, vlat_tensor *t, size_t size, vlat_error *err);
int vlat_value_get(const vlat_value *v, const char *name, vlat_tensor *t, size_t size,
                   vlat_error *err);
/* Converts elements first .. first + n - 1 of a tensor to f32. VLAT_EINVAL: the tensor has fewer
 * elements. */
int vlat_tensor_f32(const vlat_tensor *t, uint64_t first, uint64_t n, float *to, vlat_error *err);

#ifdef __cplusplus
}
#endif

#endif
