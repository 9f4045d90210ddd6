/* replay.c - reads a plan, edited or not, and makes items of its lines; see plan_lines.h */
#include "precompute/vprep/plan_lines.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/os/lines.h"

enum { MAX_LINE = 16 << 20 };               /* bytes */

/* ---- lines ---- */

typedef struct head {                       /* the sample of a line */
    uint64_t id;
    int64_t number, variant;
} head;

static int set_head(head *h, const char *hex, int64_t number, int64_t variant, vc_err *err)
{
    char *end;
    *h = (head){ strtoull(hex, &end, 16), number, variant };
    if (*end || strlen(hex) != 16)
        return vc_fail(err, VC_EFORMAT, "id: expected 16 hex digits");
    if (number < 0 || number > UINT32_MAX - 1 || variant < 0 || variant > UINT16_MAX)
        return vc_fail(err, VC_EFORMAT, "sample or variant out of range");
    return 0;
}

static int parse_head(head *h, const char *text, size_t n, vc_err *err)
{
    const char *hex;
    int64_t number, variant;
    cJSON *o;
    int rc = vf_json_parse(&o, text, n, err);

    if (!rc)
        rc = vf_json_str(o, "id", &hex, err);
    if (!rc)
        rc = vf_json_int(o, "sample", &number, err);
    if (!rc)
        rc = vf_json_int(o, "variant", &variant, err);
    if (!rc)
        rc = set_head(h, hex, number, variant, err);
    cJSON_Delete(o);
    return rc;
}

/* The same of a line that vprep wrote, of which the beginning suffices. */
static bool peek_head(head *h, const char *text, size_t n)
{
    char start[96], hex[17];
    long long number, variant;
    int end = 0;

    snprintf(start, sizeof start, "%.*s", (int)(n < sizeof start ? n : sizeof start), text);
    return sscanf(start, "{\"sample\":%lld,\"id\":\"%16[0-9a-f]\",\"variant\":%lld,%n", &number,
                  hex, &variant, &end) == 3 && end && !set_head(h, hex, number, variant, NULL);
}

static int each_line(const vc_map *m, const char *path,
                     int (*each)(void *arg, const char *text, size_t n, vc_err *err), void *arg,
                     vc_err *err)
{
    vc_lines l = vc_lines_of(m->data, m->size, MAX_LINE);
    const char *line;
    size_t n;
    int rc;
    while (!(rc = vc_lines_next(&l, &line, &n, err)) && line) {
        rc = n ? each(arg, line, n, err) : 0;
        if (vc_context(err, rc, "line %" PRId64, l.number))
            break;
    }
    return vc_context(err, rc, "%s", path);
}

/* ---- lines that stay ---- */

typedef struct keeping {
    FILE *f;
    const vprep *p;
    const vf_keymap *now;
} keeping;

vf_key plan_line_key(uint32_t number, uint16_t variant)
{
    const uint32_t both[2] = { number, variant };
    return vf_hash(both, sizeof both);
}

static int keep_line(void *arg, const char *text, size_t n, vc_err *err)
{
    const keeping *k = arg;
    head h;
    int rc = peek_head(&h, text, n) ? 0 : parse_head(&h, text, n, err);
    if (rc || vf_keymap_get(k->now, plan_line_key((uint32_t)h.number, (uint16_t)h.variant), NULL) ||
        !(k->p->c.append || vprep_keeps(k->p, (uint32_t)h.number)))
        return rc;
    return fwrite(text, 1, n, k->f) == n && fputc('\n', k->f) != EOF
               ? 0 : vc_fail_errno(err, "write");
}

int plan_keep_lines(FILE *f, const vprep *p, const char *path, const vf_keymap *now, vc_err *err)
{
    vc_map m;
    keeping k = { f, p, now };
    int rc = vc_map_open(&m, path, err);

    if (!rc)
        rc = each_line(&m, path, keep_line, &k, err);
    vc_map_close(&m);
    return rc;
}

/* ---- ids ---- */

static int add_known(void *arg, const char *text, size_t n, vc_err *err)
{
    head h;
    int rc = peek_head(&h, text, n) ? 0 : parse_head(&h, text, n, err);
    return rc || h.variant ? rc : plan_ids_add(arg, h.id, (uint32_t)h.number, err);
}

