/* diffusion_pipe_tables.h - the tables of a bucket of diffusion-pipe's cache, which list its
 * samples and their captions. See diffusion_pipe_write.c, arrow.h */
#ifndef FORMATS_PEERS_CACHES_DIFFUSION_PIPE_TABLES_H
#define FORMATS_PEERS_CACHES_DIFFUSION_PIPE_TABLES_H

#include "formats/peers/exchange.h"

typedef struct dpipe_member {
    uint32_t sample;                         /* index in the dataset */
    int captions;
} dpipe_member;

typedef struct dpipe_bucket {
    int64_t w, h, frames;                    /* pixels */
    char *dir, *cache;                       /* .../96x64x9/cache/MODEL; dir/cache_1.500x96x64x9 */
    dpipe_member *member;
    uint64_t *size;                          /* bytes of each member's item */
    size_t n;
} dpipe_bucket;

/* Returns the texts of a record's captions, at least one. The texts are borrowed; the caller
 * frees the array. NULL: out of memory. */
const char **dpipe_captions(const cJSON *record, int *n, vc_err *err);
/* Writes the tables of a bucket whose items are written, the index of the items and the note. */
int dpipe_write_tables(const exchange *x, const dpipe_bucket *b, vc_err *err);

#endif
