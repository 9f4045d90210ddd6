/* browse.h - the page of vlat report --browse: browse.html, browse_marks.js,
 * browse_media.js and browse.js as one text, which the build makes (formats/CMakeLists.txt). The
 * page reads scripts in the folder NAME.data beside NAME.html, each of which calls
 * vlt("NAME OF THE SCRIPT", VALUE):
 *   0/index      the facts of the first dataset, 1/index of the second: formats/vlat/browse.c
 *   0/cM/N       file N of its samples, M = N / 1000: {r: [record], t: [JPEG in base64 or null]},
 *                and where samples may have sound a: [its seconds, or 0]
 *   0/aM/N       of these samples the latents of the sounds, where samples may have sound: [null or
 *                {channels, frames, bins, columns, pixels}], see vlat_put_sound
 *   0/sN         {from: position, text: a line for each sample, in which a search looks}
 *   0/keys       {number, frames, width, height, tokens, source, from, to, sound: [of each
 *                position]}: source is a number of the source, from and to are its first and last
 *                frames, sound is in seconds
 *   0/eN         [[row, path, stage, reason]] of skipped inputs
 * Over HTTP it has a sample's source from media/0/000000000042/000 beside it, and what the sample
 * is made from, its roles, from media/0/000000000042/000/reference_1, /control or /image. */
#ifndef FORMATS_REPORT_BROWSE_H
#define FORMATS_REPORT_BROWSE_H

#include <stddef.h>

#include "common/base/buf.h"

/* Adds the page of n datasets, 1 or 2, of these names. What depends on the names alone is in the
 * page itself, so that nothing moves when the scripts have read the datasets. */
void vf_browse_put(vc_buf *page, const char *const *names, int n);

/* The page without names, which the build makes. */
extern const unsigned char vf_browse_page[];
extern const size_t vf_browse_page_size;

#endif
