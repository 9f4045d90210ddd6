/* serve.c - vlat report --serve: the pages of training runs, made anew from what the runs have
 * written, and their pictures.
 *
 *     /                               the page of the one run, or of all runs
 *     /run/NAME/                      the page of one of several
 *     /file/step-N/FILE               a picture of the one run; /file/inputs/FILE too
 *     /run/NAME/file/step-N/FILE      a picture of one of several
 *
 * or of a dataset the page of --browse, /NAME.html, the scripts in /NAME.data/, the source of a
 * sample, /media/0/NUMBER/VARIANT, if it is a clip that browsers play, and what the sample is made
 * from, /media/0/NUMBER/VARIANT/ROLE, if it is such a clip or a picture that browsers show.
 *
 * A path leads to a file only through the name of a run that was found, the number of a step and a
 * picture's name without a slash. */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/os/file.h"
#include "formats/report/gallery.h"
#include "formats/report/listen.h"
#include "formats/report/runs.h"
#include "formats/report/settings.h"
#include "formats/report/shots.h"
#include "formats/vlat/vlat.h"

enum { LATELY = 600 };                       /* seconds */

typedef struct server {
    const vlat *v;
    vf_runs runs;
    bool one;                                /* the word is a run, not a folder that holds some */
} server;

/* ---- what has changed ---- */

typedef struct state {
    vf_hasher hash;
    time_t changed;                          /* the newest of the files */
} state;

static void add_file(state *s, const char *dir, const char *name)
{
    char *path = vc_path_join(dir, name);
    struct stat st;
    if (path && !stat(path, &st)) {
        vf_hasher_int(&s->hash, "size", st.st_size);
        vf_hasher_int(&s->hash, "s", st.st_mtim.tv_sec);
        vf_hasher_int(&s->hash, "ns", st.st_mtim.tv_nsec);
        s->changed = st.st_mtim.tv_sec > s->changed ? st.st_mtim.tv_sec : s->changed;
    }
    free(path);
}

static void add_run(state *s, const vf_run *run)
{
    char *validation = vc_path_join(run->dir, "validation");
    char **step = NULL;
    int n = 0;
    vf_hasher_str(&s->hash, "dir", run->dir);
    add_file(s, run->dir, "metrics.jsonl");
    add_file(s, run->dir, "config.yaml");
    if (validation && !vf_shots_steps(&step, &n, run->dir, NULL))
        for (int i = 0; i < n; i++)
            add_file(s, validation, step[i]);
    if (validation)
        add_file(s, validation, VF_SHOTS_INPUTS);
    vf_shots_steps_free(step, n);
    free(validation);
}

/* Sets the answer's tag to a hash of the state of the files that the page is made of. */
static void set_tag(vf_answer *a, const server *s, const vf_run *run)
{
    state all = { 0 };
    vf_hasher_begin(&all.hash, "page");
    for (int i = 0; i < s->runs.n; i++)
        if (!run || run == &s->runs.run[i])
            add_run(&all, &s->runs.run[i]);
    vf_key_hex(a->tag, vf_hasher_end(&all.hash));
    a->changed = all.changed;
}

/* ---- pages ---- */

static void put_links(vf_html *h, const vf_runs *r)
{
    const char *words[VF_RUNS];
    char *addresses[VF_RUNS];
    int n = 0;
    for (int i = 0; i < r->n; i++) {
        vc_buf b = { 0 };
        vc_buf_str(&b, VF_GALLERY_RUN "/");
        vf_gallery_escape(&b, r->run[i].name);
        vc_buf_str(&b, "/");
        words[n] = r->run[i].name;
        if ((addresses[n] = vc_buf_take(&b)))
            n++;
    }
    vf_html_links(h, words, (const char *const *)addresses, n);
    for (int i = 0; i < n; i++)
        free(addresses[i]);
}

/* live: the run has written something lately. */
static int put_page(vf_html *h, const server *s, const vf_run *run, bool live, vc_err *err)
{
    if (run && !s->one)
        vf_html_links(h, (const char *const[]){ "All runs" }, (const char *const[]){ "../../" }, 1);
    if (run)
        return vf_runs_put_one(h, run, live, err);
    put_links(h, &s->runs);
    if (s->runs.n)
        return vf_runs_put(h, &s->runs, err);
    vf_html_text(h, "There is no run here yet.");
    return 0;
}

static int make_page(const server *s, const vf_run *run, vf_answer *a, vc_err *err)
{
    vf_html *h;
    int rc = vf_html_open(&h, run ? run->name : "Training runs", err);
    if (rc)
        return rc;
    vf_html_serve(h, a->tag);
    rc = put_page(h, s, run, time(NULL) - a->changed < LATELY, err);
    if (!rc)
        rc = vf_html_text_of(h, &a->body, &a->n, err);
    vf_html_close(h);
    return rc;
}

