/* wan.h - the names and the config.json that Wan's first authors gave their models. */
#ifndef TRAIN_MODELS_WAN_H
#define TRAIN_MODELS_WAN_H

#include "train/models/dit.h"

#define WAN_CLASS "WanTransformer3DModel"

extern const vtrain_rename wan_names[];
/* vtrain_family.convert */
int wan_convert(cJSON **config, const cJSON *theirs, const vt_source *src, vc_err *err);

#endif
