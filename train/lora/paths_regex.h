/* paths_regex.h - compiles Python's regular expressions over module paths, as PEFT uses them, as
 * POSIX extended expressions. Look-around, back references and flags are not supported. */
#ifndef TRAIN_LORA_PATHS_REGEX_H
#define TRAIN_LORA_PATHS_REGEX_H

#include <regex.h>
#include <stdbool.h>

#include "common/base/err.h"

/* regexec with *out matches the paths that `value` matches as a whole (re.fullmatch) and, if
 * `below`, the paths whose end after a dot `value` matches (the keys of alpha_pattern). After a
 * return of 0 the caller frees *out with regfree. VC_EUSAGE: value is too long, is not an
 * expression, or has a part that is not supported. */
int vtrain_regex_open(regex_t *out, const char *value, bool below, vc_err *err);

#endif
