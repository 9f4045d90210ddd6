/* hub.c - see hub.h */
#include "common/cli/hub.h"

#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#include "common/os/file.h"
#include "common/os/hub.h"

static const char *const flags[] = {
    "model", "transformer", "transformer_high", "scheduler", "vae", "text_encoder",
    "text_encoder_2", "text_encoder_3", "tokenizer", "tokenizer_2", "tokenizer_3", "image_encoder",
    "image_processor", "connectors", "unconditional_transformer", "lora_checkpoint",
    "preset_lora_path",
};

/* Of diffusers' folders: model_index.json and the files in subfolders, but no file beside them,
 * where some repositories have the weights in other forms too. One pattern, since programs that
 * download differ in how they take several. */
#define PARTS "*[_/]*"

/* What is known of models: the files that are needed, NULL for all, and their size in 10^9 bytes,
 * computed from the number of weights and their types, not from a download; 0: not known. The
 * first row that matches counts. */
static const struct { const char *pattern, *include; int size; } models[] = {
    { "Wan-AI/Wan2.1-T2V-1.3B-Diffusers", PARTS, 29 },
    { "Wan-AI/Wan2.1-T2V-14B-Diffusers", PARTS, 80 },
    { "Wan-AI/*-Diffusers", PARTS, 0 },
    { "Wan-AI/*", NULL, 0 },
    { "alibaba-pai/*", NULL, 0 },
    { "*/CogVideoX-2b", PARTS, 13 },
    { "*/CogVideoX-5b*", PARTS, 21 },
    { "black-forest-labs/FLUX.1-*", PARTS, 34 },
    { "Qwen/Qwen-Image", PARTS, 58 },
    { "*", PARTS, 0 },
};

int vc_hub_missing(const char *flag, const char *path, vc_err *err)
{
    vc_hub_name n;
    if (!vc_hub_name_read(&n, path) || (n.below_len && !n.address))
        return vc_fail(err, VC_EUSAGE, "--%s %s: no such file or folder (nothing is downloaded: "
                       "give a folder on this machine)", flag, path);
    char *id = vc_format("%.*s", n.id_len, n.id), *cache = vc_hub_cache();
    char *rev = n.rev ? vc_format(" --revision %.*s", n.rev_len, n.rev) : strdup("");
    size_t i = 0;
    while (id && fnmatch(models[i].pattern, id, 0))
        i++;
    const char *include = strcmp(flag, "model") ? NULL : models[i].include;
    char *parts = include ? vc_format(" --include \"%s\"", include) : strdup("");
    char *size = include && models[i].size ? vc_format(", about %d GB", models[i].size)
                                           : strdup("");
    int rc = id && cache && rev && parts && size ? VC_EUSAGE : vc_no_memory(err);
    if (rc == VC_EUSAGE && n.rev)
        vc_fail(err, rc, "--%s %s: no such file or folder, nor is this revision in %s, and nothing "
                "is downloaded: run `hf download %s%s%s`%s, then this command again", flag, path,
                cache, id, rev, parts, size);
    else if (rc == VC_EUSAGE)
        vc_fail(err, rc, "--%s %s: no such file or folder, nor is the model in %s, ModelScope's "
                "cache, ./models or ./%s, and nothing is downloaded: run `hf download %s%s` or "
                "`modelscope download --model %s%s`%s%s, then this command again", flag, path,
                cache, strchr(id, '/') + 1, id, parts, id, parts,
                include ? " (model_index.json and the folders of its parts)" : "", size);
    free(id);
    free(cache);
    free(rev);
    free(parts);
    free(size);
    return rc;
}

/* The place of a name, malloc'ed, of which the user is told; NULL: the value is no name of a model
 * that is here. */
static char *find(vc_flags *set, const char *flag, const char *value)
{
    vc_hub_name n;
    if (vc_file_exists(value) || !vc_hub_name_read(&n, value))
        return NULL;
    char *path = vc_hub_find(&n);
    if (!path)
        return NULL;
    char *lacks = n.below_len ? NULL : vc_hub_lacks(path);
    if (lacks)
        vc_flags_say(set, "--%s %s: found in %s, half downloaded: %s %s missing (`hf download "
                     "%.*s` gets the rest)", flag, value, path, lacks,
                     strstr(lacks, ", ") ? "are" : "is", n.id_len, n.id);
    else
        vc_flags_say(set, "--%s %s: found in %s", flag, value, path);
    free(lacks);
    return path;
}

static int take(vc_flags *set, const char *flag, const char *value, vc_err *err)
{
    char *path = find(set, flag, value);
    int rc = path ? vc_flags_replace(set, flag, path, err) : 0;
    free(path);
    return rc;
}

/* The list is filled again, since a flag's list grows. */
static int take_list(vc_flags *set, const char *flag, vc_list *list, vc_err *err)
{
    const vc_list had = *list;
    char **path = calloc((size_t)had.n + 1, sizeof *path);
    bool any = false;
    int rc = path ? 0 : vc_no_memory(err);
    for (int i = 0; !rc && i < had.n; i++) {
        path[i] = find(set, flag, had.item[i]);
        any = any || path[i];
    }
    if (any)
        *list = (vc_list){ 0 };
    for (int i = 0; any && i < had.n; i++) {
        if (!rc)
            rc = vc_flags_replace(set, flag, path[i] ? path[i] : had.item[i], err);
        free(path[i]);
    }
    free(path);
    return rc;
}

int vc_hub_take(vc_flags *set, const vc_program *prog, void *options, vc_err *err)
{
    int rc = 0;
    for (const vc_flag *f = prog->flags; !rc && f->name; f++)
        for (size_t i = 0; !rc && i < sizeof flags / sizeof *flags; i++) {
            void *value = (char *)options + f->offset;
            if (strcmp(f->name, flags[i]) != 0)
                continue;
            if (f->kind == VC_LIST)
                rc = take_list(set, f->name, value, err);
            else if (*(char **)value)
                rc = take(set, f->name, *(char **)value, err);
        }
    return rc;
}
