/* share.h - the ranks of a job (mpirun): each surveys, encodes and writes a part.
 *
 * Metadata, sources, items and their numbers are the same on all ranks. Prompts are divided by
 * their keys; sources, with all values that are made of one, by size. Rank 0 alone prints, and
 * writes all files but the shards. Functions are collective unless marked local; without ranks,
 * rank 0 does everything. */
#ifndef PRECOMPUTE_RUN_SHARE_H
#define PRECOMPUTE_RUN_SHARE_H

#include "common/comm/comm.h"
#include "formats/dataset/dataset.h"
#include "precompute/run/options.h"

typedef struct prep_ranks {
    vc_comm *comm;                    /* NULL: there is one process */
    int rank, n;                      /* 0 and 1 for one process */
    uint16_t *owner;                  /* [items] the rank of each; NULL: rank 0 */
    struct vprep_mail *mail;          /* hints for rank 0 (share.c) */
    uint64_t others_clips;            /* clips that ranks but 0 are to encode */
} prep_ranks;

/* Local: sets --workers, threads and the GPU's number. */
void vprep_share_machine(vprep *p);
/* Opens the encoders' device once, to print its name, and checks that all ranks compute on GPUs or
 * none does. VC_EUSAGE: a rank has no such device. */
int vprep_share_devices(vprep *p, vc_err *err);
/* Opens p->gpu if a flag asks for it: the GPU of the encoders. VC_EUSAGE: there is none. */
int vprep_share_decoder(vprep *p, vc_err *err);
bool vprep_surveys(const vprep *p, int64_t row);     /* local: whether this rank does */
bool vprep_owns_key(const vprep *p, vf_key k);       /* local */
bool vprep_owns(const vprep *p, uint32_t item);      /* local, after vprep_share_texts */
/* Local: keeps a hint with the dataset, from any rank. Not thread-safe. */
int vprep_hint(vprep *p, const char *name, const void *value, size_t n, vc_err *err);
/* Opens rank 0's p->writer, which takes hints and nothing else. */
int vprep_share_open(vprep *p, vf_writer_opts *o, vc_err *err);
/* Begins with rank 0's writer, and opens those of the others with the options of vprep_share_open:
 * only now does the dataset change. */
int vprep_share_begin(vprep *p, const vf_writer_opts *o, vc_err *err);
/* Checks that all ranks have read the same list. */
int vprep_share_list(vprep *p, vc_err *err);
/* Local, the same on all ranks: sets p->ranks.owner and others_clips. Sources are divided, not
 * items, so that values that two items of a source share are made once; the dearest source comes
 * first, each to the rank with the least load. */
int vprep_share_divide(vprep *p, vc_err *err);
/* After each stage the ranks share: the sources that they found; the texts that they encoded; the
 * clips that they wrote, with all counts added up. */
int vprep_share_survey(vprep *p, vc_err *err);
int vprep_share_texts(vprep *p, vc_err *err);
int vprep_share_clips(vprep *p, vc_err *err);

/* Where a rank is with its clips. */
typedef struct prep_place {
    uint64_t done, failed;            /* clips that ended, and those of them that failed */
    uint64_t waiting;                 /* clips that are encoded, but not yet written */
    double share;                     /* of the clip in the VAE that is made; 0: nothing is */
    int frames;                       /* of this clip */
} prep_place;
/* Local, one thread at a time: reports this rank's clips; rank 0 shows those of all ranks. end:
 * this rank has no more, and rank 0 shows the others' until they end. */
void vprep_share_progress(vprep *p, const prep_place *at, bool end);
void vprep_share_free(vprep *p);

#endif
