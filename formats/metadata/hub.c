/* hub.c - finds the lists of a folder that is a dataset of Hugging Face's `datasets`; see
 * metadata.h. Either it was downloaded, with Parquet or Arrow files as datasets' own rules name
 * them, or save_to_disk wrote it, with state.json or dataset_dict.json. */
#include "formats/metadata/parts.h"

#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "common/base/buf.h"
#include "common/os/file.h"
#include "formats/columnar/columnar.h"
#include "formats/json/json.h"

enum { MAX_LEVELS = 4, MAX_STATE = 64 << 20, SPLIT = 64 };

/* The lists of a folder, by their paths below it, in bytewise order. */
typedef struct lists {
    char **path;
    int n;
    vc_err unread;                     /* code not 0: why a folder below could not be read */
} lists;

static void free_lists(lists *t)
{
    for (int i = 0; i < t->n; i++)
        free(t->path[i]);
    free(t->path);
    *t = (lists){ 0 };
}

/* ---- save_to_disk ---- */

static int add_saved(lists *t, const char *below, const cJSON *state, vc_err *err)
{
    const cJSON *files, *f, *indices;
    int rc = vf_json_arr(state, "_data_files", &files, err);

    indices = cJSON_GetObjectItemCaseSensitive(state, "_indices_data_files");
    if (!rc && cJSON_GetArraySize(indices))
        rc = vc_fail(err, VC_EFORMAT, "its rows are chosen by a file of indices: save it again "
                     "after flatten_indices()");
    for (f = rc ? NULL : files->child; f && !rc; f = f->next) {
        const char *name;
        rc = vf_json_str(f, "filename", &name, err);
        if (!rc && (strchr(name, '/') || *name == '.'))
            rc = vc_fail(err, VC_EFORMAT, "filename: %.80s is no name of a file here", name);
        char *path = rc ? NULL : vc_path_join(below, name);
        if (!rc)
            rc = path ? metadata_append(&t->path, &t->n, path, strlen(path), err)
                      : vc_no_memory(err);
        free(path);
    }
    return rc;
}

static int find_state(lists *t, const char *folder, const char *below, vc_err *err)
{
    char *path = *below ? vc_path_join(folder, below) : strdup(folder);
    cJSON *state = NULL;
    int rc = path ? vf_json_read_in_opt(&state, path, "state.json", MAX_STATE, err)
                  : vc_no_memory(err);

    if (!rc && state)
        rc = vc_context(err, add_saved(t, below, state, err), "%s/state.json", path);
    cJSON_Delete(state);
    free(path);
    return rc;
}

/* Joins the names of a JSON list's strings. NULL: out of memory. */
static char *join(const cJSON *names, const char *except)
{
    vc_buf b = { 0 };

    for (const cJSON *s = names->child; s; s = s->next)
        if (cJSON_IsString(s) && (!except || strcmp(s->valuestring, except)))
            vc_buf_printf(&b, "%s%.60s", b.n ? ", " : "", s->valuestring);
    return vc_buf_take(&b);
}

static int take_split(lists *t, char **said, const char *folder, const cJSON *splits, vc_err *err)
{
    const cJSON *s, *chosen = cJSON_GetArraySize(splits) == 1 ? splits->child : NULL;

    cJSON_ArrayForEach(s, splits)
        if (cJSON_IsString(s) && !strcmp(s->valuestring, "train"))
            chosen = s;
    const char *name = cJSON_IsString(chosen) ? chosen->valuestring : ".";
    if (!strchr(name, '/') && *name != '.') {
        char *others = join(splits, name);
        *said = others && *others ? vc_format("train; not read: %s", others) : strdup("");
        free(others);
        return *said ? find_state(t, folder, name, err) : vc_no_memory(err);
    }
    char *all = join(splits, NULL);
    int rc = vc_fail(err, VC_EFORMAT, "%s: which split is meant? It has %.300s: give the folder of "
                     "one", folder, all ? all : "several");
    free(all);
    return rc;
}

static int find_saved(lists *t, char **said, const char *folder, vc_err *err)
{
    cJSON *o = NULL;
    const cJSON *splits;
    int rc = vf_json_read_in_opt(&o, folder, "dataset_dict.json", MAX_STATE, err);

    if (!rc && !o)
        return find_state(t, folder, "", err);
    if (!rc)
        rc = vc_context(err, vf_json_arr(o, "splits", &splits, err), "%s/dataset_dict.json",
                        folder);
    if (!rc)
        rc = take_split(t, said, folder, splits, err);
    cJSON_Delete(o);
    return rc;
}

