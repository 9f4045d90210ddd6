/* config_env.h - reads SimpleTuner's config.env into the document that libyaml makes of the same
 * settings in YAML, under the names of SimpleTuner's flags; each key has its line.
 *
 *     export MODEL_TYPE='lora'                   # a comment
 *     RESOLUTION=1024
 *     MINIMUM_RESOLUTION=$RESOLUTION             of an earlier line, else of the environment
 *     export TRAINER_EXTRA_ARGS="--lora_rank=16 --disable_benchmark"
 *     TRAINER_EXTRA_ARGS+=" --max_grad_norm 1"
 *
 * Lines are assignments as a shell reads them, and nothing is run: other lines, `...` and $(...)
 * are refused. As in SimpleTuner, "false" leaves a flag out, and the flags of TRAINER_EXTRA_ARGS
 * come last. A name that is no setting has the key "env.NAME". */
#ifndef COMMON_CLI_CONFIG_ENV_H
#define COMMON_CLI_CONFIG_ENV_H

#include <stdbool.h>
#include <stddef.h>
#include <yaml.h>

#include "common/base/err.h"

/* Whether the file's name ends in ".env". */
bool vc_env_is(const char *path);
/* On success the caller deletes *doc. VC_EUSAGE: a line cannot be read, with its number and the
 * remedy; VC_ENOMEM. text is no string, and need not end in a zero. */
int vc_env_document(yaml_document_t *doc, const char *text, size_t size, vc_err *err);

#endif
