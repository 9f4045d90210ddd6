/* share.c - which of the work is this process's: a job's part of the list, a rank's part of a job;
 * and what ranks tell each other. See vprep.h */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/os/threads.h"
#include "formats/keys/keymap.h"
#include "precompute/run/reuse.h"

enum { MAX_PARTS = 100000, MAX_WORKERS = 64 };

/* ---- a job's part of the list ---- */

int vprep_parse_shard(vprep *p, vc_err *err)
{
    const char *s = p->c.shard;
    unsigned i, n;
    int end = 0;

    p->part = 0;
    p->parts = 1;
    if (!s)
        return 0;
    if (strspn(s, "0123456789/") != strlen(s) || sscanf(s, "%6u/%6u%n", &i, &n, &end) != 2 ||
        s[end])
        return vc_fail(err, VC_EUSAGE, "--shard %s: expected i/n, as in 1/4", s);
    if (i < 1 || i > n || n > MAX_PARTS)
        return vc_fail(err, VC_EUSAGE, "--shard %s: i/n with i from 1 to n, and n at most %d", s,
                       MAX_PARTS);
    p->part = i - 1;
    p->parts = n;
    return 0;
}

static uint64_t number_of(vf_key k)
{
    uint64_t v;
    memcpy(&v, k.b, sizeof v);
    return v;
}

bool vprep_is_mine(const vprep *p, const vf_row *row)
{
    return p->parts < 2 || number_of(vf_hash(row->path, strlen(row->path))) % p->parts == p->part;
}

/* ---- a rank's part ---- */

/* Ranks of one machine that are not bound to cores of their own share its cores; each takes the
 * next of its GPUs. */
void vprep_share_machine(vprep *p)
{
    const int n = vc_fair_cores(vc_comm_locals(p->comm)), index = vc_comm_local(p->comm);
    const int threads = p->ranks == 1 || getenv("OMP_NUM_THREADS") ? 0 : n;

    if (p->c.workers == 0)
        p->c.workers = n > MAX_WORKERS ? MAX_WORKERS : n;
    p->vae_part.opts.threads = threads;
    p->vae_part.opts.index = index;
    for (int i = 0; i < p->n_text; i++) {
        p->text_part[i].opts.threads = threads;
        p->text_part[i].opts.index = index;
    }
}

int vprep_share_devices(vprep *p, vc_err *err)
{
    const vt_options o = encoder_device(&p->vae_part.opts);
    vt_ctx *g = NULL;

    if (!p->family.from_files) {
        vc_say(p->progress, "no --model: encoding with the built-in weight-free codec and text "
                            "encoder");
        return 0;
    }
    int rc = vt_open(&g, &o, err);
    rc = vc_comm_agree(p->comm, rc == VC_EINVAL ? VC_EUSAGE : rc, err);
    if (!rc) rc = vc_comm_same_memory(p->comm, vt_host_memory(g), err);
    if (!rc) vc_say(p->progress, "device: %s", vt_describe(g));
    vt_close(g);
    return rc;
}

int vprep_share_decoder(vprep *p, vc_err *err)
{
    int index = p->vae_part.opts.index, rc = 0;

    if (!p->c.video_decoder)
        return 0;
    sscanf(p->c.device, "cuda:%d", &index);
    rc = media_gpu_open(&p->gpu, index, err);
    rc = vc_context(err, rc, "--video_decoder nvdec");
    return vc_comm_agree(p->comm, rc, err);
}

bool vprep_surveys(const vprep *p, int64_t row)
{
    return (p->ranks < 2 || row % p->ranks == p->rank) && vprep_is_mine(p, &p->meta.rows[row]);
}

bool vprep_owns_key(const vprep *p, vf_key k)
{
    return p->ranks < 2 || number_of(k) % (unsigned)p->ranks == (unsigned)p->rank;
}

bool vprep_owns(const vprep *p, uint32_t item)
{
    return !p->owner || p->owner[item] == p->rank;
}

typedef struct bundle {              /* the items of one source */
    uint32_t first;                  /* item */
    uint64_t cost;                   /* pixels to encode */
    uint16_t owner;
} bundle;

