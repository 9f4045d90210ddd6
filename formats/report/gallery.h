/* gallery.h - a run's decoded validation samples as part of its report.html.
 *
 * Pictures and clips (png, jpg, mp4 below DIR/validation/step-N/), newest step first, go in as data:
 * addresses with the prompts their latents files name, up to 48 MiB, between two marks on lines of their own, so
 * that they can be replaced without making the page anew: vtrain writes the page, vdecode decodes later. */
#ifndef FORMATS_REPORT_GALLERY_H
#define FORMATS_REPORT_GALLERY_H

#include "formats/report/html.h"

/* Adds what is below DIR/validation/ to a page; what cannot be read is left out and counted. */
void vf_gallery(vf_html *h, const char *dir);

/* Replaces the gallery in DIR/report.html, atomically. No page, or one without marks: nothing is done. */
int vf_gallery_update(const char *dir, vc_err *err);

#endif
