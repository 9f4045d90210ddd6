/* fuzz_peers.c - any bytes are vtrain's file of settings, its own or one of another trainer's: the
 * first byte chooses TOML, YAML, SimpleTuner's config.env or JSON. */
#include "common/base/near.h"
#include "common/cli/foreign.h"
#include "common/cli/kinds.h"
#include "common/cli/like.h"
#include "tests/fuzz/fuzz_settings.h"
#include "train/settings/rows.h"

/* vtrain's flags, as in train/settings/options.c; the choices that are names of tables are few. */
#define OPTIMIZERS "adamw|prodigy"
#define ADAPTERS "lora|dora"
#define SCHEDULES "constant|cosine"
#define OPTIMIZERS_HELP "optimisers"
#define ADAPTERS_HELP "adapters"

static vc_flag flags[] = {
#include "common/cli/vtrain_flags.def"
    { 0 }
};
static const vc_program program = {
    .name = "vtrain", .synopsis = "vtrain", .about = "Fuzzed.", .flags = flags,
    .partner = vc_vprep_flags, .foreign = vc_peers, .renamed = vc_renamed_flags,
};

/* The doubles of near.c, whose search through all names exceeds all other work: the first name of a
 * letter that the mistyped one begins with is near. fuzz_config.c runs the search itself. */
vc_near vc_near_begin(const char *name, size_t len)
{
    return (vc_near){ .name = name, .len = len, .cost = 100 };
}

void vc_near_try(vc_near *g, const char *known, size_t len, const char *shown, size_t shown_len,
                 bool by_words)
{
    (void)by_words;
    if (g->best || !len || !g->len || *known != *g->name)
        return;
    g->cost = 1;
    g->best = shown;
    g->best_len = shown_len;
}

const char *vc_near_choice(const char *choices, const char *text, size_t *len)
{
    *len = strcspn(choices, "|, ");
    return *choices == *text ? choices : NULL;
}

/* To read the defaults of all flags takes most of an input's time. */
static void drop_defaults(void)
{
    for (vc_flag *f = flags; f->name; f++)
        f->value = NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const names[] = { "c.toml", "c.yaml", "c.env", "c.json" };
    vtrain_config o;
    drop_defaults();
    fuzz_settings(&program, &o, names, 4, data, size);
    return 0;
}
