/* foreign.c - see foreign.h: the flags of vprep and vtrain, as the other program accepts them. */
#include "common/cli/foreign.h"

#include "common/cli/like.h"
#include "common/cli/peers/encoders.h"

#define GROUP(topic, title)
#define WORDS_AFTER(kind) \
    ((kind) == VC_BOOLEAN || (kind) == VC_OPTIONAL ? 0 : (kind) == VC_PAIR ? 2 : \
     (kind) == VC_LIST || (kind) == VC_WORDS ? -1 : 1)
#define FLAG(kind, name_, value, allowed, aliases, help) \
    { .name = #name_ " " aliases, .values = WORDS_AFTER(VC_##kind), .say = SAY },
#define FLAG_IN(field, ...) FLAG(__VA_ARGS__)
#define NEED(...) FLAG(__VA_ARGS__)

#define SAY "used by vprep, not here"
const vc_foreign vc_vprep_flags[] = {
#include "common/cli/vprep_flags.def"
    { 0 }
};

#undef SAY
#define SAY "used by vtrain, not here"
const vc_foreign vc_vtrain_flags[] = {
#include "common/cli/vtrain_flags.def"
    { 0 }
};

const char *const vc_only_transformer = ENCODERS;

const vc_foreign *const vc_peers[] = { vc_program_flags, vc_ignored_flags, vc_refused_flags, NULL };
