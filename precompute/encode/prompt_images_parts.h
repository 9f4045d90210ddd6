/* prompt_images_parts.h - the pictures of a validation prompt, for prompt_images.c, which finds and
 * measures them before anything is encoded, prompt_images_encode.c, and prompt_clips.c.
 *
 * A prompt is no vprep_item, although some 180 of the 840 lines of these files have a counterpart
 * in survey.c and pipeline.c: an item has a line of the plan, draws by its row's id, a place in the
 * pipeline and a record, of which a prompt has none. */
#ifndef PRECOMPUTE_ENCODE_PROMPT_IMAGES_PARTS_H
#define PRECOMPUTE_ENCODE_PROMPT_IMAGES_PARTS_H

#include "precompute/encode/prompt_images.h"

typedef struct prompt_picture {
    const char *name;                /* the file's, in the list */
    char *file;                      /* NULL: there is none */
    prep_identity is;                /* of the file, when it was hashed */
    vf_key hash, shown;              /* of the file; in keys of values (prep_shown) */
    media_tonemap tonemap;           /* of HDR files that of the run, else NONE */
    prep_beside size;                /* of a reference: what its size follows from */
} prompt_picture;

/* The files of a row, by column. */
enum { PROMPT_FIRST, PROMPT_LAST, PROMPT_CONTROL, PROMPT_REFERENCE,
       PROMPT_MASK = PROMPT_REFERENCE + VC_REFERENCES, PROMPT_PICTURES };

struct vprep_image {
    prompt_picture of[PROMPT_PICTURES];
    vf_row row;                      /* has the names of the references alone */
    vprep_clip clip;                 /* the picture as a clip of one frame; of masked clips, the one
                                      * that begins with the first picture and may end with the
                                      * last, other frames masked; of control clips, the first
                                      * frames of the file */
    vf_key key[VC_ROLES];
    vf_key shown;                    /* of the picture in texts */
};

/* Finds the file that a column of row i names, if the row has the column. */
int prompt_find_file(prompt_picture *m, const vprep *p, int i, const char *column, vc_err *err);
/* Hashes a picture's file, which must not change meanwhile. */
int prompt_hash(prompt_picture *m, vc_err *err);
/* Chooses the bucket that a video, or a still, of the picture's shape and `frames` frames has, or
 * the row's height and width. */
int prompt_choose(const vprep *p, const cJSON *row, const media_info *info, bool video,
                  int frames, vb_choice *c, vc_err *err);
/* Sets the row's number of frames n, rounded up to whole latent frames. */
int prompt_set_frames(const vprep *p, int64_t n, vb_choice *c, vc_err *err);
/* Writes the rows and columns of the choice into the row. Below 0: out of memory. */
int prompt_set_size(cJSON *row, const vb_choice *c);
/* Reads the first n frames of a file, or the one frame of a still. Returns their number, or an
 * error. */
int prompt_read_frames(const vprep_clip *clip, prompt_picture *m, uint8_t *rgb, int n, vc_err *err);

/* VC_ROLE_BITs of the values of row i's pictures that are to be encoded. */
unsigned prompt_missing(const vprep *p, int i);
/* A reference beside a clip of the choice `of`, as a clip of one frame, whose frames are not
 * set. */
void prompt_reference_clip(const vprep *p, const prompt_picture *m, const vb_choice *of,
                           vprep_clip *clip);

#endif
