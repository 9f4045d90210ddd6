/* pull.c - vlat pull and vlat push: a dataset comes from, or goes to, another place. */
#include "formats/vlat/transfer.h"

int vlat_pull(const vlat *v, vc_err *err)
{
    if (!v->o->out)
        return vc_fail(err, VC_EUSAGE, "vlat pull needs --out, the folder of the dataset");
    if (v->o->where || v->o->shards)
        return vlat_pull_part(v, err);
    return vlat_transfer(v, v->path, v->o->out, err);
}

int vlat_push(const vlat *v, vc_err *err)
{
    return vlat_transfer(v, v->path, v->words->item[1], err);
}
