/* settings.h - settings of a run, as vtrain writes them to config.yaml: one flag a line. */
#ifndef FORMATS_REPORT_SETTINGS_H
#define FORMATS_REPORT_SETTINGS_H

#include <stddef.h>

#include "common/base/err.h"

/* Reads dir/config.yaml into malloc'ed text; NULL without an error if there is no such file. */
int vf_settings_read(char **text, const char *dir, vc_err *err);
/* The same of another file of such lines. */
int vf_settings_of(char **text, const char *dir, const char *name, vc_err *err);
/* Returns the value in the line "NAME: value" of text and its length in *len; "" with length 0 if
 * text is NULL or has no such line. The name has n bytes. */
const char *vf_setting(const char *text, const char *name, size_t n, size_t *len);

/* The folder that the relative paths of a dataset's samples start from, as far as vprep's settings
 * in the dataset say; malloc'ed, or NULL. */
char *vf_media_folder(const char *dataset);

#endif
