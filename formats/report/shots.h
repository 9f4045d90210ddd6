/* shots.h - the pictures of a run's validation samples, found and read; gallery.h makes pages of
 * them.
 *
 *     DIR/validation/step-N/003.mp4, 003-000.png       a sample: its clip, its frames,
 *     DIR/validation/step-N/003-sound.png              the wave of the clip's sound, and
 *     DIR/validation/step-N/003.safetensors            its latents, whose metadata have the prompt
 *     DIR/validation/inputs/003-reference_1.png        an input of sample 003, by its role
 *
 * A picture is a file whose ending and first bytes are those of a kind that pages show (png, jpg,
 * mp4), whatever its name or link is. A clip takes the place of its frames. */
#ifndef FORMATS_REPORT_SHOTS_H
#define FORMATS_REPORT_SHOTS_H

#include <dirent.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/err.h"

#define VF_SHOTS_INPUTS "inputs"             /* a folder below DIR/validation */

/* The picture or clip of one sample at a step of a run. Without memory a string is NULL. */
typedef struct vf_shot {
    char *dir, *file;                    /* DIR/validation/step-N; "003.mp4" */
    char *prompt;                        /* "": unknown */
    char *wave;                          /* "003-sound.png", of a clip with sound; NULL: none */
    int run;                             /* as the caller numbers runs */
    int64_t step, bytes;
    bool shown;                          /* it is in the page, or stays out of it */
} vf_shot;
typedef struct vf_shots {
    vf_shot *item;
    int n;
    int64_t first;                       /* the least step that has pictures */
} vf_shots;

/* Adds the shots of the steps of a run's folder, the newest step first, or of its newest step that
 * has some; returns the number of steps that have samples. The caller frees s, which begins as
 * zeros. */
int vf_shots_find(vf_shots *s, int run, const char *dir, bool all);
void vf_shots_free(vf_shots *s);

/* True if both files are of one sample: "003-000.png" and "003.mp4". */
bool vf_shots_same(const char *a, const char *b);

/* Reads a picture of at most `room` bytes, and of 16 MiB in any case. Returns the static name of
 * its type, or NULL if the file is no such picture. The caller frees *data in either case. */
const char *vf_shots_read(const vf_shot *s, size_t room, char **data, size_t *n);

/* Opens a picture of DIR/validation/step-N or DIR/validation/inputs and returns its descriptor;
 * *mime is static. VC_ENOENT, VC_EFORMAT, VC_EIO. */
int vf_shots_open(const char *step_dir, const char *file, const char **mime, vc_err *err);

/* Sets *names to the n folders step-N below DIR/validation/, the newest first. */
int vf_shots_steps(char ***names, int *n, const char *dir, vc_err *err);
void vf_shots_steps_free(char **names, int n);

/* ---- the inputs of samples ---- */

typedef struct vf_inputs {
    char *dir;                           /* DIR/validation/inputs */
    struct dirent **name;                /* its pictures by sample and role, targets last */
    int n;
} vf_inputs;

vf_inputs vf_inputs_find(const char *dir);
void vf_inputs_free(vf_inputs *in);
/* Whether the inputs of the sample's number are of its prompt: prompts of a resumed run may be
 * others. */
bool vf_inputs_has(const vf_inputs *in, const vf_shot *of);
/* Returns the file of the sample's next input from *at on, which begins at 0, and its title,
 * "reference 1"; NULL after the last. */
char *vf_inputs_next(const vf_inputs *in, const vf_shot *of, int *at, char title[40]);

#endif
