/* settings.c - see settings.h */
#include "formats/report/settings.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/os/file.h"

enum { MAX_SETTINGS = 1 << 20 };             /* bytes of config.yaml */

int vf_settings_read(char **text, const char *dir, vc_err *err)
{
    return vf_settings_of(text, dir, "config.yaml", err);
}

int vf_settings_of(char **text, const char *dir, const char *name, vc_err *err)
{
    size_t size;
    *text = NULL;
    char *path = vc_path_join(dir, name);
    if (!path)
        return vc_no_memory(err);
    int rc = vc_file_exists(path) ? vc_file_read(text, &size, path, MAX_SETTINGS, err) : 0;
    free(path);
    return rc;
}

const char *vf_setting(const char *text, const char *name, size_t n, size_t *len)
{
    *len = 0;
    for (const char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (!strncmp(line, name, n) && line[n] == ':') {
            const char *value = line + n + 1 + strspn(line + n + 1, " ");
            *len = strcspn(value, "\n");
            return value;
        }
    }
    return "";
}

char *vf_media_folder(const char *dataset)
{
    char *text = NULL, *found = NULL;
    if (vf_settings_of(&text, dataset, "vprep.yaml", NULL))
        return NULL;
    size_t n, m;
    const char *data = vf_setting(text, "data", 4, &n), *meta = vf_setting(text, "meta", 4, &m);
    char *path = n ? strndup(data, n) : m ? strndup(meta, m) : NULL;
    char *whole = path ? realpath(path, NULL) : NULL;
    struct stat st;
    if (whole && !stat(whole, &st) && S_ISDIR(st.st_mode))
        found = strdup(whole);
    else if (whole)
        found = strndup(whole, (size_t)(vc_path_base(whole) - whole));
    free(whole);
    free(path);
    free(text);
    return found;
}
