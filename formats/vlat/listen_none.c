/* listen_none.c - a build without libmicrohttpd has no server. */
#include "formats/vlat/listen.h"

int vlat_serve_http(const vlat_listen *l, vc_err *err)
{
    return vc_fail(err, VC_EUSAGE, "--serve %s: this build of vlat has no server: install "
                   "libmicrohttpd-dev (scripts/setup does) and build again", l->address);
}
