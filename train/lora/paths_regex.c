/* paths_regex.c - see paths_regex.h */
#include "train/lora/paths_regex.h"

#include <stdlib.h>
#include <string.h>

#include "common/os/file.h"

/* Flags that hold for the whole expression, "(?i)", come first in Python; their length. */
static int flags_of(const char *value)
{
    const size_t n = value[0] == '(' && value[1] == '?' ? strspn(value + 2, "aimsx") : 0;
    return n && value[2 + n] == ')' ? (int)n + 3 : 0;
}

int vtrain_regex_open(vc_regex **out, const char *value, bool below, vc_err *err)
{
    const int flags = flags_of(value);
    char *paths = vc_format("%.*s%s(?:%s)", flags, value, below ? "(?:.*\\.)?" : "",
                            value + flags);
    vc_err why = { 0 };

    *out = NULL;
    if (!paths)
        return vc_no_memory(err);
    const int rc = vc_regex_open(out, paths, VC_REGEX_WHOLE, &why);
    free(paths);
    return rc ? vc_fail(err, VC_EUSAGE, "\"%s\" is not a regular expression: %s", value, why.text)
              : 0;
}
