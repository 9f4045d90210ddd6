/* prompts.h - the rows of --validation_prompts, in order. */
#ifndef PRECOMPUTE_RUN_PROMPTS_H
#define PRECOMPUTE_RUN_PROMPTS_H

#include "formats/json/json.h"
#include "precompute/run/options.h"

typedef struct vprep_prompts {
    cJSON **row;                      /* one object each; "prompt" is a string */
    int n;
    struct vprep_image **image;       /* of each row, NULL: the row has none (prompt_images.h) */
    struct vprep_prompt_clip **clip;  /* of each row, one for each column (prompt_clips.h) */
} vprep_prompts;

/* Reads --validation_prompts into p->prompts: errors of the list come before any media are opened.
 * vprep_prompt_images_find (prompt_images.h) then finds the pictures that it names. */
int vprep_prompts_load(vprep *p, vc_err *err);
/* Writes the validation records, after all values that they refer to. */
int vprep_put_validations(vprep *p, vc_err *err);
/* .json (array, or an object with `data`), .jsonl or .csv with Finetrainers' columns, or a .txt,
 * .toml or .json of sd-scripts and musubi-tuner (prompt_lines.h); `caption`, `text` and `prompt` all become "prompt", `image` and `input_image`
 * become "image_path". */
int vprep_prompts_read(vprep_prompts *v, const char *path, vc_err *err);
void vprep_prompts_free(vprep_prompts *v);

#endif
