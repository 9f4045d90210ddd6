/* paths_regex.h - compiles Python's regular expressions over module paths, as PEFT uses them. */
#ifndef TRAIN_LORA_PATHS_REGEX_H
#define TRAIN_LORA_PATHS_REGEX_H

#include "common/base/regex.h"

/* *out matches the paths that `value` matches as a whole (re.fullmatch) and, if `below`, the paths
 * whose end after a dot `value` matches (the keys of alpha_pattern). VC_EUSAGE: value is too long
 * or no expression. The caller closes *out, which is NULL on failure. */
int vtrain_regex_open(vc_regex **out, const char *value, bool below, vc_err *err);

#endif
