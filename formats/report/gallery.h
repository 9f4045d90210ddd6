/* gallery.h - a run's decoded validation samples as part of its report.html.
 *
 * The gallery has a row for each sample below DIR/validation/step-N/, with its prompt and its
 * pictures or clips (png, jpg, mp4; a clip rather than its frames, without one the first frame) by
 * step, as data: addresses of up to 48 MiB: past that the oldest steps but the first are left out.
 * Below a clip with sound are its wave (003-sound.png) and a button that plays it.
 * In front are the prompt's inputs, pictures named by their roles in DIR/validation/inputs/ beside
 * the latents of the same prompt (003.safetensors: 003-reference_1.png, 003-control.mp4,
 * 003-target.mp4), of 16 MiB at most.
 * It stands between two marks on lines of their own, so that vdecode can replace the gallery in a
 * page that vtrain wrote earlier. */
#ifndef FORMATS_REPORT_GALLERY_H
#define FORMATS_REPORT_GALLERY_H

#include "common/base/buf.h"
#include "formats/report/html.h"

/* Adds the pictures below DIR/validation/ to a page; unreadable ones are left out and counted. */
void vf_gallery(vf_html *h, const char *dir);

/* Adds, for each prompt, the newest picture or clip that each run has of it, beside each other. dir
 * and name are the runs' folders and the names to show, [n] each. */
void vf_gallery_beside(vf_html *h, const char *const *dir, const char *const *name, int n);

/* Where a served page (vf_html_serve) has its pictures: of the run NAME, escaped, as
 * "run/NAME/file/step-300/001.mp4", or in a page of one run "file/step-300/001.mp4". */
#define VF_GALLERY_RUN "run"
#define VF_GALLERY_FILES "file"
/* Adds a name as a part of an address: all but letters, digits and "-._~/" as %XX. */
void vf_gallery_escape(vc_buf *b, const char *name);

/* Replaces the gallery in DIR/report.html, atomically. Does nothing without a page with marks. */
int vf_gallery_update(const char *dir, vc_err *err);

#endif