static int dearer_first(const void *a, const void *b)
{
    const bundle *x = *(bundle *const *)a, *y = *(bundle *const *)b;
    if (x->cost != y->cost)
        return x->cost < y->cost ? 1 : -1;
    return (x->first > y->first) - (x->first < y->first);
}

/* The dearest first, each to the rank that has least: the same on all ranks. */
static int deal(const vprep *p, bundle *b, uint32_t n, vc_err *err)
{
    bundle **order = malloc((n + 1) * sizeof *order);
    uint64_t *load = calloc((size_t)p->ranks, sizeof *load);
    int rc = order && load ? 0 : vc_fail(err, VC_ENOMEM, "out of memory for %u sources", n);

    for (uint32_t i = 0; !rc && i < n; i++)
        order[i] = &b[i];
    if (!rc)
        qsort(order, n, sizeof *order, dearer_first);
    for (uint32_t i = 0; !rc && i < n; i++) {
        int least = 0;
        for (int r = 1; r < p->ranks; r++)
            if (load[r] < load[least])
                least = r;
        load[least] += order[i]->cost + 1;
        order[i]->owner = (uint16_t)least;
    }
    free(order);
    free(load);
    return rc;
}

static int cost_of(vprep *p, const vprep_item *it, uint64_t *cost, vc_err *err)
{
    vprep_clip clip;
    int rc = vprep_clip_of(p, it, &clip, err);

    *cost = 0;
    if (!rc && (p->c.trace_dir ||
                prep_reuse_find(p, false, vprep_latent_key(p, it, &clip)) == REUSE_NONE))
        *cost = (uint64_t)vprep_clip_pixels(&clip.choice);
    vprep_clip_free(&clip);
    return rc;
}

/* Sources, not items: what two items of one source have in common is made once. */
static int divide(vprep *p, vc_err *err)
{
    vf_keymap at = { 0 };
    uint32_t n = 0;
    uint32_t *of = malloc((p->n_items + 1) * sizeof *of);
    uint64_t *cost = calloc(p->n_items + 1, sizeof *cost);
    bundle *b = calloc(p->n_items + 1, sizeof *b);
    int rc = 0;

    p->owner = calloc(p->n_items + 1, sizeof *p->owner);
    if (!of || !cost || !b || !p->owner)
        rc = vc_fail(err, VC_ENOMEM, "out of memory for %u samples", p->n_items);
    for (uint32_t i = 0; !rc && i < p->n_items; i++) {
        const vf_key source = p->sources[p->items[i].row].hash;
        uint64_t place;
        if (!vf_keymap_get(&at, source, &place)) {
            place = n++;
            b[place].first = i;
            rc = vf_keymap_put(&at, source, place, err);
        }
        of[i] = (uint32_t)place;
        if (!rc && !p->items[i].drop)
            rc = cost_of(p, &p->items[i], &cost[i], err);
        b[place].cost += cost[i];
    }
    if (!rc)
        rc = deal(p, b, n, err);
    p->others_clips = 0;
    for (uint32_t i = 0; !rc && i < p->n_items; i++) {
        p->owner[i] = b[of[i]].owner;
        p->others_clips += p->owner[i] && cost[i];
    }
    vf_keymap_free(&at);
    free(of);
    free(cost);
    free(b);
    return rc;
}

/* ---- telling each other ---- */

typedef struct vprep_mail {           /* a message, being written or read */
    char *data;
    size_t n, at;
    FILE *f;
} mail;

static int mail_begin(mail *m, vc_err *err)
{
    *m = (mail){ 0 };
    m->f = open_memstream(&m->data, &m->n);
    return m->f ? 0 : vc_fail(err, VC_ENOMEM, "out of memory");
}

static void write_bytes(mail *m, const void *v, size_t n)
{
    if (n)
        fwrite(v, n, 1, m->f);
}

static void write_text(mail *m, const char *s)
{
    write_bytes(m, s, strlen(s) + 1);
}