int plan_ids_read(plan_ids *l, const char *path, vc_err *err)
{
    vc_map m;
    int rc = vc_map_open(&m, path, err);

    if (!rc)
        rc = each_line(&m, path, add_known, l, err);
    vc_map_close(&m);
    plan_ids_sort(l);
    return rc;
}

typedef struct below {
    plan_ids *l;
    const char *folder;
} below;

static int add_below(void *arg, const char *text, size_t n, vc_err *err)
{
    const below *b = arg;
    const char *path;
    head h;
    cJSON *o;
    int rc = vf_json_parse(&o, text, n, err);

    if (!rc)
        rc = vf_json_str(o, "path", &path, err);
    if (!rc)
        rc = parse_head(&h, text, n, err);
    if (!rc && !h.variant && !strncmp(path, b->folder, strlen(b->folder)))
        rc = plan_ids_add(b->l, h.id, (uint32_t)h.number, err);
    cJSON_Delete(o);
    return rc;
}

int plan_ids_below(plan_ids *l, const char *path, const char *folder, vc_err *err)
{
    vc_map m;
    below b = { l, folder };
    int rc = vc_map_open(&m, path, err);

    if (!rc)
        rc = each_line(&m, path, add_below, &b, err);
    vc_map_close(&m);
    return rc;
}

int plan_ids_add(plan_ids *l, uint64_t id, uint32_t number, vc_err *err)
{
    if (l->n == l->room) {
        size_t room = l->room ? 2 * l->room : 1024;
        struct plan_id *grown = realloc(l->v, room * sizeof *grown);
        if (!grown)
            return vc_fail(err, VC_ENOMEM, "out of memory for %zu rows", room);
        l->v = grown;
        l->room = room;
    }
    l->v[l->n++] = (struct plan_id){ id, number };
    return 0;
}

static int by_id(const void *a, const void *b)
{
    uint64_t x = ((const struct plan_id *)a)->id, y = ((const struct plan_id *)b)->id;
    return (x > y) - (x < y);
}

void plan_ids_sort(plan_ids *l)
{
    if (l->n)
        qsort(l->v, l->n, sizeof *l->v, by_id);
}

bool plan_ids_find(const plan_ids *l, uint64_t id, uint32_t *number)
{
    struct plan_id want = { .id = id };
    const struct plan_id *k = l->n ? bsearch(&want, l->v, l->n, sizeof want, by_id) : NULL;
    if (k)
        *number = k->number;
    return k != NULL;
}

int plan_add_item(vprep *p, vprep_item it, vc_err *err)
{
    if (p->plan.n_items == p->plan.room) {
        if (p->plan.room >= UINT32_MAX / 2)
            return vc_fail(err, VC_EINVAL, "more than 2^31 samples and variants");
        size_t room = p->plan.room ? 2 * (size_t)p->plan.room : 1024;
        vprep_item *grown = realloc(p->plan.items, room * sizeof *grown);
        if (!grown)
            return vc_fail(err, VC_ENOMEM, "out of memory for %zu samples", room);
        p->plan.items = grown;
        p->plan.room = (uint32_t)room;
    }
    p->plan.items[p->plan.n_items++] = it;
    return 0;
}

/* ---- replaying a plan ---- */

static int pair(const cJSON *o, const char *field, int *a, int *b, vc_err *err)
{
    const cJSON *v;
    int rc = vf_json_arr(o, field, &v, err);
    if (rc)
        return rc;
    const cJSON *x = cJSON_GetArrayItem(v, 0), *y = cJSON_GetArrayItem(v, 1);
    if (cJSON_GetArraySize(v) != 2 || !cJSON_IsNumber(x) || !cJSON_IsNumber(y) ||
        fabs(x->valuedouble) > 1e6 || fabs(y->valuedouble) > 1e6)
        return vc_fail(err, VC_EFORMAT, "%s: expected two integers", field);
    *a = (int)x->valuedouble;
    *b = (int)y->valuedouble;
    return 0;
}

