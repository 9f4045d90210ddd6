/* paths_regex.h - Python's regular expressions over module paths, as PEFT uses them, compiled as
 * POSIX extended ones. Look-around, back references and flags are not supported. */
#ifndef TRAIN_MODELS_PATHS_REGEX_H
#define TRAIN_MODELS_PATHS_REGEX_H

#include <regex.h>
#include <stdbool.h>

#include "common/base/err.h"

/* *out matches (regexec) the paths that `value` matches as a whole (re.fullmatch) and, if `below`,
 * the paths whose end after a dot `value` matches (the keys of alpha_pattern). The caller gives
 * *out to regfree if 0 is returned. VC_EUSAGE: value is too long, is no expression, or has a part
 * that is not supported. */
int vtrain_regex_open(regex_t *out, const char *value, bool below, vc_err *err);

#endif
