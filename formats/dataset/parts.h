/* parts.h - types and functions that reading, writing and checking a dataset share: the manifest,
 * the shards' file names and the `index` of a shard. Internal to formats/dataset; docs/format.md
 * describes the bytes. */
#ifndef FORMATS_DATASET_PARTS_H
#define FORMATS_DATASET_PARTS_H

#include "formats/dataset/dataset.h"
#include "formats/lmdb/lmdb_read.h"

#define VF_MANIFEST "manifest.json"
#define VF_STATE "state.lmdb"

enum {
    VF_FORMAT = 1,           /* version of the dataset's format, in the manifest */
    VF_MAX_LIST = 64 << 20,  /* bytes of the manifest or of an index's buckets */
    VF_MAX_SHARD = 99999,    /* five digits in a file's name */
    VF_MAX_VARIANT = 999,    /* three digits in a key */
    VF_SAMPLE_KEY = 24,      /* room for "000000000042/000" and a NUL */
    VF_SAMPLE_KEY_LEN = 16,
    VF_SHARD_NAME = 20       /* room for "shard-00000.lmdb" and a NUL */
};

/* Sub-databases, in the order of vf_shard_dbs and vf_text_dbs. */
enum { VF_DB_SAMPLE, VF_DB_LATENT, VF_DB_THUMB, VF_DB_INDEX, VF_SHARD_DBS };
enum { VF_DB_TEXT, VF_DB_VALIDATION, VF_TEXT_DBS };
extern const char *const vf_shard_dbs[];     /* NULL-ended */
extern const char *const vf_text_dbs[];

/* Opens a finished dataset of which path has the manifest; `fetch` maps the shards and brings their
 * bytes when they are read. The handle and its errors have the path `name`, where the dataset
 * really is. Errors and threads are as those of vf_dataset_open. */
int vf_dataset_open_fetched(vf_dataset **out, const char *path, const char *name,
                            const vf_fetch *fetch, vc_err *err);

/* ---- manifest ---- */

typedef struct vf_shard_info {               /* a closed shard */
    char file[VF_SHARD_NAME];
    bool text;
    unsigned number;
    int64_t samples, latents, texts, bytes;
    vf_key hash;                             /* hash of the whole file */
} vf_shard_info;

typedef struct vf_manifest {
    cJSON *json;
    bool complete;
    int64_t samples;
    vf_key root;
    vf_shard_info *shard;                    /* each kind's numbers ascend */
    int n_shards;
    int last[2];                             /* of each kind: index of its last shard, plus one */
} vf_manifest;

/* Reads and checks dir/manifest.json. VC_ENOENT: the folder has no manifest. */
int vf_manifest_read(vf_manifest *m, const char *dir, vc_err *err);
/* Checks the n bytes of the manifest of a dataset elsewhere; errors name dir. */
int vf_manifest_parse(vf_manifest *m, const char *text, size_t n, const char *dir, vc_err *err);
void vf_manifest_free(vf_manifest *m);
int vf_manifest_add(vf_manifest *m, const vf_shard_info *s, vc_err *err);
/* Replaces dir/manifest.json by the fields of head in their order (without those that vf_head_clear
 * removes), counts, `buckets` (an array) and the shards. */
int vf_manifest_write(const vf_manifest *m, const char *dir, const cJSON *head,
                      const cJSON *buckets, vc_err *err);

/* True if a vf_writer makes files of this name; the other files of vprep are not among them. */
bool vf_is_writers(const char *name);
/* True if name is exactly shard-NNNNN.lmdb or text-NNNNN.lmdb. */
bool vf_shard_name_parse(const char *name, bool *text, unsigned *number);
char *vf_shard_name(char buf[VF_SHARD_NAME], bool text, unsigned number);
/* Maps a shard, which must be a plain file and no link; bytes >= 0 is the exact size it must
 * have. */
int vf_shard_open(vf_lmdb **out, const char *dir, const char *file, int64_t bytes, vc_err *err);
/* The same for a shard that `fetch` (NULL: none) maps and brings; `file` is borrowed until
 * close. */
int vf_shard_open_fetched(vf_lmdb **out, const char *dir, const char *file, int64_t bytes,
                          const vf_fetch *fetch, vc_err *err);
