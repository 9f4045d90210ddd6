/* listen_none.c - a build without libmicrohttpd has no server. */
#include "formats/report/listen.h"

int vf_serve_http(const vf_listen *l, vc_err *err)
{
    return vc_fail(err, VC_EUSAGE, "--serve %s: this build of vlat has no server: install "
                   "libmicrohttpd-dev (scripts/setup does) and build again", l->address);
}
