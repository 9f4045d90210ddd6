/* paths.c - the files that a list's paths name; see parts.h */
#include <stdlib.h>
#include <string.h>

#include "common/os/file.h"
#include "formats/metadata/parts.h"

/* A path with backslashes is one of Windows if no file has it as its name, and a file has it with
 * slashes. */
int metadata_find_file(char **file, const char *dir, const char *path, vc_err *why)
{
    *file = vc_path_join(dir, path);
    if (*file && strchr(path, '\\') && !vc_file_exists(*file)) {
        char *other = strdup(*file), *at = other ? other + (strlen(*file) - strlen(path)) : NULL;
        for (; at && (at = strchr(at, '\\')); at++)
            *at = '/';
        if (other && vc_file_exists(other)) {
            char *swap = *file;
            *file = other;
            other = swap;
        }
        free(other);
    }
    return *file ? 0 : vc_no_memory(why);
}
