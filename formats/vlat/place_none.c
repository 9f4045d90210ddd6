/* place_none.c - places on HTTP servers in a build without libcurl: there are none. */
#include "formats/vlat/place.h"

int vlat_http_open(vlat_place **out, const char *shown, vc_err *err)
{
    *out = NULL;
    return vc_fail(err, VC_EUSAGE, "%s: this build of vlat has no libcurl: copy the folder by "
                   "other means, or build with -DVLT_CURL=ON", shown);
}
