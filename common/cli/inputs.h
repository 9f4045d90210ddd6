/* inputs.h - DiffSynth-Studio's --extra_inputs: the inputs of its pipelines, beside prompt and
 * clip, that a command trains with. Words of the flag that name none of them are columns to
 * keep. */
#ifndef COMMON_CLI_INPUTS_H
#define COMMON_CLI_INPUTS_H

#include <stdbool.h>
#include <stddef.h>

#include "common/cli/flags.h"

typedef enum vc_input_kind {
    VC_INPUT_COLUMN,                 /* no input: a column to keep */
    VC_INPUT_FIRST,                  /* input_image: the clip's first frame */
    VC_INPUT_LAST,                   /* end_image: its last frame */
    VC_INPUT_CONTROL,                /* control_video: the row's control clip */
    VC_INPUT_REFERENCES,             /* edit_image, kontext_images: the row's reference pictures */
    VC_INPUT_FILL,                   /* flux_fill_image, flux_fill_mask: a picture and its mask */
    VC_INPUT_VACE,                   /* vace_video, its mask, vace_reference_image */
    VC_INPUT_CONTROL_MASK,           /* the mask of a ControlNet's picture */
    VC_INPUT_SOUND,                  /* input_audio: the clip's sound */
    VC_INPUT_REFUSED                 /* nothing here is trained with it */
} vc_input_kind;

/* Returns the kind of a word of n bytes. *say, which may be NULL, becomes the reason and the remedy
 * of a refused one. */
vc_input_kind vc_input_of(const char *word, size_t n, const char **say);
/* Whether a list of words, divided by commas or blanks, has an input of the kind. NULL: no list. */
bool vc_inputs_have(const char *list, vc_input_kind kind);
/* Adds each refused word of the list to the errors of set. */
void vc_inputs_refuse(vc_flags *set, const char *list);
/* Removes the words of inputs from the list, in place, so that columns remain. Returns list, or
 * NULL where none remain. */
char *vc_inputs_columns(char *list);

#endif