/* Borrowed from the message, which the same program wrote. */
static const void *read_bytes(mail *m, size_t n)
{
    const char *v = m->data + m->at;
    m->at += n;
    return v;
}

static const char *read_text(mail *m)
{
    return read_bytes(m, strlen(m->data + m->at) + 1);
}

/* Each rank's message to all others, who take it apart with `take`. Ends m. */
static int swap(vprep *p, mail *m, int (*take)(vprep *p, mail *m, vc_err *err), vc_err *err)
{
    bool bad = ferror(m->f);
    bad |= fclose(m->f) != 0;
    m->f = NULL;
    int rc = bad ? vc_fail(err, VC_ENOMEM, "out of memory for a message") : 0;

    for (int r = 0; !rc && r < p->ranks; r++) {
        uint64_t n = m->n;
        rc = vc_comm_broadcast(p->comm, &n, sizeof n, r, err);
        mail got = { .data = r == p->rank ? m->data : malloc(n + 1), .n = n };
        if (!rc && !got.data)
            rc = vc_fail(err, VC_ENOMEM, "out of memory for a message of %llu bytes",
                         (unsigned long long)n);
        if (!rc) rc = vc_comm_broadcast(p->comm, got.data, n, r, err);
        while (!rc && r != p->rank && got.at < got.n)
            rc = take(p, &got, err);
        if (r != p->rank)
            free(got.data);
    }
    free(m->data);
    return rc;
}

/* ---- errors ---- */

static const char *const stages[] = { "metadata", "probe", "decode", "select", "encode", "text" };

static const char *stage_named(const char *name)
{
    size_t i = 0;
    while (i + 1 < sizeof stages / sizeof *stages && strcmp(stages[i], name))
        i++;
    return stages[i];
}

static int take_error(vprep *p, mail *m, vc_err *err)
{
    int64_t row;
    vc_err why = { .code = VC_EFAIL };

    memcpy(&row, read_bytes(m, sizeof row), sizeof row);
    const char *stage = stage_named(read_text(m)), *path = read_text(m);
    snprintf(why.text, sizeof why.text, "%s", read_text(m));
    int rc = vprep_note(p, row, path, stage, &why, err);
    p->told_errors = p->n_errors;
    return rc;
}

static int share_errors(vprep *p, vc_err *err)
{
    mail m;
    int rc = mail_begin(&m, err);

    if (rc)
        return rc;
    for (uint32_t i = p->told_errors; i < p->n_errors; i++) {
        const vprep_error *e = &p->errors[i];
        write_bytes(&m, &e->row, sizeof e->row);
        write_text(&m, e->stage);
        write_text(&m, e->path);
        write_text(&m, e->reason);
    }
    p->told_errors = p->n_errors;
    return swap(p, &m, take_error, err);
}

/* ---- opening ---- */

/* A list on a file system that shows one machine something else, or a folder that one rank cannot
 * read: rows would be taken for others. */
int vprep_share_list(vprep *p, int rc, vc_err *err)
{
    vf_hasher h;
    vf_key own, first;

    if (rc || p->ranks == 1)
        return rc;
    vf_hasher_begin(&h, "list");
    for (int64_t i = 0; i < p->meta.n; i++) {
        const vf_row *row = &p->meta.rows[i];
        vf_hasher_int(&h, "row", (int64_t)row->id);
        vf_hasher_str(&h, "bad", row->bad ? row->bad : "");
        for (int k = 0; k < row->n_captions; k++)
            vf_hasher_str(&h, "caption", row->captions[k]);
    }
    own = first = vf_hasher_end(&h);
    rc = vc_comm_broadcast(p->comm, &first, sizeof first, 0, err);
    if (!rc && memcmp(&own, &first, sizeof own))
        rc = vc_fail(err, VC_EMISMATCH, "%s: rank %d reads another list there than rank 0", p->c.meta,
                     p->rank);
    return vc_comm_agree(p->comm, rc, err);
}

