/* place_open.c - the choice among the kinds of places; see place.h */
#include "formats/vlat/place.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/base/secrets.h"

int vlat_place_open(vlat_place **out, const char *where, const vlat_limits *limits, vc_err *err)
{
    static const char *const web[] = { "http://", "https://" };
    const char *colon = strchr(where, ':');
    bool http = !strncasecmp(where, web[0], 7) || !strncasecmp(where, web[1], 8);
    bool remote = colon && colon > where && strcspn(where, "/") > (size_t)(colon - where);
    char *shown = vc_without_secrets(where, true);
    int rc = shown ? 0 : vc_no_memory(err);
    *out = NULL;
    if (!rc && !http && strstr(where, "://"))
        rc = vc_fail(err, VC_EUSAGE, "%s: give an address that begins with http:// or https://, "
                     "a path USER@HOST:FOLDER for ssh, or a folder", shown);
    else if (!rc && !http && vc_has_password(where))
        rc = vc_fail(err, VC_EUSAGE, "%s: ssh takes no password from an address: give "
                     "USER@HOST:FOLDER, and a key (ssh-copy-id); if this is HOST:FOLDER, write "
                     "HOST:./FOLDER", shown);
    if (!rc)
        rc = http ? vlat_http_open(out, shown, err)
                  : remote ? vlat_ssh_open(out, where, err) : vlat_folder_open(out, where, err);
    if (rc) {
        free(shown);
        return rc;
    }
    (*out)->where = where;
    (*out)->shown = shown;
    (*out)->limits = limits;
    return 0;
}
