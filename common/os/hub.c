/* hub.c - see hub.h */
#include "common/os/hub.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/base/buf.h"
#include "common/os/file.h"

#define LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"

enum { MOST_INDEX = 64 << 20,        /* bytes of an index of shards */
       SHORTEST_COMMIT = 7,          /* letters by which a commit may be named */
       MOST_LACKS = 3,               /* names in vc_hub_lacks */
       DEEPEST = 4 };                /* folders below a model */

/* ---- names ---- */

static const char *const addresses[] = {
    "https://huggingface.co/", "https://hf.co/", "huggingface.co/", "hf://",
    "https://modelscope.cn/models/", "https://www.modelscope.cn/models/",
};

/* The words of an address between the model and its revision. */
static const char *const views[] = { "/tree/", "/blob/", "/resolve/", "/files" };

static void read_address(vc_hub_name *n, const char *rest)
{
    for (size_t i = 0; i < sizeof views / sizeof *views; i++) {
        const size_t len = strlen(views[i]);
        if (strncmp(rest, views[i], len))
            continue;
        n->rev = rest + len;
        n->rev_len = (int)strcspn(n->rev, "/?#");
        rest = n->rev + n->rev_len;
    }
    if (n->rev && (!n->rev_len || (n->rev_len == 4 && !memcmp(n->rev, "main", 4))))
        n->rev = NULL;
    n->below = rest + strspn(rest, "/");
    n->below_len = (int)strcspn(n->below, "?#");
}

bool vc_hub_name_read(vc_hub_name *n, const char *text)
{
    *n = (vc_hub_name){ .id = text, .below = "" };
    for (size_t i = 0; !n->address && i < sizeof addresses / sizeof *addresses; i++)
        if (!strncmp(text, addresses[i], strlen(addresses[i]))) {
            n->id += strlen(addresses[i]);
            n->address = true;
        }
    const size_t owner = strspn(n->id, LETTERS "-_.");
    n->owner_end = n->id + owner;
    if (!owner || *n->owner_end != '/' || !strchr(LETTERS, *n->id))
        return false;
    const char *name = n->owner_end + 1;
    const size_t len = strspn(name, LETTERS "-_."), end = strcspn(name, "/@");
    if (!len || !strchr(LETTERS, *name) || (len != end && !n->address) || !*name)
        return false;
    const char *rest = name + len;
    n->id_len = (int)(rest - n->id);
    if (*rest == '@') {                          /* a revision may have a '/' in it: refs/pr/1 */
        n->rev = rest + 1;
        n->rev_len = (int)strlen(n->rev);
    } else if (n->address) {
        read_address(n, rest);
    } else {
        n->below = rest + strspn(rest, "/");
        n->below_len = (int)strlen(n->below);
    }
    while (n->below_len && n->below[n->below_len - 1] == '/')
        n->below_len--;
    return true;
}

/* ---- folders ---- */

static const char *variable(const char *name)
{
    const char *s = getenv(name);
    return s && *s ? s : NULL;
}

static char *below_home(const char *path)
{
    const char *cache = variable("XDG_CACHE_HOME"), *home = variable("HOME");
    return cache ? vc_format("%s/%s", cache, path)
                 : vc_format("%s/.cache/%s", home ? home : "", path);
}

char *vc_hub_cache(void)
{
    const char *cache = variable("HF_HUB_CACHE"), *home = variable("HF_HOME");
    if (!cache)
        cache = variable("HUGGINGFACE_HUB_CACHE");
    return cache ? strdup(cache) : home ? vc_format("%s/hub", home)
                                        : below_home("huggingface/hub");
}

/* Returns dir if it is a folder; else frees it and returns NULL. */
static char *folder(char *dir)
{
    struct stat st;
    if (dir && !stat(dir, &st) && S_ISDIR(st.st_mode))
        return dir;
    free(dir);
    return NULL;
}

/* Returns the only entry of the folder whose name begins so, malloc'ed; NULL: none, or several. */
static char *only(const char *dir, const char *begin, size_t len)
{
    DIR *d = opendir(dir);
    char *found = NULL;
    int n = 0;
    for (struct dirent *e; d && (e = readdir(d));)
        if (*e->d_name != '.' && !strncmp(e->d_name, begin, len) && !n++)
            found = vc_format("%s/%s", dir, e->d_name);
    if (d)
        closedir(d);
    if (n == 1)
        return found;
    free(found);
    return NULL;
}