static int plan_frames(const vprep *p, const vprep_item *it, const cJSON *o, vprep_clip *clip,
                       vc_err *err)
{
    const cJSON *a, *v;
    int rc = vf_json_arr(o, "frames", &a, err);
    if (rc)
        return rc;
    int n = cJSON_GetArraySize(a), i = 0;
    int64_t last = 0;
    if (n < 1 || (n - 1) % p->rules.family->ratio[0])
        return vc_fail(err, VC_EINVAL, "frames: %d of them; %s takes %dj+1", n,
                       p->rules.family->name, p->rules.family->ratio[0]);
    clip->frames = malloc((size_t)n * sizeof *clip->frames);
    if (!clip->frames)
        return vc_fail(err, VC_ENOMEM, "out of memory for %d frames", n);
    cJSON_ArrayForEach(v, a)
    {
        double x = cJSON_IsNumber(v) ? v->valuedouble : -1;
        if (x != floor(x) || x < (double)last || x >= (double)p->list.sources[it->row].frames)
            return vc_fail(err, VC_EINVAL, "frames: entry %d must be an integer from %lld to %lld",
                           i, (long long)last, (long long)p->list.sources[it->row].frames - 1);
        clip->frames[i++] = last = (int64_t)x;
    }
    clip->choice.frames = n;
    clip->choice.start = clip->frames[0];
    return 0;
}

/* --sampling peer: one side may be a pixel short of the target, and is filled with black. */
static bool is_short(const vb_choice *c)
{
    int h = c->target_h - c->resize_h, w = c->target_w - c->resize_w;
    return (h == 1 && w <= 0 && c->top == 0 && c->left >= 0 && c->left <= -w)
        || (w == 1 && h <= 0 && c->left == 0 && c->top >= 0 && c->top <= -h);
}

static int check_loaded(const vprep *p, const vprep_source *s, const vb_choice *c, vc_err *err)
{
    if (!c->load_h && !c->load_w)
        return 0;
    if (!p->rules.peer)
        return vc_fail(err, VC_EINVAL, "load: only --sampling peer resizes a picture twice");
    if (c->load_h < 1 || c->load_w < 1 || c->load_h > s->h || c->load_w > s->w)
        return vc_fail(err, VC_EINVAL, "load: %d %d: at least 1 and at most the source's %d %d",
                       c->load_h, c->load_w, s->h, s->w);
    return 0;
}

/* Checks the numbers of a line, which may have been edited by hand. */
static int check_geometry(const vprep *p, const vprep_source *s, vb_choice *c, vc_err *err)
{
    const vc_family *f = p->rules.family;
    const int q = f->ratio[1] * f->patch;
    const int most = VB_MAX_RESIZED_SIDE;
    int rc = check_loaded(p, s, c, err);

    if (rc)
        return rc;
    if (c->target_h < q || c->target_w < q || c->target_h % q || c->target_w % q)
        return vc_fail(err, VC_EINVAL, "target: %d %d: sides must be multiples of %d", c->target_h,
                       c->target_w, q);
    if (c->resize_h < 1 || c->resize_w < 1 || c->resize_h > most || c->resize_w > most)
        return vc_fail(err, VC_EINVAL, "resize: %d %d: sides of 1 to %d are allowed", c->resize_h,
                       c->resize_w, most);
    if (!(p->rules.peer && is_short(c)) &&
        (c->top < 0 || c->left < 0 || c->top + c->target_h > c->resize_h ||
         c->left + c->target_w > c->resize_w))
        return vc_fail(err, VC_EINVAL, "crop: %d %d of target %d %d leaves the resized %d %d",
                       c->top, c->left, c->target_h, c->target_w, c->resize_h, c->resize_w);
    c->latent_f = (c->frames - 1) / f->ratio[0] + 1;
    c->latent_h = c->target_h / f->ratio[1];
    c->latent_w = c->target_w / f->ratio[1];
    if (c->latent_f > 1 && c->latent_f % f->patch_t)
        return vc_fail(err, VC_EINVAL, "frames: %d give %d latent frames, which must be a "
                       "multiple of %d", c->frames, c->latent_f, f->patch_t);
    c->tokens = (int64_t)(c->latent_f + f->patch_t - 1) / f->patch_t * (c->latent_h / f->patch) *
                (c->latent_w / f->patch);
    return 0;
}

