/* gallery.h - a run's decoded validation samples as part of its report.html.
 *
 * The gallery has a row for each sample below DIR/validation/step-N/, with its prompt and its
 * pictures or clips (png, jpg, mp4; a clip rather than its frames, without one the first frame) by
 * step, as data: addresses of up to 48 MiB: past that the oldest steps but the first are left out.
 * It stands between two marks on lines of their own, so that vdecode can replace the gallery in a
 * page that vtrain wrote earlier. */
#ifndef FORMATS_REPORT_GALLERY_H
#define FORMATS_REPORT_GALLERY_H

#include "formats/report/html.h"

/* Adds the pictures below DIR/validation/ to a page; unreadable ones are left out and counted. */
void vf_gallery(vf_html *h, const char *dir);

/* Adds, for each prompt, the newest picture or clip that each run has of it, beside each other. dir
 * and name are the runs' folders and the names to show, [n] each. */
void vf_gallery_beside(vf_html *h, const char *const *dir, const char *const *name, int n);

/* Replaces the gallery in DIR/report.html, atomically. Does nothing without a page with marks. */
int vf_gallery_update(const char *dir, vc_err *err);

#endif
