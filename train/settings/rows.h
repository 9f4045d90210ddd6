/* rows.h - what the rows of common/cli/vtrain_flags.def are in a table of vtrain's flags. */
#ifndef TRAIN_SETTINGS_ROWS_H
#define TRAIN_SETTINGS_ROWS_H

#include "common/cli/flags.h"
#include "train/config.h"

#define GROUP(topic, title) { .kind = VC_GROUP, .name = title, .aliases = topic },
#define FLAG(...) ROW(false, __VA_ARGS__)
#define NEED(...) ROW(true, __VA_ARGS__)
#define ROW(required_, kind_, name_, value_, allowed_, aliases_, help_) \
    { .name = #name_, .kind = VC_##kind_, .offset = offsetof(vtrain_config, name_), \
      .value = value_, .allowed = allowed_, .aliases = aliases_, .help = help_, \
      .required = required_ },

#endif
