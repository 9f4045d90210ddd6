/* hub.h - flags whose values are names of models on a hub. common/os/hub.h finds the models. */
#ifndef COMMON_CLI_HUB_H
#define COMMON_CLI_HUB_H

#include "common/cli/flags.h"

/* Replaces the values of --model, --transformer, --vae and the other flags of models, where they
 * are names on a hub and no paths, by the folders of these models on this machine. A note says
 * which folder it is, and what it lacks after a download that has not ended. Names that are not
 * found stay. options: the program's. */
int vc_hub_take(vc_flags *set, const vc_program *prog, void *options, vc_err *err);
/* Fails with VC_EUSAGE: --flag names no file or folder. Where `path` reads like a model of a hub,
 * the message has the commands that download the model, with the parts that are needed. */
int vc_hub_missing(const char *flag, const char *path, vc_err *err);

#endif
