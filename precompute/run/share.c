/* share.c - the part of a job in the list and of a rank in a job, and the messages between ranks.
 * See sources.h, share.h; vprep/share_divide.c divides the samples */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/os/threads.h"
#include "precompute/run/reuse.h"

enum { MAX_PARTS = 100000, MAX_WORKERS = 64 };

/* ---- a job's part of the list ---- */

int vprep_parse_shard(vprep *p, vc_err *err)
{
    const char *s = p->c.shard;
    unsigned i, n;
    int end = 0;

    p->list.part = 0;
    p->list.parts = 1;
    if (!s)
        return 0;
    if (strspn(s, "0123456789/") != strlen(s) || sscanf(s, "%6u/%6u%n", &i, &n, &end) != 2 ||
        s[end])
        return vc_fail(err, VC_EUSAGE, "--shard %s: expected i/n, as in 1/4", s);
    if (i < 1 || i > n || n > MAX_PARTS)
        return vc_fail(err, VC_EUSAGE, "--shard %s: i/n with i from 1 to n, and n at most %d", s,
                       MAX_PARTS);
    p->list.part = i - 1;
    p->list.parts = n;
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
    const prep_list *l = &p->list;
    return l->parts < 2 ||
           number_of(vf_hash(row->path, strlen(row->path))) % l->parts == l->part;
}

/* ---- a rank's part ---- */

/* Ranks of one machine that are not bound to cores of their own share its cores, and each takes the
 * next GPU. */
void vprep_share_machine(vprep *p)
{
    const int n = vc_fair_cores(vc_comm_locals(p->ranks.comm));
    const int index = vc_comm_local(p->ranks.comm);
    const int threads = p->ranks.n == 1 || getenv("OMP_NUM_THREADS") ? 0 : n;

    if (p->c.workers == 0)
        p->c.workers = n > MAX_WORKERS ? MAX_WORKERS : n;
    p->encoders.vae_part.opts.threads = threads;
    p->encoders.vae_part.opts.index = index;
    p->encoders.vision_part.opts.threads = threads;
    p->encoders.vision_part.opts.index = index;
    for (int i = 0; i < p->encoders.n_text; i++) {
        p->encoders.text_part[i].opts.threads = threads;
        p->encoders.text_part[i].opts.index = index;
    }
}

int vprep_share_devices(vprep *p, vc_err *err)
{
    const vt_options o = encoder_device(&p->encoders.vae_part.opts);
    vt_ctx *g = NULL;

    if (!p->encoders.family.from_files) {
        vc_say(p->progress, "%sencoding with the built-in weight-free codec and text encoder",
               vc_flags_given(p->flags, "model") ? "" : "no --model: ");
        return 0;
    }
    int rc = vt_open(&g, &o, err);
    rc = vc_comm_agree(p->ranks.comm, rc == VC_EINVAL ? VC_EUSAGE : rc, err);
    if (!rc)
        rc = vc_comm_same_memory(p->ranks.comm, vt_host_memory(g), err);
    if (!rc)
        vc_say(p->progress, "device: %s", vt_describe(g));
    vt_close(g);
    return rc;
}

int vprep_share_decoder(vprep *p, vc_err *err)
{
    int index = p->encoders.vae_part.opts.index, rc = 0;

    if (!p->c.video_decoder)
        return 0;
    sscanf(p->c.device, "cuda:%d", &index);
    rc = media_gpu_open(&p->gpu, index, err);
    rc = vc_context(err, rc, "--video_decoder nvdec");
    return vc_comm_agree(p->ranks.comm, rc, err);
}

bool vprep_surveys(const vprep *p, int64_t row)
{
    return (p->ranks.n < 2 || row % p->ranks.n == p->ranks.rank) &&
           vprep_is_mine(p, &p->list.meta.rows[row]);
}

bool vprep_owns_key(const vprep *p, vf_key k)
{
    return p->ranks.n < 2 || number_of(k) % (unsigned)p->ranks.n == (unsigned)p->ranks.rank;
}