/* The snapshot that a ref names. */
static char *by_ref(const char *repo, const char *ref, int len)
{
    char *path = vc_format("%s/refs/%.*s", repo, len, ref), *commit = NULL, *dir = NULL;
    size_t size;
    if (path && !vc_file_read(&commit, &size, path, 4096, NULL))
        dir = vc_format("%s/snapshots/%.*s", repo, (int)strcspn(commit, " \r\n"), commit);
    free(commit);
    free(path);
    return folder(dir);
}

/* The model in a cache of folders models--OWNER--NAME. */
static char *in_snapshots(const vc_hub_name *n, const char *cache, const char *branch)
{
    const int owner = (int)(n->owner_end - n->id);
    char *repo = folder(vc_format("%s/models--%.*s--%.*s", cache, owner, n->id,
                                  n->id_len - owner - 1, n->owner_end + 1));
    char *all = repo ? vc_format("%s/snapshots", repo) : NULL;
    char *dir = !all ? NULL
              : n->rev ? by_ref(repo, n->rev, n->rev_len)
              : by_ref(repo, branch, (int)strlen(branch));
    const size_t len = n->rev ? (size_t)n->rev_len : 0;
    if (all && !dir && len >= SHORTEST_COMMIT && !memchr(n->rev, '/', len))
        dir = only(all, n->rev, len);
    if (all && !dir && !n->rev)
        dir = only(all, "", 0);
    free(all);
    free(repo);
    return dir;
}

/* A folder that has the files of a model. */
static char *model(char *dir)
{
    static const char *const files[] = { "model_index.json", "config.json", "configuration.json",
                                         "transformer" };
    dir = folder(dir);
    for (size_t i = 0; dir && i < sizeof files / sizeof *files; i++)
        if (vc_file_exists_in(dir, files[i]))
            return dir;
    free(dir);
    return NULL;
}

/* OWNER/NAME below a folder, where ModelScope may write ___ for each dot. */
static char *in_folder(const vc_hub_name *n, const char *base)
{
    char *dir = model(vc_format("%s/%.*s", base, n->id_len, n->id));
    if (dir)
        return dir;
    vc_buf name = { 0 };
    for (int i = 0; i < n->id_len; i++)
        vc_buf_add(&name, n->id[i] == '.' ? "___" : n->id + i, n->id[i] == '.' ? 3 : 1);
    char *id = vc_buf_take(&name);
    dir = id ? model(vc_format("%s/%s", base, id)) : NULL;
    free(id);
    return dir;
}

static char *of_modelscope(const vc_hub_name *n)
{
    const char *own = variable("MODELSCOPE_CACHE");
    char *base = own ? strdup(own) : below_home("modelscope"), *dir = NULL;
    static const char *const below[] = { "/hub/models", "/hub", "/models", "" };
    for (size_t i = 0; base && !dir && i < sizeof below / sizeof *below; i++) {
        char *path = vc_format("%s%s", base, below[i]);
        dir = path ? in_folder(n, path) : NULL;
        if (path && !dir)
            dir = in_snapshots(n, path, "master");
        free(path);
    }
    free(base);
    return dir;
}

char *vc_hub_find(const vc_hub_name *n)
{
    char *cache = vc_hub_cache(), *dir = cache ? in_snapshots(n, cache, "main") : NULL;
    free(cache);
    const char *base = variable("DIFFSYNTH_MODEL_BASE_PATH");
    if (!dir && !n->rev)
        dir = of_modelscope(n);
    if (!dir && !n->rev)
        dir = in_folder(n, base ? base : "models");
    if (!dir && !n->rev)
        dir = model(vc_format("%.*s", n->id_len - (int)(n->owner_end + 1 - n->id),
                              n->owner_end + 1));
    if (!dir || !n->below_len)
        return dir;
    char *path = vc_format("%s/%.*s", dir, n->below_len, n->below);
    free(dir);
    if (path && vc_file_exists(path))
        return path;
    free(path);
    return NULL;
}

/* ---- what a folder lacks ---- */

typedef struct lacks {
    vc_buf text;
    int n;
} lacks;