/* Finds a sub-database; a missing one is empty. */
int vf_shard_tree(const vf_lmdb *m, const char *name, vf_tree *t, vc_err *err);

/* ---- records ---- */

enum { VF_ENTRY_DROPPED = 128 };             /* never leaves the library */
#define VF_DROPPED "{\"dropped\":true}"      /* value of a dropped sample or validation prompt */

typedef struct vf_record {                   /* fields of a sample record that the index has */
    vf_entry entry;
    vf_key hash;                             /* hash of key and value */
    uint64_t id;
    const char *bucket;                      /* bucket's key, borrowed from the JSON; "" if
                                              * dropped */
} vf_record;

bool vf_sample_key_parse(const char *key, size_t n, uint32_t *number, uint32_t *variant);
/* Reads a `sample` pair. If json is not NULL, *json gets the parsed record, which the caller frees;
 * else r->bucket is "". */
int vf_record_read(vf_record *r, cJSON **json, vf_bytes key, vf_bytes value, vc_err *err);
/* Reads a record that is about to be written. */
int vf_record_of(vf_record *r, const cJSON *json, vc_err *err);
/* Parses a JSON value of at most VF_MAX_RECORD bytes; the caller frees *json. */
int vf_record_parse(cJSON **json, vf_bytes text, vc_err *err);
/* Reads `latent` [f,h,w] of a record or bucket into e. */
int vf_grid_read(vf_entry *e, const cJSON *json, vc_err *err);
/* Parses a validation key, "000000"; tests if a value is {"dropped":true}. */
bool vf_prompt_key_parse(vf_bytes key, uint32_t *i);
bool vf_is_dropped(vf_bytes value);
/* Adds h to sum, or takes h from sum; both are 128-bit big-endian numbers. */
void vf_root_add(vf_key *sum, vf_key h);
void vf_root_take(vf_key *sum, vf_key h);

/* ---- hints ---- */

/* Returns the checksum that is stored after a hint's value, as a wrong hint would do harm. A hint
 * is stored under the hash of its name. */
vf_key vf_hint_sum(vf_key name, const void *value, size_t n);

/* ---- index ---- */

typedef struct vf_index {                    /* borrowed from the map */
    uint32_t n;
    const uint8_t *entries, *records;        /* n of INDEX_ENTRY and INDEX_RECORD bytes */
    vf_bytes buckets;                        /* JSON: [{"key":"0.57","latent":[13,48,84]}, ...] */
} vf_index;

typedef struct vf_index_item {
    vf_entry entry;
    vf_key hash;
    uint64_t id;
    uint32_t bucket;                         /* index into `buckets` */
} vf_index_item;

/* Gets the index's item of sample i, after comparing the record with its hash but without parsing
 * the record. */
int vf_dataset_item(const vf_dataset *d, uint32_t i, vf_index_item *item, vc_err *err);
/* Gets the index's item of sample i without reading the record. */
void vf_dataset_indexed(const vf_dataset *d, uint32_t i, vf_index_item *item);
/* Finds a shard's index and checks its sizes and checksums. */
int vf_index_open(vf_index *x, const vf_lmdb *m, vc_err *err);
void vf_index_entry(const vf_index *x, uint32_t i, vf_entry *e);
void vf_index_get(const vf_index *x, uint32_t i, vf_index_item *item);
/* Parses x->buckets into a list; the caller frees *list. */
int vf_buckets_parse(cJSON **list, vf_bytes text, vc_err *err);
typedef enum vf_index_array { VF_INDEX_ENTRIES, VF_INDEX_RECORDS } vf_index_array;
typedef void vf_index_item_of(const void *arg, uint32_t i, vf_index_item *item);
/* Makes a value of the sub-database `index` for n items in key order; the caller frees *out. */
int vf_index_pack(vf_index_array which, vf_index_item_of *get, const void *arg, uint32_t n,
                  void **out, size_t *size, vc_err *err);

/* Returns the rank of a sample in the order by number, then variant. */
static inline uint64_t vf_entry_rank(const vf_entry *e)
{
    return (uint64_t)e->number << 16 | e->variant;
}

/* True if the first bytes are those of a JPEG. */
static inline bool vf_is_jpeg(const void *data, size_t n)
{
    const uint8_t *p = data;
    return n >= 4 && p[0] == 0xff && p[1] == 0xd8;
}

#endif
