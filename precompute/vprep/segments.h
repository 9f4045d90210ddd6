/* segments.h - texts of samples of several segments, each with a caption of its own.
 *
 * The text of such a sample is the rows of all segments, one segment after the other, each padded
 * with zeros to the rows that the encoder makes at most. The key of this text is a hash of the
 * segments' keys, which are those of their captions alone. */
#ifndef PRECOMPUTE_VPREP_SEGMENTS_H
#define PRECOMPUTE_VPREP_SEGMENTS_H

#include "formats/keys/keymap.h"
#include "precompute/run/vprep.h"

enum { VPREP_SEGMENT_FPS = 16, VPREP_SEGMENT_FRAMES = 48 };    /* three seconds */

/* Sets *row to the texts of a validation prompt, or to its negative texts: those of its segments,
 * else the one text, else none. The texts belong to o; the caller frees row->captions. */
int prep_prompt_row(vf_row *row, const cJSON *o, bool negative, vc_err *err);

/* VC_EINVAL: the row has segments, and an encoder makes texts that cannot be joined. */
int vprep_check_segments(const vprep *p, const vf_row *row, vc_err *err);

/* Places of segments in the texts of the writer's dataset. An all-zero one is empty. */
typedef struct prep_segments {
    vf_keymap at;                    /* key of a segment -> place in text << 8 | its number there */
    vf_key *text;
    size_t n, room;
} prep_segments;
void prep_segments_free(prep_segments *s);
/* Notes that the writer's dataset has the row's text. */
int prep_segments_note(prep_segments *s, const vprep *p, int encoder, const vf_row *row,
                       vc_err *err);

/* Makes caption k of a row; the areas of *r are the encoder's until its next call. */
typedef struct prep_segment_maker {
    int (*make)(void *arg, const vf_row *row, int k, text_result *r, vc_err *err);
    void *arg;
} prep_segment_maker;
/* Puts the joined text of a row into the dataset; the text of one segment alone is that of its
 * caption if the encoder's texts are padded. Segments that a text of s has are copied, the
 * others are made. */
int prep_segments_put(prep_segments *s, vprep *p, int encoder, const vf_row *row,
                      const prep_segment_maker *maker, vc_err *err);

#endif