int plan_replayed_clip(const vprep *p, const vprep_item *it, vprep_clip *clip, vc_err *err)
{
    const char *at = (const char *)p->plan.file.data + it->line - 1;
    size_t left = p->plan.file.size - (size_t)(it->line - 1);
    const char *nl = memchr(at, '\n', left), *status = "ok", *reason = "dropped by the plan", *key;
    vb_choice *c = &clip->choice;
    cJSON *o;
    int rc = vf_json_parse(&o, at, nl ? (size_t)(nl - at) : left, err);

    c->upscale = 1;
    c->stride = p->c.sample_fps > 0 ? 1 : p->rules.stride;
    if (!rc)
        rc = vf_json_str_opt(o, "status", &status, err);
    if (!rc && strcmp(status, "ok")) {
        c->drop = true;
        rc = vf_json_str_opt(o, "reason", &reason, err);
        snprintf(c->reason, sizeof c->reason, "%s", reason);
        cJSON_Delete(o);
        return rc;
    }
    if (!rc)
        rc = vf_json_str(o, "key", &key, err);
    if (!rc)
        rc = pair(o, "target", &c->target_h, &c->target_w, err);
    if (!rc && cJSON_HasObjectItem(o, "load"))
        rc = pair(o, "load", &c->load_h, &c->load_w, err);
    if (!rc)
        rc = pair(o, "resize", &c->resize_h, &c->resize_w, err);
    if (!rc)
        rc = pair(o, "crop", &c->top, &c->left, err);
    if (!rc)
        rc = vf_json_bool_opt(o, "flip", &c->flip, err);
    if (!rc)
        rc = vf_json_num_opt(o, "upscale", &c->upscale, err);
    if (!rc)
        rc = vf_json_num_opt(o, "fps", &clip->fps, err);
    if (!rc)
        rc = plan_frames(p, it, o, clip, err);
    if (!rc) {
        clip->draws = cJSON_DetachItemFromObjectCaseSensitive(o, "draws");
        snprintf(c->key, sizeof c->key, "%s", key);
        rc = check_geometry(p, &p->list.sources[it->row], c, err);
    }
    cJSON_Delete(o);
    return vc_context(err, rc, "%s: sample %u, variant %u", p->c.plan, it->number, it->variant);
}

typedef struct replay {
    vprep *p;
    plan_ids rows;                         /* id -> row index */
} replay;

static int replay_line(void *arg, const char *text, size_t n, vc_err *err)
{
    replay *r = arg;
    head h;
    uint32_t row;
    int rc = parse_head(&h, text, n, err);

    if (rc)
        return rc;
    if (!plan_ids_find(&r->rows, h.id, &row))
        return vc_fail(err, VC_EMISMATCH, "sample %lld is not in the metadata",
                       (long long)h.number);
    r->p->list.sources[row].number = (uint32_t)h.number;
    if (!r->p->list.sources[row].ok)
        return 0;                          /* already in the error list */
    vprep_item it = { .row = row, .number = (uint32_t)h.number, .variant = (uint16_t)h.variant,
                      .line = (uint64_t)((const uint8_t *)text - r->p->plan.file.data) + 1 };
    vprep_clip clip;
    rc = vprep_clip_of(r->p, &it, &clip, err);
    it.drop = !rc && clip.choice.drop;
    vprep_clip_free(&clip);
    return rc ? rc : plan_add_item(r->p, it, err);
}

int plan_replay(vprep *p, vc_err *err)
{
    replay r = { .p = p };
    int rc = vc_map_open(&p->plan.file, p->c.plan, err);

    for (int64_t i = 0; !rc && i < p->list.meta.n; i++)
        rc = plan_ids_add(&r.rows, p->list.meta.rows[i].id, (uint32_t)i, err);
    plan_ids_sort(&r.rows);
    if (!rc)
        rc = each_line(&p->plan.file, p->c.plan, replay_line, &r, err);
    free(r.rows.v);
    return rc;
}
