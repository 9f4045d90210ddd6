/* folders.c - where the components of a model are: see components.h */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/cli/hub.h"
#include "common/os/file.h"
#include "formats/tensors/component.h"
#include "formats/tensors/origins.h"
#include "precompute/run/components.h"

bool prep_is_file(const char *path)
{
    struct stat st;
    return !stat(path, &st) && S_ISREG(st.st_mode);
}

int prep_component_dir(char **out, const char *model, const char *given, const char *slot,
                       const char *flag, vc_err *err)
{
    const char *base = given ? given : model;
    char *origin = NULL;
    int rc = given ? vf_origin_path(&origin, given, err) : 0;

    *out = NULL;
    if (rc)
        return vc_context(err, rc, "--%s", flag);
    if (origin) {
        rc = prep_component_dir(out, model, origin, slot, flag, err);
        free(origin);
        return rc;
    }
    if (!base)
        return vc_fail(err, VC_EUSAGE, "no %s: give --%s DIR, or --model with all components", slot,
                       flag);
    if (given && prep_is_file(given)) {
        *out = strdup(given);
        return *out ? 0 : vc_no_memory(err);
    }
    char *below;
    rc = vf_component_find(&below, base, slot, err);
    if (rc)
        return rc;
    if (!below && !vc_file_exists(base))
        return vc_hub_missing(given ? flag : "model", base, err);
    if (!below && !given)
        return vc_fail(err, VC_EUSAGE, "--%s is missing: %s/%s is no folder", flag, base, slot);
    /* a folder with a config.json is the component itself, whatever its subfolders are called */
    if (below && !(given && vc_file_exists_in(given, "config.json"))) {
        *out = below;
        return 0;
    }
    free(below);
    *out = strdup(given);
    return *out ? 0 : vc_no_memory(err);
}

int prep_component_class(char *name, size_t size, const char *dir, const char *slot, vc_err *err)
{
    cJSON *o;
    const char *class;
    int rc = vf_component_config(&o, dir, slot, NULL, err);

    if (!rc)
        rc = vc_context(err, vf_json_str(o, "_class_name", &class, err), "%s/config.json", dir);
    if (!rc)
        snprintf(name, size, "%s", class);
    cJSON_Delete(o);
    return rc;
}

/* Cuts a path's last part and the slashes before it; false: nothing would be left. */
static bool cut_part(char *path)
{
    size_t n = strlen(path);
    while (n && path[n - 1] == '/')
        n--;
    while (n && path[n - 1] != '/')
        n--;
    while (n > 1 && path[n - 1] == '/')
        n--;
    path[n] = 0;
    return n > 0;
}

int prep_component_home(char **out, const char *model, const char *part, const char *slot,
                        vc_err *err)
{
    char *home = strdup(model ? model : part ? part : ""), *below = NULL;

    *out = NULL;
    if (!home)
        return vc_no_memory(err);
    bool found = model || (part && (!prep_is_file(part) || cut_part(home)) && cut_part(home));
    if (found && !model) {
        below = vc_path_join(home, slot);
        found = below && vc_file_exists(below);
    }
    free(below);
    if (found)
        *out = home;
    else
        free(home);
    return 0;
}
