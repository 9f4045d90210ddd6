/* encode.h - from the decoded pixels of one sample to its stored values, through the VAE.
 *
 * One encoder belongs to one thread; it holds the VAE, and the moments of one clip. */
#ifndef PRECOMPUTE_ENCODE_ENCODE_H
#define PRECOMPUTE_ENCODE_ENCODE_H

#include "precompute/encode/clip_frames.h"
#include "precompute/encode/conditions.h"

/* A sample in the pipeline. A decoded one has its first range of frames, an encoded one values;
 * each stage frees its inputs. */
enum { PREP_WAVE = 192 };            /* columns of the wave beside a thumbnail */

typedef struct prep_job {
    const vprep_item *item;          /* NULL: a validation prompt, which is not traced */
    uint32_t turn;                   /* its place in the order in which samples are put */
    unsigned need;                   /* VC_ROLE_BITs to be encoded; the others are stored already */
    bool want_thumb;
    int frames;                      /* first frames of the clip that are needed */
    prep_frames pixels, control;     /* of the clip, and of the control clip where it is needed */
    prep_frames filled;              /* of the picture that a mask covers, if it is no clip's */
    struct {
        vprep_clip *clip;            /* NULL: the reference is not needed */
        prep_frames pixels;
    } reference[VC_REFERENCES];
    struct {
        float *mel;                  /* [inputs,frames,bins] of the clip's sound, where it is
                                      * needed */
        int frames;
        int8_t wave[PREP_WAVE][2];   /* with mel: the least and the greatest value of all channels
                                      * in each of equal parts of its time, 127 = 1 */
    } sound;
    float *loss_mask;                /* [latent_f,latent_h,latent_w], where it is needed */
    vf_key key[VC_ROLES];            /* of the values that the mode stores */
    uint8_t *value[VC_ROLES];        /* safetensors; NULL: not to be put */
    size_t value_bytes[VC_ROLES];
    uint8_t *thumb;
    size_t thumb_bytes;
    vprep_clip clip;                 /* last, since prep_job_begin does not clear its draws */
} prep_job;

/* Makes an empty job of the item; NULL: of a validation prompt. */
void prep_job_begin(prep_job *j, const vprep_item *it);
/* Fills the keys, and the frames that `need` and want_thumb take. */
void prep_job_settle(const vprep *p, prep_job *j);
/* Opens the reference pictures that are needed. */
int prep_job_references(const vprep *p, prep_job *j, vc_err *err);
/* Makes the thumbnail of the first frame, where one is wanted. */
int prep_job_thumbnail(const vprep *p, prep_job *j, vc_err *err);
/* The last jobs that were encoded, by their turns: each stays in memory until its turn. */
enum { PREP_RECENT = 1024 };
typedef struct prep_recent {
    const prep_job *job[PREP_RECENT];
    uint32_t turn[PREP_RECENT];
} prep_recent;
void prep_recent_add(prep_recent *r, const prep_job *j);
/* Copies j's value v from the job of a later turn, which has a value of this key; where that job is
 * no longer among the last ones, j->value[v] stays NULL. VC_ENOMEM. */
int prep_recent_copy(const prep_recent *r, prep_job *j, int v, uint64_t turn, vc_err *err);
/* The size of a value: the clip's, or the reference picture's own. */
const vb_choice *prep_job_size(const prep_job *j, vc_role role);
/* The bytes of pixels that are in memory, and whether a frame could not be read. */
size_t prep_job_pixels(const prep_job *j);
bool prep_job_unread(const prep_job *j);
void prep_job_close(prep_job *j);                    /* closes all frames */
void prep_job_free(prep_job *j);                     /* NULL is fine */

typedef struct prep_encoder prep_encoder;
/* Opens the models that values of `roles` (VC_ROLE_BITs) are made with. Masks and thumbnails need
 * none. */
int prep_encoder_open(prep_encoder **out, const vprep *p, unsigned roles, vc_err *err);
void prep_encoder_close(prep_encoder *e);            /* NULL is fine */

/* The memory of a clip of that shape, in bytes. */
typedef struct prep_memory {
    size_t vae, vision;              /* of the models, beside their weights; 0: there is none */
    size_t pixels;                   /* of the clip's frames that are in memory at once */
} prep_memory;
int prep_encoder_memory(prep_encoder *e, const vb_choice *c, prep_memory *m, vc_err *err);

/* From now on `told` gets, after each chunk of frames, the share of the job's values that the VAE
 * has made. */
typedef void prep_told(void *arg, double share);
void prep_encoder_watch(prep_encoder *e, prep_told *told, void *arg);

/* The seconds that the VAE has taken so far. */
double prep_encoder_seconds(const prep_encoder *e);

/* Encodes the values that j needs and writes its trace. A value that an earlier job of this encoder
 * has is not encoded again: j is put without it if that job's turn comes before, else j gets a
 * copy. So jobs are put in the order of their turns, and are not freed before. Closes j's frames.
 * *n: the number of encoded values besides the clip. */
int prep_encode(prep_encoder *e, prep_job *j, uint64_t *n, vc_err *err);

#endif
