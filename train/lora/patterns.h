/* patterns.h - numbers for modules by regular expressions over their paths: --rank_pattern and
 * --alpha_pattern, as PEFT's fields of these names. */
#ifndef TRAIN_LORA_PATTERNS_H
#define TRAIN_LORA_PATTERNS_H

#include <stdbool.h>

#include "common/base/err.h"

typedef struct vtrain_patterns vtrain_patterns;
/* Reads n texts "PATTERN=NUMBER": numbers above 0, whole ones up to 4096 if `rank`. VC_EUSAGE names
 * the flag and the text. *out is NULL on failure. */
int vtrain_patterns_open(vtrain_patterns **out, const char *flag, int n, char *const *text,
                         bool rank, vc_err *err);
void vtrain_patterns_close(vtrain_patterns *p);                /* NULL is fine */
/* Sets *number to that of the first pattern that matches the module's path, or its end after a dot;
 * false: none does. p may be NULL. */
bool vtrain_patterns_find(vtrain_patterns *p, const char *module, double *number);
/* VC_EUSAGE: a pattern was never found by vtrain_patterns_find, or takes too long to match. */
int vtrain_patterns_check(const vtrain_patterns *p, const char *flag, vc_err *err);

#endif
