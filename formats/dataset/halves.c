/* halves.c - the shards that a writer has open: their names and their files. See writer.h */
#include "formats/dataset/writer.h"

#include <stdio.h>
#include <string.h>

#include "common/os/progress.h"

/* ---- names ---- */

bool vf_open_name_parse(const char *name, bool *text)
{
    unsigned rank;
    int end = 0;
    *text = !strncmp(name, "text-", 5);
    return sscanf(name + (*text ? 5 : 6 * !strncmp(name, "shard-", 6)), "open-%5u.lmdb%n", &rank,
                  &end) == 1 && end && !strcmp(name + strlen(name) - 5, ".lmdb");
}

char *vf_writer_half_name(const vf_writer *w, const vf_half *h, char buf[VF_OPEN_NAME])
{
    bool text = h == &w->text;
    if (h->number != VF_NO_NUMBER)
        return vf_shard_name(buf, text, h->number);
    snprintf(buf, VF_OPEN_NAME, "%s-open-%05d.lmdb", text ? "text" : "shard", w->rank);
    return buf;
}

bool vf_is_shard(const char *name)
{
    bool text;
    unsigned number;
    return vf_shard_name_parse(name, &text, &number) || vf_open_name_parse(name, &text);
}

bool vf_is_temporary(const char *name)
{
    char target[VF_OPEN_NAME];
    const char *end = strstr(name, ".tmp-");
    const size_t n = end ? (size_t)(end - name) : sizeof target;
    if (n >= sizeof target)
        return false;
    memcpy(target, name, n);
    target[n] = 0;
    return !strcmp(target, VF_MANIFEST) || vf_is_shard(target);
}

bool vf_is_writers(const char *name)
{
    static const char *const other[] = { VF_MANIFEST, VF_MANIFEST_LOCK, VF_STATE };
    for (size_t i = 0; i < sizeof other / sizeof *other; i++)
        if (!strcmp(other[i], name))
            return true;
    return vf_is_shard(name) || vf_is_temporary(name);
}

/* ---- files ---- */

int vf_writer_env(vf_writer *w, vf_half *h, vc_err *err)
{
    char file[VF_OPEN_NAME];
    bool text = h == &w->text;
    if (h->env)
        return 0;
    if (h->number == VF_MAX_SHARD + 1)
        return vf_writer_too_many(w, err);
    if (!text)
        w->shard_since = vc_seconds();
    int rc = vf_env_open(&h->env, w->dir, vf_writer_half_name(w, h, file),
                         text ? vf_text_dbs : vf_shard_dbs, err);
    if (!rc && w->copies)
        vf_env_lazy(h->env);
    return rc;
}

int vf_writer_too_many(const vf_writer *w, vc_err *err)
{
    return vc_fail(err, VC_EFULL, "more than %d shards: give a larger --shard_size%s",
                   VF_MAX_SHARD + 1, w->shard_seconds > 0 ? " and --shard_seconds" : "");
}