static void answer_page(server *s, const vf_run *run, bool head, vf_answer *a)
{
    vc_err err = { 0 };
    set_tag(a, s, run);
    a->status = 200;
    a->mime = "text/html; charset=utf-8";
    if (head)
        return;
    int rc = vf_runs_read(&s->runs, false, &err);
    if (!rc)
        rc = make_page(s, run, a, &err);
    if (rc) {
        a->status = 500;
        a->mime = NULL;
        *a->tag = 0;
        a->body = vc_format("%s\n", err.text);
        a->n = a->body ? strlen(a->body) : 0;
    }
}

/* ---- pictures ---- */

/* path: "step-N/FILE" */
static void answer_picture(const vf_run *run, const char *path, vf_answer *a)
{
    const char *slash = strchr(path, '/');
    char *dir = slash ? vc_format("%s/validation/%.*s", run->dir, (int)(slash - path), path) : NULL;
    struct stat st;
    a->fd = dir ? vf_shots_open(dir, slash + 1, &a->mime, NULL) : -1;
    free(dir);
    if (a->fd < 0 || fstat(a->fd, &st)) {
        a->mime = NULL;
        return;
    }
    a->status = 200;
    a->changed = st.st_mtim.tv_sec;
    snprintf(a->tag, sizeof a->tag, "%jx-%jx-%jx", (intmax_t)st.st_size,
             (intmax_t)st.st_mtim.tv_sec, (intmax_t)st.st_mtim.tv_nsec);
}

/* ---- paths ---- */

/* Returns what follows the prefix, or NULL. */
static const char *after(const char *path, const char *prefix)
{
    size_t n = strlen(prefix);
    return strncmp(path, prefix, n) ? NULL : path + n;
}

/* Finds the run whose name the path begins with, and the rest of the path. */
static const vf_run *find_run(const server *s, const char *path, const char **rest)
{
    const vf_run *found = NULL;
    for (int i = 0; i < s->runs.n; i++) {
        const vf_run *run = &s->runs.run[i];
        const char *r = after(path, run->name);
        if (r && *r == '/' && (!found || strlen(run->name) > strlen(found->name))) {
            found = run;
            *rest = r + 1;
        }
    }
    return found;
}

static void handle(void *arg, const vf_request *q, vf_answer *a)
{
    server *s = arg;
    const char *rest = after(q->path, "/" VF_GALLERY_RUN "/"), *picture;
    vc_err err;
    if (vf_runs_find(&s->runs, s->v->words->item, s->v->words->n, &err))
        return;
    const vf_run *run = rest && !s->one ? find_run(s, rest, &rest) : NULL;
    if (s->one && s->runs.n) {
        run = &s->runs.run[0];
        rest = q->path + 1;
    }
    if (!strcmp(q->path, "/"))
        answer_page(s, run, q->head, a);
    else if (run && !*rest)
        answer_page(s, run, q->head, a);
    else if (run && (picture = after(rest, VF_GALLERY_FILES "/")))
        answer_picture(run, picture, a);
}

/* arg: a vlat */
static void say_ready(void *arg, const char *url, bool local)
{
    const vlat *v = arg;
    fprintf(v->out, "%s\n", url);
    fflush(v->out);
    if (!local)
        vc_warn(v->progress, "any machine that reaches this one may read these pages and their "
                "clips");
}

int vlat_serve(const vlat *v, vc_err *err)
{
    if (vc_file_exists_in(v->path, "manifest.json"))
        return vc_fail(err, VC_EUSAGE, "%s is a dataset: give --browse NAME.html too, and --serve "
                       "gives this page to browsers", v->path);
    server *s = calloc(1, sizeof *s);
    if (!s)
        return vc_no_memory(err);
    s->v = v;
    s->one = v->words->n == 1 && vlat_is_run(v->path);
    const vf_listen l = { .address = v->o->serve, .handle = handle, .arg = s,
                          .ready = say_ready, .ready_arg = (void *)v };
    int rc = vf_serve_http(&l, err);
    vf_runs_free(&s->runs);
    free(s);
    return rc;
}

/* ---- the page of a dataset ---- */

enum { SETS = 2, KEY = sizeof "000000000042/000" };

typedef struct browse {
    const char *page, *data;
    vf_dataset *set[SETS];
    char *media[SETS];                       /* where relative paths start, or NULL */
} browse;

/* flags: of open, beside those for reading */
static void answer_file(const char *path, int flags, const char *mime, vf_answer *a)
{
    struct stat st;
    a->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | flags);
    if (a->fd < 0 || fstat(a->fd, &st) || !S_ISREG(st.st_mode))
        return;
    a->status = 200;
    a->mime = mime;
    a->changed = st.st_mtim.tv_sec;
    snprintf(a->tag, sizeof a->tag, "%jx-%jx-%jx", (intmax_t)st.st_size,
             (intmax_t)st.st_mtim.tv_sec, (intmax_t)st.st_mtim.tv_nsec);
}