/* ---- files by their names ---- */

static int by_bytes(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Adds the files below a folder, but for the caches that `datasets` keeps of computed columns. */
static int walk(lists *t, const char *root, const char *below, int level, vc_err *err)
{
    char *full = vc_path_join(root, below);
    DIR *d = full && level <= MAX_LEVELS ? opendir(full) : NULL;
    int rc = full ? 0 : vc_no_memory(err), unread = 0;     /* t->unread has the reason */

    if (full && !d && level <= MAX_LEVELS)
        vc_fail_errno(&t->unread, "%s", full);
    for (struct dirent *e; d && !rc && (e = vc_dir_next(d, full, &unread, &t->unread));) {
        struct stat st;
        char *path = *e->d_name == '.' ? NULL : vc_path_join(below, e->d_name);
        char *file = path ? vc_path_join(root, path) : NULL;
        if (*e->d_name != '.' && !file)
            rc = vc_no_memory(err);
        else if (file && !lstat(file, &st) && S_ISDIR(st.st_mode))
            rc = walk(t, root, path, level + 1, err);
        else if (file && vf_columnar_named(path) && strncmp(e->d_name, "cache-", 6))
            rc = metadata_append(&t->path, &t->n, path, strlen(path), err);
        free(file);
        free(path);
    }
    if (d)
        closedir(d);
    free(full);
    return rc;
}

/* The words by which the names of files and folders show a split, and the split. */
static const struct {
    const char *word, *split;
} words[] = {
    { "train", "train" }, { "training", "train" }, { "test", "test" }, { "testing", "test" },
    { "eval", "test" }, { "evaluation", "test" }, { "validation", "validation" },
    { "valid", "validation" }, { "val", "validation" }, { "dev", "validation" },
};

static const char *split_of_words(const char *s, size_t n)
{
    for (size_t i = 0, k; i < n; i += k ? k : 1) {
        for (k = 0; i + k < n && isalpha((unsigned char)s[i + k]); k++)
            ;
        for (size_t w = 0; k && w < sizeof words / sizeof *words; w++)
            if (strlen(words[w].word) == k && !strncasecmp(words[w].word, s + i, k))
                return words[w].split;
    }
    return NULL;
}

/* Returns the length of NAME in a file's name NAME-00000-of-00012.*, or 0; *of is the 12. */
static size_t sharded(const char *base, int *of)
{
    for (const char *p = strchr(base, '-'); p; p = strchr(p + 1, '-')) {
        int part, end = 0;
        if (p > base && isdigit((unsigned char)p[1]) && sscanf(p, "-%9d-of-%9d%n", &part, of, &end)
            == 2 && (p[end] == '.' || p[end] == '-'))
            return (size_t)(p - base);
    }
    return 0;
}

/* Writes the split of a file: a word in its name, else the NAME of its shards, else a word in its
 * folders, else "". */
static void split_of(char split[SPLIT], const char *path)
{
    const char *base = vc_path_base(path), *found;
    int of;
    size_t name = sharded(base, &of), end = strcspn(base, ".");

    found = split_of_words(base, name ? name : end);
    if (!found && !name)
        found = split_of_words(path, (size_t)(base - path));
    if (found || !name)
        snprintf(split, SPLIT, "%s", found ? found : "");
    else
        snprintf(split, SPLIT, "%.*s", (int)name, base);
}

/* Adds each split once. */
static int find_splits(lists *splits, const lists *t, vc_err *err)
{
    char split[SPLIT];
    int rc = 0;

    for (int i = 0; i < t->n && !rc; i++) {
        int k = 0;
        split_of(split, t->path[i]);
        while (k < splits->n && strcmp(splits->path[k], split))
            k++;
        if (k == splits->n)
            rc = metadata_append(&splits->path, &splits->n, split, strlen(split), err);
    }
    return rc;
}

/* Joins the splits but `except`. NULL: out of memory. */
static char *name_splits(const lists *splits, const char *except)
{
    vc_buf b = { 0 };

    for (int i = 0; i < splits->n; i++)
        if (!except || strcmp(splits->path[i], except))
            vc_buf_printf(&b, "%s%s", b.n ? ", " : "", *splits->path[i] ? splits->path[i]
                                                                       : "files without one");
    return vc_buf_take(&b);
}

static const char *choose(const lists *splits)
{
    for (int i = 0; i < splits->n; i++)
        if (splits->n == 1 || !strcmp(splits->path[i], "train"))
            return splits->path[i];
    return NULL;
}

/* Keeps the files of one split, which must lie in one folder. */
static int keep_split(lists *t, const char *folder, const char *split, vc_err *err)
{
    char own[SPLIT];
    int n = 0;

    for (int i = 0; i < t->n; i++) {
        split_of(own, t->path[i]);
        if (strcmp(own, split))
            free(t->path[i]);
        else
            t->path[n++] = t->path[i];
    }
    t->n = n;
    for (int i = 1; i < n; i++) {
        int a = (int)(vc_path_base(t->path[0]) - t->path[0]);
        int b = (int)(vc_path_base(t->path[i]) - t->path[i]);
        if (a != b || strncmp(t->path[0], t->path[i], (size_t)a))
            return vc_fail(err, VC_EFORMAT, "%s: lists lie in several folders, as %.100s and "
                           "%.100s: give one of the folders", folder, t->path[0], t->path[i]);
    }
    return 0;
}

/* Says which files are not read: those of other splits, and shards that are missing here. */
static int say(char **said, const lists *t, const char *split, const char *others, vc_err *err)
{
    vc_buf b = { 0 };
    int of = 0;

    bool shards = t->n && sharded(vc_path_base(t->path[0]), &of) && of > t->n;
    if (shards || *others)
        vc_buf_printf(&b, "%s", *split ? split : "files without a split");
    if (shards)
        vc_buf_printf(&b, ", of which %d of %d files are here", t->n, of);
    if (*others)
        vc_buf_printf(&b, "; not read: %s", others);
    *said = vc_buf_take(&b);
    return *said ? 0 : vc_no_memory(err);
}

static int find_named(lists *t, char **said, const char *folder, vc_err *err)
{
    lists splits = { 0 };
    int rc = walk(t, folder, "", 0, err);

    if (t->n)
        qsort(t->path, (size_t)t->n, sizeof *t->path, by_bytes);
    if (!rc)
        rc = find_splits(&splits, t, err);
    if (!rc && t->n && t->unread.code) {         /* lists may be missing */
        *err = t->unread;
        rc = err->code;
    }
    const char *split = rc ? NULL : choose(&splits);
    char *others = rc ? NULL : name_splits(&splits, split);
    if (!rc && !others)
        rc = vc_no_memory(err);
    if (!rc && t->n && !split)
        rc = vc_fail(err, VC_EFORMAT, "%s: which split is meant? There are %.300s: give its files, "
                     "as in '%s/NAME-*.parquet'", folder, others, folder);
    else if (!rc && t->n)
        rc = keep_split(t, folder, split, err);
    if (!rc && t->n)
        rc = say(said, t, split, others, err);
    free(others);
    free_lists(&splits);
    return rc;
}

/* ---- both ---- */

/* Replaces each path by the whole one. */
static int join_folder(lists *t, const char *folder, vc_err *err)
{
    for (int i = 0; i < t->n; i++) {
        char *path = vc_path_join(folder, t->path[i]);
        if (!path)
            return vc_no_memory(err);
        free(t->path[i]);
        t->path[i] = path;
    }
    return 0;
}

int metadata_find_hub(metadata_list *l, const char *folder, bool *found, vc_err *err)
{
    lists t = { 0 };
    char *said = NULL;
    int rc = find_saved(&t, &said, folder, err);

    if (!rc && !t.n && !said)
        rc = find_named(&t, &said, folder, err);
    *found = rc || t.n;
    if (!rc && t.n)
        rc = join_folder(&t, folder, err);
    if (!rc && t.n) {
        metadata_begin_list(l);
        l->list.lists = said && *said ? said : NULL;
        if (l->list.lists)
            said = NULL;
        rc = metadata_read_columnar(l, t.path, t.n, folder, err);
    }
    free(said);
    free_lists(&t);
    return rc;
}