bool vprep_owns(const vprep *p, uint32_t item)
{
    return !p->ranks.owner || p->ranks.owner[item] == p->ranks.rank;
}

/* ---- messages ---- */

typedef struct vprep_mail {          /* a message that is written or read */
    char *data;
    size_t n, at;
    FILE *f;
} mail;

static int mail_begin(mail *m, vc_err *err)
{
    *m = (mail){ 0 };
    m->f = open_memstream(&m->data, &m->n);
    return m->f ? 0 : vc_no_memory(err);
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

/* The result is borrowed from the message, which the same program wrote. */
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

/* Sends each rank's message to all others, which read it with `take`. Frees m. */
static int exchange(vprep *p, mail *m, int (*take)(vprep *p, mail *m, vc_err *err), vc_err *err)
{
    bool bad = ferror(m->f);
    bad |= fclose(m->f) != 0;
    m->f = NULL;
    int rc = bad ? vc_fail(err, VC_ENOMEM, "out of memory for a message") : 0;

    for (int r = 0; !rc && r < p->ranks.n; r++) {
        uint64_t n = m->n;
        rc = vc_comm_broadcast(p->ranks.comm, &n, sizeof n, r, err);
        mail received = { .data = r == p->ranks.rank ? m->data : malloc(n + 1), .n = n };
        if (!rc && !received.data)
            rc = vc_fail(err, VC_ENOMEM, "out of memory for a message of %llu bytes",
                         (unsigned long long)n);
        if (!rc)
            rc = vc_comm_broadcast(p->ranks.comm, received.data, n, r, err);
        while (!rc && r != p->ranks.rank && received.at < received.n)
            rc = take(p, &received, err);
        if (r != p->ranks.rank && rc != VC_ELOST)        /* then MPI may still write to it */
            free(received.data);
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
    p->errors.n_shared = p->errors.n;
    return rc;
}

static int share_errors(vprep *p, vc_err *err)
{
    mail m;
    int rc = mail_begin(&m, err);

    if (rc)
        return rc;
    for (uint32_t i = p->errors.n_shared; i < p->errors.n; i++) {
        const vprep_error *e = &p->errors.list[i];
        write_bytes(&m, &e->row, sizeof e->row);
        write_text(&m, e->stage);
        write_text(&m, e->path);
        write_text(&m, e->reason);
    }
    p->errors.n_shared = p->errors.n;
    return exchange(p, &m, take_error, err);
}

/* ---- opening ---- */

/* Lists differ where a file system shows two machines different files, or one rank cannot read a
 * folder: ranks would take rows for other rows. */
int vprep_share_list(vprep *p, vc_err *err)
{
    vf_hasher h;
    vf_key own, first;

    if (p->ranks.n == 1)
        return 0;
    vf_hasher_begin(&h, "list");
    for (int64_t i = 0; i < p->list.meta.n; i++) {
        const vf_row *row = &p->list.meta.rows[i];
        vf_hasher_int(&h, "row", (int64_t)row->id);
        vf_hasher_str(&h, "bad", row->bad ? row->bad : "");
        vf_hasher_int(&h, "segments", row->segments);
        for (int k = 0; k < row->n_captions; k++)
            vf_hasher_str(&h, "caption", row->captions[k]);
    }
    own = first = vf_hasher_end(&h);
    int rc = vc_comm_broadcast(p->ranks.comm, &first, sizeof first, 0, err);
    if (!rc && memcmp(&own, &first, sizeof own))
        rc = vc_fail(err, VC_EMISMATCH, "%s: rank %d reads another list than rank 0", p->c.meta,
                     p->ranks.rank);
    return rc;
}

/* A rank that waits for another's lock ends its wait when a rank is lost. */
static int look_for_lost(void *arg, vc_err *err)
{
    return vc_comm_lost(arg, err);
}

int vprep_share_open(vprep *p, vf_writer_opts *o, vc_err *err)
{
    int rc = 0;

    o->rank = p->ranks.rank;
    o->ranks = p->ranks.n;
    o->hold = p->ranks.rank == 0;
    /* A quarter more: a rank that holds the lock and is silent altogether is lost before. */
    o->patience = (vc_patience){ .seconds = 1.25 * (double)p->c.comm_timeout, .ui = p->progress,
                                      .look = look_for_lost, .arg = p->ranks.comm };
    if (p->ranks.rank == 0)
        rc = vf_writer_open(&p->writer, p->c.out, o, err);
    return vc_comm_agree(p->ranks.comm, rc, err);
}

int vprep_share_begin(vprep *p, const vf_writer_opts *o, vc_err *err)
{
    int rc = p->ranks.rank ? 0 : vf_writer_begin(p->writer, err);

    rc = vc_comm_agree(p->ranks.comm, rc, err);
    if (!rc && p->ranks.rank)
        rc = vf_writer_open(&p->writer, p->c.out, o, err);
    rc = vc_comm_agree(p->ranks.comm, rc, err);
    for (int others = 0; others < 2; others++) {
        if (!rc && others == (p->ranks.rank > 0))
            rc = vf_writer_share(p->writer, err);
        rc = vc_comm_agree(p->ranks.comm, rc, err);
    }
    return rc;
}

/* ---- hints ---- */

static int open_hints(vprep *p, vc_err *err)
{
    if (p->ranks.mail)
        return 0;
    p->ranks.mail = calloc(1, sizeof *p->ranks.mail);
    return p->ranks.mail ? mail_begin(p->ranks.mail, err) : vc_no_memory(err);
}

int vprep_hint(vprep *p, const char *name, const void *value, size_t n, vc_err *err)
{
    if (p->ranks.rank == 0)
        return vf_writer_hint_put(p->writer, name, value, n, err);
    int rc = open_hints(p, err);
    if (rc)
        return rc;
    write_text(p->ranks.mail, name);
    write_bytes(p->ranks.mail, &n, sizeof n);
    write_bytes(p->ranks.mail, value, n);
    return 0;
}

static int take_hint(vprep *p, mail *m, vc_err *err)
{
    const char *name = read_text(m);
    size_t n;

    memcpy(&n, read_bytes(m, sizeof n), sizeof n);
    const void *value = read_bytes(m, n);
    return p->ranks.rank ? 0 : vf_writer_hint_put(p->writer, name, value, n, err);
}

static int share_hints(vprep *p, vc_err *err)
{
    int rc = open_hints(p, err);
    if (!rc)
        rc = exchange(p, p->ranks.mail, take_hint, err);
    free(p->ranks.mail);
    p->ranks.mail = NULL;
    return rc;
}

/* ---- the survey ---- */

/* *times, which points into another rank's memory or is NULL: n numbers of the mail. rc: of the
 * sources before; an error leaves NULL. */
static int take_times(double **times, int64_t n, mail *m, int rc, vc_err *err)
{
    size_t bytes = (size_t)n * sizeof **times;
    const bool none = rc || !*times;

    *times = none ? NULL : malloc(bytes);
    if (none)
        return rc;
    if (!*times)
        return vc_fail(err, VC_ENOMEM, "out of memory for %lld frame times", (long long)n);
    memcpy(*times, read_bytes(m, bytes), bytes);
    return 0;
}

static void write_times(mail *m, const double *times, int64_t n)
{
    write_bytes(m, times, times ? (size_t)n * sizeof *times : 0);
}

static int take_source(vprep *p, mail *m, vc_err *err)
{
    int64_t row;

    memcpy(&row, read_bytes(m, sizeof row), sizeof row);
    vprep_source *s = &p->list.sources[row];
    memcpy(s, read_bytes(m, sizeof *s), sizeof *s);
    int rc = take_times(&s->times, s->frames, m, 0, err);
    for (int i = 0; i < VF_COLUMNS; i++)
        rc = take_times(&s->beside[i].times, s->beside[i].frames, m, rc, err);
    const size_t bytes = (size_t)s->n_references * sizeof *s->references;
    const void *references = bytes ? read_bytes(m, bytes) : NULL;
    s->references = NULL;
    if (!bytes || rc)
        return rc;
    s->references = malloc(bytes);
    if (!s->references)
        return vc_no_memory(err);
    memcpy(s->references, references, bytes);    /* pictures have no times */
    return 0;
}

static int share_sources(vprep *p, vc_err *err)
{
    mail m;
    int rc = mail_begin(&m, err);

    if (rc)
        return rc;
    for (int64_t i = 0; i < p->list.meta.n; i++) {
        const vprep_source *s = &p->list.sources[i];
        if (!vprep_surveys(p, i) || !(s->ok || s->absent))
            continue;
        write_bytes(&m, &i, sizeof i);
        write_bytes(&m, s, sizeof *s);
        write_times(&m, s->times, s->frames);
        for (int k = 0; k < VF_COLUMNS; k++)
            write_times(&m, s->beside[k].times, s->beside[k].frames);
        if (s->n_references)
            write_bytes(&m, s->references, (size_t)s->n_references * sizeof *s->references);
    }
    return exchange(p, &m, take_source, err);
}

int vprep_share_survey(vprep *p, vc_err *err)
{
    if (p->ranks.n == 1)
        return 0;
    int rc = share_sources(p, err);
    if (!rc)
        rc = share_hints(p, err);
    return rc ? rc : share_errors(p, err);
}

/* ---- the texts ---- */

/* The number of shards that all ranks have closed. */
static int count_shards(vprep *p, int *n, vc_err *err)
{
    double shards = vf_writer_shards(p->writer);
    int rc = vc_comm_reduce(p->ranks.comm, &shards, 1, VC_COMM_MAX, err);
    *n = (int)shards;
    return rc;
}

/* The number of an item's row in its file. */
static int64_t row_of(const vprep *p, uint32_t item)
{
    return p->list.meta.rows[p->plan.items[item].row].row;
}

/* The ranks from `first` on close their shards, and number them one after the other: which rank is
 * done first decides nothing. */
static int close_in_turn(vprep *p, int first, int (*close)(vf_writer *w, vc_err *err), vc_err *err)
{
    uint8_t done = 0;
    int rc = p->ranks.rank < first ? 0 : vf_writer_seal(p->writer, err);

    for (int r = first; r < p->ranks.n && !rc; r++) {
        if (r == p->ranks.rank)
            rc = close(p->writer, err);
        if (!rc)
            rc = vc_comm_broadcast(p->ranks.comm, &done, sizeof done, r, err);
    }
    return rc;
}

int vprep_share_texts(vprep *p, vc_err *err)
{
    int shards, rc;

    if (p->ranks.n == 1)
        return 0;
    rc = close_in_turn(p, 0, vf_writer_flush, err);
    if (!rc)
        rc = count_shards(p, &shards, err);
    if (!rc)
        rc = vf_writer_catch_up(p->writer, shards, err);
    if (!rc)
        rc = share_errors(p, err);
    for (uint32_t e = 0; !rc && e < p->errors.n; e++)
        if (!strcmp(p->errors.list[e].stage, "text"))
            for (uint32_t i = 0; i < p->plan.n_items; i++)
                p->plan.items[i].drop |= row_of(p, i) == p->errors.list[e].row;
    return rc;
}

/* ---- the clips ---- */

enum { NAP = 100000 };               /* us */

void vprep_share_progress(vprep *p, const prep_place *at, bool end)
{
    enum { DONE, ENCODED, REUSED, FAILED, ENDED, WITHIN, FRAME, FRAMES, N };
    const bool begun = at->share > 0;
    double x[N] = { (double)at->done, (double)p->count.encoded, (double)p->count.reused,
                    (double)at->failed, end, (double)at->waiting + at->share,
                    floor(at->share * at->frames), begun ? at->frames : 0 };
    char extra[120], frame[40] = "";

    vc_comm_note(p->ranks.comm, "%llu clips done", (unsigned long long)at->done);
    while (p->ranks.n > 1 && vc_comm_post(p->ranks.comm, x, N, NULL) == 1 && end)
        usleep(NAP);
    if (p->ranks.rank)
        return;
    for (;;) {
        if (p->ranks.n > 1 && vc_comm_posted(p->ranks.comm, x, N, NULL))
            return;
        if (x[FRAMES] > 0)
            snprintf(frame, sizeof frame, "frame %.0f of %.0f, ", x[FRAME], x[FRAMES]);
        else
            frame[0] = 0;
        snprintf(extra, sizeof extra, "%s%.0f encoded, %.0f reused, %.0f skipped", frame,
                 x[ENCODED], x[REUSED], x[FAILED]);
        vc_progress_within(p->progress, (uint64_t)x[DONE], x[WITHIN], extra);
        if (!end || x[ENDED] >= p->ranks.n || *vc_stop_flag())
            return;
        usleep(NAP);
    }
}

static int take_failed(vprep *p, mail *m, vc_err *err)
{
    uint32_t item;
    (void)err;
    memcpy(&item, read_bytes(m, sizeof item), sizeof item);
    p->plan.items[item].failed = true;
    p->plan.items[item].absent = *(const char *)read_bytes(m, 1);
    return 0;
}

static int share_failed(vprep *p, vc_err *err)
{
    mail m;
    int rc = mail_begin(&m, err);

    if (rc)
        return rc;
    for (uint32_t i = 0; i < p->plan.n_items; i++)
        if (p->plan.items[i].failed) {
            write_bytes(&m, &i, sizeof i);
            write_bytes(&m, &(char){ p->plan.items[i].absent }, 1);
        }
    return exchange(p, &m, take_failed, err);
}

static int sum_counts(vprep *p, vc_err *err)
{
    prep_counts *c = &p->count;
    uint64_t *count[] = { &c->encoded, &c->reused, &c->conditions, &c->texts_encoded,
                          &c->texts_reused, &c->copied_latents, &c->copied_texts, &c->gpu_frames };
    enum { N = sizeof count / sizeof *count };
    double sum[N];

    prep_reuse_taken(p, &p->count.copied_latents, &p->count.copied_texts);
    p->count.gpu_frames = media_gpu_frames(p->gpu);
    for (int i = 0; i < N; i++)
        sum[i] = (double)*count[i];
    int rc = vc_comm_reduce(p->ranks.comm, sum, N, VC_COMM_SUM, err);
    for (int i = 0; i < N; i++)
        *count[i] = (uint64_t)sum[i];
    return rc;
}

/* Keeps the samples that other ranks have put. */
static void keep_samples(vprep *p)
{
    for (uint32_t i = 0; i < p->plan.n_items; i++)
        if (!p->plan.items[i].drop && !p->plan.items[i].failed)
            vf_writer_keep_sample(p->writer, p->plan.items[i].number, p->plan.items[i].variant);
}

int vprep_share_clips(vprep *p, vc_err *err)
{
    int shards, rc = sum_counts(p, err);

    if (rc || p->ranks.n == 1)
        return rc;
    rc = close_in_turn(p, 1, vf_writer_finish, err);
    if (!rc)
        rc = count_shards(p, &shards, err);
    if (!rc && p->ranks.rank == 0)
        rc = vf_writer_catch_up(p->writer, shards, err);
    if (!rc)
        rc = share_errors(p, err);
    if (!rc)
        rc = share_failed(p, err);
    if (!rc && p->ranks.rank == 0)
        keep_samples(p);
    return rc;
}

void vprep_share_free(vprep *p)
{
    if (p->ranks.mail && p->ranks.mail->f) {
        fclose(p->ranks.mail->f);
        free(p->ranks.mail->data);
    }
    free(p->ranks.mail);
    free(p->ranks.owner);
}
