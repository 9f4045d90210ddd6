/* gallery.h - a run's decoded validation samples put into its report.html. */
#ifndef VPREP_GALLERY_H
#define VPREP_GALLERY_H

#include "common/err.h"

/* Replaces what stands between the lines "<!-- validation -->" and "<!-- /validation -->" of
 * RUN/report.html by the pictures below RUN/validation/step-N/, newest step first, each with the prompt
 * its latents file names. No report, or one without these lines: nothing is done. */
int gallery_update(const char *run, vc_err *err);

#endif
