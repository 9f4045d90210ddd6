/* times.c - the flags of how often a run saves, evaluates and makes samples: see settings.h */
#include <string.h>

#include "train/settings/settings.h"

void vtrain_check_times(vtrain_config *c, vc_flags *set)
{
    const struct { const char *flag, *theirs; bool asked; } flags_of[] = {
        { "eval_steps", "eval_every_n_steps", vc_flags_given(set, "eval_steps") && c->eval_steps },
        { "eval_epochs", "eval_every_n_epochs", c->eval_epochs },
        { "eval_at_first", "eval_before_first_step", c->eval_at_first },
        { "keep_best", "keep_best", c->keep_best },
    };
    if (c->eval_split > 0)
        return;
    for (size_t i = 0; i < sizeof flags_of / sizeof *flags_of; i++) {
        const char *flag = flags_of[i].flag, *theirs = flags_of[i].theirs;
        if (flags_of[i].asked && strcmp(flag, theirs) && vc_flags_typed(set, theirs))
            vc_flags_say(set, "--%s: has no effect here: no sample is held out; --eval_split holds "
                         "some", theirs);
        else if (flags_of[i].asked)
            vc_flags_wrong(set, "--%s: no sample is held out: give --eval_split too", flag);
    }
    c->eval_epochs = 0;
    c->eval_at_first = false;
}

void vtrain_resolve_times(vtrain_config *c, vc_flags *set)
{
    enum { STEPS = 500 };
    if (!c->checkpointing_steps && !c->checkpointing_epochs)
        c->checkpointing_steps = STEPS;
    if (c->eval_split == 0)
        c->eval_steps = 0;
    else if (!vc_flags_given(set, "eval_steps") && !c->eval_epochs) {
        c->eval_steps = c->checkpointing_steps;
        c->eval_epochs = c->checkpointing_epochs;
    }
}
