/* pull_none.c - vlat pull in a build without libcurl. */
#include "formats/vlat/vlat.h"

int vlat_pull(const vlat *v, vc_err *err)
{
    return vc_fail(err, VC_EUSAGE, "%s: this build of vlat has no libcurl: copy the folder by "
                   "other means, or build with -DVLT_CURL=ON", v->path);
}
