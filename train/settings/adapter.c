/* adapter.c - the adapter, and what it goes with: vtrain_take_adapter of settings.h */
#include <stdio.h>
#include <string.h>

#include "common/adapters/adapter.h"
#include "train/lora/patterns.h"
#include "train/settings/settings.h"

void vtrain_take_adapter(vtrain_config *c, vc_flags *set)
{
    if (c->adapter >= VT_ADAPTERS) {
        const vt_adapter_alias *alias = &vt_adapter_aliases[c->adapter - VT_ADAPTERS];
        c->adapter = (int)alias->kind;
        if (vt_adapters[alias->kind].shares && c->rank_dropout > 0 &&
            !vc_flags_given(set, "rank_dropout_scale")) {
            c->rank_dropout_scale = true;
            vc_flags_say(set, "--rank_dropout: %s divides the outputs that stay by 1 - p, so "
                         "--rank_dropout_scale holds here, which divides by their share; "
                         "--no_rank_dropout_scale leaves them as LyCORIS does", alias->name);
        }
    }
    if (c->use_dora && c->use_rslora)
        vc_flags_wrong(set, "--use_dora and --use_rslora: are two adapters here: give --use_dora "
                       "alone, with --network_alpha times the root of the rank");
    const vt_adapter_kind dora = vt_adapter_decomposed(c->adapter);
    const struct { const char *flag; bool there; vt_adapter_kind kind; } words[] = {
        { "use_dora", c->use_dora, dora < VT_ADAPTERS ? dora : VT_ADAPTER_DORA },
        { "use_rslora", c->use_rslora, VT_ADAPTER_RSLORA },
    };
    for (int i = 0; i < 2; i++) {
        if (!words[i].there)
            continue;
        if (vc_flags_given(set, "adapter") && c->adapter != (int)words[i].kind &&
            c->adapter != VT_ADAPTER_LORA && (i || dora == VT_ADAPTERS))
            vc_flags_wrong(set, "--%s: means --adapter %s, but --adapter gives %s", words[i].flag,
                           vt_adapters[words[i].kind].name, vt_adapters[c->adapter].name);
        c->adapter = (int)words[i].kind;
    }
    c->use_dora = c->use_rslora = false;       /* config.yaml has the adapter that they mean */
}

static void check_patterns(const vtrain_config *c, vc_flags *set)
{
    const struct { const char *flag; const vc_list *list; } lists[] = {
        { "rank_pattern", &c->rank_pattern }, { "alpha_pattern", &c->alpha_pattern },
    };
    for (int i = 0; i < 2; i++) {
        vtrain_patterns *p;
        vc_err e;
        vc_flags_catch(set, vtrain_patterns_open(&p, lists[i].flag, lists[i].list->n,
                                                 lists[i].list->item, i == 0, &e),
                       &e);
        vtrain_patterns_close(p);
    }
}

void vtrain_check_adapter(const vtrain_config *c, vc_flags *set)
{
    const vt_adapter *a = &vt_adapters[c->adapter];
    const struct { const char *flag; bool there; unsigned drop; } dropouts[] = {
        { "lora_dropout", c->lora_dropout > 0, VT_DROPS_INPUT },
        { "network_dropout", c->network_dropout > 0, VT_DROPS_NEURON },
        { "rank_dropout", c->rank_dropout > 0, VT_DROPS_RANK },
        { "module_dropout", c->module_dropout > 0, VT_DROPS_MODULE },
    };
    const struct { const char *flag; bool there; } lokr[] = {
        { "lokr_factor", c->lokr_factor != -1 },
        { "lokr_full_matrix", c->lokr_full_matrix },
        { "lokr_decompose_both", c->lokr_decompose_both },
    };
    for (size_t i = 0; i < sizeof dropouts / sizeof *dropouts; i++)
        if (dropouts[i].there && !(a->drops & dropouts[i].drop))
            vc_flags_wrong(set, "--%s: --adapter %s drops nothing of this kind: leave it out, or "
                           "give --adapter lora", dropouts[i].flag, a->name);
    if (c->rank_dropout_scale && !a->shares)
        vc_flags_wrong(set, "--rank_dropout_scale: belongs to --adapter loha and lokr: %s always "
                       "divides the ranks that stay by 1 - p", a->name);
    for (size_t i = 0; i < sizeof lokr / sizeof *lokr; i++)
        if (lokr[i].there && !a->kron)
            vc_flags_wrong(set, "--%s: belongs to --adapter lokr, but this is %s", lokr[i].flag,
                           a->name);
    if (c->lokr_factor == 0)
        vc_flags_wrong(set, "--lokr_factor 0: a number of rows above 0 is expected, or -1 for "
                       "matrices of nearly equal sizes");
    if (c->lokr_full_matrix && c->lokr_decompose_both)
        vc_flags_wrong(set, "--lokr_decompose_both: --lokr_full_matrix says that both matrices are "
                       "whole: give one of them");
    check_patterns(c, set);
}