static void add(lacks *l, const char *below, const char *name, size_t len)
{
    if (l->n++ >= MOST_LACKS)
        return;
    char *text = vc_format("%s%s%.*s", l->n > 1 ? ", " : "", below, (int)len, name);
    if (text)
        vc_buf_add(&l->text, text, strlen(text));
    free(text);
}

/* Components that model_index.json names, "vae": ["diffusers", "AutoencoderKL"], but not with
 * null. */
static void look_for_parts(lacks *l, const char *dir, const char *index)
{
    static const char *const slots[] = { "transformer", "transformer_2", "vae", "text_encoder",
                                         "text_encoder_2", "tokenizer", "tokenizer_2",
                                         "image_encoder" };
    for (size_t i = 0; i < sizeof slots / sizeof *slots; i++) {
        char *key = vc_format("\"%s\"", slots[i]);
        const char *s = key ? strstr(index, key) : NULL;
        s = s ? s + strlen(key) : "";
        s += strspn(s, " \t\r\n:");
        s += *s == '[';
        s += strspn(s, " \t\r\n");
        if (*s == '"' && !vc_file_exists_in(dir, slots[i]))
            add(l, "", slots[i], strlen(slots[i]));
        free(key);
    }
}

/* Shards that an index names: "weight": "model-00001-of-00002.safetensors". */
static void look_for_shards(lacks *l, const char *dir, const char *below, const char *index)
{
    static const char end[] = ".safetensors\"";
    const char *last = "";
    size_t last_len = 0;
    for (const char *s = index; (s = strstr(s, end)); s += sizeof end - 1) {
        const char *name = s, *stop = s + sizeof end - 2;
        while (name > index && name[-1] != '"')
            name--;
        const size_t len = (size_t)(stop - name);
        if (len == last_len && !memcmp(last, name, len))
            continue;
        last = name;
        last_len = len;
        char *path = vc_format("%s/%s%.*s", dir, below, (int)len, name), *known = NULL;
        char *shown = vc_format("%s%.*s", below, (int)len, name);
        if (shown && l->text.data)
            known = memmem(l->text.data, l->text.n, shown, strlen(shown));
        if (path && !known && !vc_file_exists(path))
            add(l, below, name, len);
        free(shown);
        free(path);
    }
}

static void look_below(lacks *l, const char *dir, const char *below, int depth);

static void look_at(lacks *l, const char *dir, const char *below, const char *name, int depth)
{
    char *path = vc_format("%s/%s%s", dir, below, name), *text = NULL;
    const size_t len = strlen(name), json = strlen(".index.json");
    size_t size;
    struct stat st;
    if (path && stat(path, &st)) {
        add(l, below, name, len);                /* a link to a file that is not there */
    } else if (path && S_ISDIR(st.st_mode) && depth < DEEPEST) {
        char *deeper = vc_format("%s%s/", below, name);
        if (deeper)
            look_below(l, dir, deeper, depth + 1);
        free(deeper);
    } else if (path && len > json && !strcmp(name + len - json, ".index.json") &&
               !vc_file_read(&text, &size, path, MOST_INDEX, NULL)) {
        look_for_shards(l, dir, below, text);
    }
    free(text);
    free(path);
}

static void look_below(lacks *l, const char *dir, const char *below, int depth)
{
    char *path = vc_format("%s/%s", dir, below);
    DIR *d = path ? opendir(path) : NULL;
    for (struct dirent *e; d && (e = readdir(d));)
        if (*e->d_name != '.')
            look_at(l, dir, below, e->d_name, depth);
    if (d)
        closedir(d);
    free(path);
}

char *vc_hub_lacks(const char *dir)
{
    lacks l = { 0 };
    char *index = NULL, *path = vc_format("%s/model_index.json", dir);
    size_t size;
    if (path && !vc_file_read(&index, &size, path, MOST_INDEX, NULL))
        look_for_parts(&l, dir, index);
    look_below(&l, dir, "", 0);
    free(index);
    free(path);
    if (!l.n)
        return NULL;
    if (l.n > MOST_LACKS) {
        char *more = vc_format(" and %d more", l.n - MOST_LACKS);
        if (more)
            vc_buf_add(&l.text, more, strlen(more));
        free(more);
    }
    return vc_buf_take(&l.text);
}