/* Whether name is that of a script: parts of letters and digits, ".js" at the end. */
static bool is_script(const char *name)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789";
    for (size_t n; (n = strspn(name, letters)) > 0; name += n + 1)
        if (name[n] != '/')
            return !strcmp(name + n, ".js");
    return false;
}

/* The path of the source of a sample, or of what it has in a role, malloc'ed, or NULL. */
static char *source_of(const browse *b, int set, const char *key, const char *role)
{
    uint32_t i;
    cJSON *record = NULL;
    if (!b->set[set] || vf_dataset_find(b->set[set], key, &i, NULL) ||
        vf_dataset_sample(b->set[set], i, &record, NULL))
        return NULL;
    const char *path = *role ? vlat_input(record, role) : vlat_str(record, "path");
    char *whole = *path == '/' ? vc_format("%s", path)
                  : *path && b->media[set] ? vc_path_join(b->media[set], path) : NULL;
    cJSON_Delete(record);
    return whole;
}

/* What browsers play and show, by `magic`, the n bytes of a file from `at`. */
static const struct { const char *mime, *magic; size_t at, n; bool still; } kinds[] = {
    { "image/avif", "ftypavif", 4, 8, true }, { "image/heic", "ftypheic", 4, 8, true },
    { "image/png", "\x89PNG\r\n\x1a\n", 0, 8, true }, { "image/jpeg", "\xff\xd8\xff", 0, 3, true },
    { "image/gif", "GIF8", 0, 4, true }, { "image/webp", "WEBP", 8, 4, true },
    { "video/mp4", "ftyp", 4, 4, false }, { "video/webm", "\x1a\x45\xdf\xa3", 0, 4, false },
};

/* The type of a file that is of one of the kinds; NULL for all else. */
static const char *type_of(int fd, bool stills)
{
    char head[12];
    if (pread(fd, head, sizeof head, 0) != (ssize_t)sizeof head)
        return NULL;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (!memcmp(head + kinds[i].at, kinds[i].magic, kinds[i].n))
            return kinds[i].still && !stills ? NULL : kinds[i].mime;
    return NULL;
}

/* rest: "0/000000000042/000" or "0/000000000042/000/ROLE" */
static void answer_media(const browse *b, const char *rest, vf_answer *a)
{
    char key[KEY] = "";
    const int set = *rest - '0';
    const char *role = "";
    char *path = NULL;
    if (set >= 0 && set < SETS && rest[1] == '/') {
        snprintf(key, sizeof key, "%s", rest + 2);
        role = rest + 2 + strlen(key);
    }
    if (!*role || (*role == '/' && role[1]))
        path = *key ? source_of(b, set, key, *role ? role + 1 : role) : NULL;
    if (path)
        answer_file(path, 0, NULL, a);         /* hubs keep files behind links */
    free(path);
    a->mime = a->status ? type_of(a->fd, *role) : NULL;
    a->status = a->mime ? a->status : 0;
}

static void handle_browse(void *arg, const vf_request *q, vf_answer *a)
{
    const browse *b = arg;
    const char *name = q->path + 1, *rest = after(name, vc_path_base(b->data));
    if (!*name) {
        vc_buf to = { 0 };
        vf_gallery_escape(&to, vc_path_base(b->page));
        a->location = vc_buf_take(&to);
        a->status = 302;
    } else if (after(name, "media/"))
        answer_media(b, after(name, "media/"), a);
    else if (!strcmp(name, vc_path_base(b->page)))
        answer_file(b->page, O_NOFOLLOW, "text/html; charset=utf-8", a);
    else if (rest && *rest == '/' && is_script(rest + 1)) {
        char *path = vc_path_join(b->data, rest + 1);
        if (path)
            answer_file(path, O_NOFOLLOW, "text/javascript; charset=utf-8", a);
        free(path);
    }
}

int vlat_serve_browse(const vlat *v, const char *page, const char *data, vc_err *err)
{
    browse b = { .page = page, .data = data };
    int rc = 0;
    for (int i = 0; i < v->words->n && i < SETS && !rc; i++) {
        vlat one = *v;
        one.path = v->words->item[i];
        rc = vlat_open(&one, &b.set[i], err);
        b.media[i] = rc ? NULL : vf_media_folder(one.path);
    }
    const vf_listen l = { .address = v->o->serve, .handle = handle_browse, .arg = &b,
                          .ready = say_ready, .ready_arg = (void *)v };
    if (!rc)
        rc = vf_serve_http(&l, err);
    for (int k = 0; k < SETS; k++) {
        vf_dataset_close(b.set[k]);
        free(b.media[k]);
    }
    return rc;
}
