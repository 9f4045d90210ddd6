/* hub.h - paths of models that are not there, which often are names of a hub. */
#ifndef COMMON_CLI_HUB_H
#define COMMON_CLI_HUB_H

#include "common/base/err.h"

/* Fails with VC_EUSAGE: --flag names no file or folder. Where `path` reads like a model of a hub
 * (OWNER/NAME, or its address), the message has the command that downloads the model. */
int vc_hub_missing(const char *flag, const char *path, vc_err *err);

#endif
