/* hub.c - see hub.h */
#include "common/cli/hub.h"

#include <stdbool.h>
#include <string.h>

#define LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"

/* Addresses of hubs, up to the name of a model, and the programs that download from them. */
static const struct { const char *begin, *program, *to; } hubs[] = {
    { "https://huggingface.co/", "hf download", "--local-dir" },
    { "https://hf.co/", "hf download", "--local-dir" },
    { "huggingface.co/", "hf download", "--local-dir" },
    { "hf://", "hf download", "--local-dir" },
    { "https://modelscope.cn/models/", "modelscope download --model", "--local_dir" },
    { "https://www.modelscope.cn/models/", "modelscope download --model", "--local_dir" },
    { "", "hf download", "--local-dir" },
};

/* Finds OWNER/NAME at the begin of s; behind an address more may follow. */
static bool find_name(const char *s, bool address, int *owner, int *name)
{
    const size_t first = strspn(s, LETTERS "-_.");
    const char *rest = s + first + (s[first] == '/');
    const size_t second = strspn(rest, LETTERS "-_.");
    *owner = (int)first;
    *name = (int)second;
    return first && s[first] == '/' && second && strchr(LETTERS, *s) && strchr(LETTERS, *rest) &&
           (!rest[second] || (rest[second] == '/' && (address || !rest[second + 1])));
}

int vc_hub_missing(const char *flag, const char *path, vc_err *err)
{
    int owner, name;
    size_t i = 0;
    while (strncmp(path, hubs[i].begin, strlen(hubs[i].begin)))
        i++;
    const char *id = path + strlen(hubs[i].begin);
    if (!find_name(id, *hubs[i].begin, &owner, &name))
        return vc_fail(err, VC_EUSAGE, "--%s %s: no such file or folder (nothing is downloaded: "
                       "give a folder on this machine)", flag, path);
    const char *of = id + owner + 1;
    return vc_fail(err, VC_EUSAGE, "--%s %s: no such file or folder, and nothing is downloaded: run "
                   "`%s %.*s %s %.*s`, then give --%s %.*s", flag, path, hubs[i].program,
                   owner + 1 + name, id, hubs[i].to, name, of, flag, name, of);
}
