/* paths_regex.h - Python's regular expressions over module paths, as PEFT uses them, by POSIX
 * extended ones. Without look-around, back references and flags. */
#ifndef TRAIN_MODELS_PATHS_REGEX_H
#define TRAIN_MODELS_PATHS_REGEX_H

#include <regex.h>
#include <stdbool.h>

#include "common/base/err.h"

/* Matches (regexec) paths that `value` matches as a whole (re.fullmatch); below: also those whose
 * end after a dot it does (the keys of alpha_pattern). To be given to regfree if 0 is returned.
 * VC_EUSAGE: too long, no expression, or with parts that are not understood. */
int vtrain_regex_open(regex_t *out, const char *value, bool below, vc_err *err);

#endif