int vprep_share_open(vprep *p, vf_writer_opts *o, vc_err *err)
{
    int rc = 0;

    o->rank = p->rank;
    o->ranks = p->ranks;
    for (int turn = 0; turn < 2; turn++) {               /* rank 0, then the others */
        if (!rc && turn == (p->rank > 0))
            rc = vf_writer_open(&p->writer, p->c.out, o, err);
        rc = vc_comm_agree(p->comm, rc, err);
    }
    for (int turn = 0; turn < 2; turn++) {
        if (!rc && turn == (p->rank > 0))
            rc = vf_writer_share(p->writer, err);
        rc = vc_comm_agree(p->comm, rc, err);
    }
    return rc;
}

/* ---- hints ---- */

static int open_hints(vprep *p, vc_err *err)
{
    if (p->mail)
        return 0;
    p->mail = calloc(1, sizeof *p->mail);
    return p->mail ? mail_begin(p->mail, err) : vc_fail(err, VC_ENOMEM, "out of memory");
}

int vprep_hint(vprep *p, const char *name, const void *value, size_t n, vc_err *err)
{
    if (p->rank == 0)
        return vf_writer_hint_put(p->writer, name, value, n, err);
    int rc = open_hints(p, err);
    if (rc)
        return rc;
    write_text(p->mail, name);
    write_bytes(p->mail, &n, sizeof n);
    write_bytes(p->mail, value, n);
    return 0;
}

static int take_hint(vprep *p, mail *m, vc_err *err)
{
    const char *name = read_text(m);
    size_t n;

    memcpy(&n, read_bytes(m, sizeof n), sizeof n);
    const void *value = read_bytes(m, n);
    return p->rank ? 0 : vf_writer_hint_put(p->writer, name, value, n, err);
}

static int share_hints(vprep *p, vc_err *err)
{
    int rc = open_hints(p, err);
    if (!rc) rc = swap(p, p->mail, take_hint, err);
    free(p->mail);
    p->mail = NULL;
    return rc;
}

/* ---- the survey ---- */

static int take_source(vprep *p, mail *m, vc_err *err)
{
    int64_t row;

    memcpy(&row, read_bytes(m, sizeof row), sizeof row);
    vprep_source *s = &p->sources[row];
    memcpy(s, read_bytes(m, sizeof *s), sizeof *s);
    if (!s->times)
        return 0;
    size_t bytes = (size_t)s->frames * sizeof *s->times;
    s->times = malloc(bytes);
    if (!s->times)
        return vc_fail(err, VC_ENOMEM, "out of memory for %lld frame times", (long long)s->frames);
    memcpy(s->times, read_bytes(m, bytes), bytes);
    return 0;
}

static int share_sources(vprep *p, vc_err *err)
{
    mail m;
    int rc = mail_begin(&m, err);

    if (rc)
        return rc;
    for (int64_t i = 0; i < p->meta.n; i++) {
        const vprep_source *s = &p->sources[i];
        if (!vprep_surveys(p, i) || !(s->ok || s->absent))
            continue;
        write_bytes(&m, &i, sizeof i);
        write_bytes(&m, s, sizeof *s);
        write_bytes(&m, s->times, s->times ? (size_t)s->frames * sizeof *s->times : 0);
    }
    return swap(p, &m, take_source, err);
}

int vprep_share_survey(vprep *p, vc_err *err)
{
    if (p->ranks == 1)
        return 0;
    int rc = share_sources(p, err);
    if (!rc) rc = share_hints(p, err);
    return rc ? rc : share_errors(p, err);
}

/* ---- the texts ---- */

/* How many shards all have closed. */
static int count_shards(vprep *p, int *n, vc_err *err)
{
    double shards = vf_writer_shards(p->writer);
    int rc = vc_comm_reduce(p->comm, &shards, 1, VC_COMM_MAX, err);
    *n = (int)shards;
    return rc;
}

