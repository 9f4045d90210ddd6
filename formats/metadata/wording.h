/* wording.h - changes of all captions of a list before they are encoded, as other trainers make
 * them: texts in front and behind, wildcards, shuffled and dropped tags, a trigger word.
 *
 * A caption becomes `variants` captions of the row, which training draws from as from any others.
 * In this order, each where it is asked for:
 *   1. prefix and suffix, with a blank between
 *   2. wildcards: "{a|b}" becomes one of its texts by a draw; "{{" and "}}" become braces
 *   3. tags: the text between separators, without blanks around it. The first keep_tokens tags, or
 *      those in front of keep_separator and behind a second one, stay in place; the others are
 *      permuted (shuffle) and each is left out with probability `drop`. Tags are joined by ", ",
 *      and a second separator in them becomes the first. The first variant keeps all tags in order
 *   4. the trigger word: in place of "[trigger]" and "[name]", and in front, with a blank between,
 *      of a caption that does not have it
 * (kohya's sd-scripts, BaseDataset.process_caption, does 1 to 3 at each visit; ai-toolkit's
 * inject_trigger_into_prompt 4.)
 *
 * Draws are those of rng.h: key = seed, id = the row's id, variant = place of the caption in the
 * row * 256 + place of the variant, purpose VC_DRAW_WORDING: for each wildcard one, then the
 * permutation (Fisher-Yates from the top), then one for each tag that may be left out. So a caption
 * keeps its variants when the list changes elsewhere. */
#ifndef FORMATS_METADATA_WORDING_H
#define FORMATS_METADATA_WORDING_H

#include "formats/metadata/metadata.h"

enum { VF_WORDING_VARIANTS = 64, VF_WORDING_USUAL = 10 };

typedef struct vf_wording {
    char *prefix, *suffix, *trigger;   /* NULL or "": none. Borrowed */
    bool wildcards, shuffle;
    double drop;                       /* 0..1 */
    int64_t keep_tokens;
    char *separator;                   /* NULL: "," */
    char *keep_separator, *second_separator;
    int64_t variants;                  /* of each caption, up to 64; 0: 10 where tags are shuffled
                                        * or dropped or wildcards are drawn, else 1 */
    uint64_t seed;
} vf_wording;

/* True if the wording depends on draws. */
bool vf_wording_draws(const vf_wording *w);
/* Words the captions of all rows that are not bad; without any change *m stays as it is. Variants
 * that are all equal are one. VC_EUSAGE: the list has a row of segments, whose captions are not
 * worded. */
int vf_metadata_word(vf_metadata *m, const vf_wording *w, vc_err *err);
/* Fills `preserved` of all rows that are not bad by "TRIGGER=CLASS": their captions with CLASS in
 * place of TRIGGER. Called after all changes of the captions. VC_EUSAGE: the text has no such form,
 * or a caption has no TRIGGER, or the list has a row of segments. */
int vf_metadata_preserve(vf_metadata *m, const char *words, vc_err *err);
/* Replaces "[trigger]" and "[name]" in a text of malloc. VC_ENOMEM. */
int vf_word_trigger(char **text, const char *trigger, vc_err *err);

#endif