int vprep_share_texts(vprep *p, vc_err *err)
{
    int shards, rc;

    if (p->ranks == 1)
        return 0;
    rc = vf_writer_flush(p->writer, err);
    if (!rc) rc = count_shards(p, &shards, err);
    if (!rc) rc = vf_writer_catch_up(p->writer, shards, err);
    if (!rc) rc = share_errors(p, err);
    for (uint32_t e = 0; !rc && e < p->n_errors; e++)
        if (!strcmp(p->errors[e].stage, "text"))
            for (uint32_t i = 0; i < p->n_items; i++)
                p->items[i].drop |= p->meta.rows[p->items[i].row].row == p->errors[e].row;
    return rc ? rc : divide(p, err);
}

/* ---- the clips ---- */

enum { NAP = 100000 };               /* us */

void vprep_share_progress(vprep *p, uint64_t done, uint64_t failed, bool end)
{
    enum { DONE, ENCODED, REUSED, FAILED, ENDED, N };
    double x[N] = { (double)done, (double)p->encoded, (double)p->reused, (double)failed, end };
    char extra[80];

    while (p->ranks > 1 && vc_comm_post(p->comm, x, N, NULL) == 1 && end)
        usleep(NAP);
    if (p->rank)
        return;
    for (;;) {
        if (p->ranks > 1 && vc_comm_posted(p->comm, x, N, NULL))
            return;
        snprintf(extra, sizeof extra, "%.0f encoded, %.0f reused, %.0f skipped", x[ENCODED],
                 x[REUSED], x[FAILED]);
        vc_progress_at(p->progress, (uint64_t)x[DONE], extra);
        if (!end || x[ENDED] >= p->ranks || *vc_stop_flag())
            return;
        usleep(NAP);
    }
}

static int take_failed(vprep *p, mail *m, vc_err *err)
{
    uint32_t item;
    (void)err;
    memcpy(&item, read_bytes(m, sizeof item), sizeof item);
    p->items[item].failed = true;
    p->items[item].absent = *(const char *)read_bytes(m, 1);
    return 0;
}

static int share_failed(vprep *p, vc_err *err)
{
    mail m;
    int rc = mail_begin(&m, err);

    if (rc)
        return rc;
    for (uint32_t i = 0; i < p->n_items; i++)
        if (p->items[i].failed) {
            write_bytes(&m, &i, sizeof i);
            write_bytes(&m, &(char){ p->items[i].absent }, 1);
        }
    return swap(p, &m, take_failed, err);
}

static int sum_counts(vprep *p, vc_err *err)
{
    uint64_t *count[] = { &p->encoded, &p->reused, &p->conditions, &p->texts_encoded,
                          &p->texts_reused, &p->copied_latents, &p->copied_texts,
                          &p->gpu_frames };
    enum { N = sizeof count / sizeof *count };
    double sum[N];

    prep_reuse_taken(p, &p->copied_latents, &p->copied_texts);
    p->gpu_frames = media_gpu_frames(p->gpu);
    for (int i = 0; i < N; i++)
        sum[i] = (double)*count[i];
    int rc = vc_comm_reduce(p->comm, sum, N, VC_COMM_SUM, err);
    for (int i = 0; i < N; i++)
        *count[i] = (uint64_t)sum[i];
    return rc;
}

/* What the others have put stays. */
static void keep_samples(vprep *p)
{
    for (uint32_t i = 0; i < p->n_items; i++)
        if (!p->items[i].drop && !p->items[i].failed)
            vf_writer_keep_sample(p->writer, p->items[i].number, p->items[i].variant);
}

int vprep_share_clips(vprep *p, vc_err *err)
{
    int shards, rc = sum_counts(p, err);

    if (rc || p->ranks == 1)
        return rc;
    if (p->rank) rc = vf_writer_finish(p->writer, err);
    if (!rc) rc = count_shards(p, &shards, err);
    if (!rc && p->rank == 0) rc = vf_writer_catch_up(p->writer, shards, err);
    if (!rc) rc = share_errors(p, err);
    if (!rc) rc = share_failed(p, err);
    if (!rc && p->rank == 0) keep_samples(p);
    return rc;
}

void vprep_share_free(vprep *p)
{
    if (p->mail && p->mail->f) {
        fclose(p->mail->f);
        free(p->mail->data);
    }
    free(p->mail);
    free(p->owner);
}
