/* curves.c - reads metrics.jsonl into curves of bounded size; see curves.h */
#include "formats/report/curves.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/os/file.h"
#include "formats/json/json.h"
#include "formats/keys/keymap.h"

enum {
    MAX_BUCKETS = 1000,
    PIECE = 4 << 20,                     /* bytes of a growing file that are read at a time */
    TAIL = 4096                          /* bytes by which a place in it is found again */
};

/* ---- curves ---- */

static void join(vf_bin *to, const vf_bin *from)
{
    to->sum += from->sum;
    to->n += from->n;
    to->least = fmin(to->least, from->least);
    to->greatest = fmax(to->greatest, from->greatest);
}

static void halve(vf_curve *c)
{
    for (int i = 0; i < c->n / 2; i++) {
        c->bin[i] = c->bin[2 * i];
        join(&c->bin[i], &c->bin[2 * i + 1]);
    }
    c->n /= 2;                           /* VF_CURVE_BINS is even, so no bin is left over */
    c->each *= 2;
}

void vf_curve_add(vf_curve *c, double x, double y)
{
    if (!isfinite(y) || !isfinite(x))
        return;
    if (!c->points || y < c->best) {
        c->best = y;
        c->best_x = x;
    }
    c->points++;
    c->sum += y;
    c->last = y;
    c->each = c->each ? c->each : 1;

    const vf_bin one = { x, y, y, y, 1 };
    if (c->n && c->bin[c->n - 1].n < c->each) {
        join(&c->bin[c->n - 1], &one);
        return;
    }
    if (c->n == VF_CURVE_BINS)
        halve(c);
    c->bin[c->n++] = one;
}

typedef struct window { double mean, variance; uint64_t points; } window;   /* of the mean */

static window window_of(const vf_curve *c, int from, int to)
{
    window w = { 0 };
    double sum = 0, square = 0, n = to - from;
    for (int i = from; i < to; i++) {
        const double mean = c->bin[i].sum / (double)c->bin[i].n;
        w.points += c->bin[i].n;
        sum += mean;
        square += mean * mean;
    }
    w.mean = sum / n;
    w.variance = fmax(0, square / n - w.mean * w.mean) / (n - 1);
    return w;
}

bool vf_curve_trend(const vf_curve *c, vf_trend *t)
{
    const int n = c->n / 10 > 20 ? c->n / 10 : 20;
    if (c->n < 2 * n)
        return false;
    /* a last bin that is not full counts as the others */
    const window now = window_of(c, c->n - n, c->n), before = window_of(c, c->n - 2 * n, c->n - n);
    const double off = now.mean - before.mean, noise = sqrt(now.variance + before.variance);
    *t = (vf_trend){ now.mean, before.mean, now.points, (off > 2 * noise) - (off < -2 * noise) };
    return true;
}

/* ---- a line ---- */

static double number(const cJSON *o, const char *field)
{
    const cJSON *v = cJSON_GetObjectItemCaseSensitive(o, field);
    return cJSON_IsNumber(v) ? v->valuedouble : NAN;
}

static int count_bucket(vf_curves *c, const char *name, size_t n, double loss, double step,
                        vc_err *err)
{
    int i = 0;
    n = n < sizeof c->bucket->name ? n : sizeof c->bucket->name - 1;
    while (i < c->n_buckets && (strncmp(c->bucket[i].name, name, n) || c->bucket[i].name[n]))
        i++;
    if (i == MAX_BUCKETS)
        return 0;                        /* a table of more buckets would not be readable */
    if (i == c->n_buckets) {
        vf_run_bucket *more = realloc(c->bucket, ((size_t)i + 1) * sizeof *more);
        if (!more)
            return vc_fail(err, VC_ENOMEM, "out of memory for %d buckets", i + 1);
        c->bucket = more;
        c->bucket[i] = (vf_run_bucket){ 0 };
        memcpy(c->bucket[i].name, name, n);
        c->n_buckets++;
        if (i < VF_BUCKET_CURVES && !(c->bucket[i].curve = calloc(1, sizeof *c->bucket[i].curve)))
            return vc_fail(err, VC_ENOMEM, "out of memory for %d buckets", i + 1);
    }
    c->bucket[i].steps++;
    if (isfinite(loss)) {
        c->bucket[i].losses++;
        c->bucket[i].loss += loss;
        if (c->bucket[i].curve)
            vf_curve_add(c->bucket[i].curve, step, loss);
    }
    return 0;
}

static int count_samples(vf_curves *c, const cJSON *list, vc_err *err)
{
    const cJSON *s;
    cJSON_ArrayForEach(s, list)
        if (cJSON_IsString(s)) {
            vf_key key = vf_hash(s->valuestring, strlen(s->valuestring));
            int rc = vf_keymap_put(&c->keys, key, 1, err);
            if (rc)
                return rc;
        }
    c->seen = c->keys.n;
    return 0;
}

static void add_levels(vf_curve level[VF_NOISE_LEVELS], const cJSON *list, double step)
{
    const cJSON *v;
    int n = 0;
    cJSON_ArrayForEach(v, list)
        if (n < VF_NOISE_LEVELS)
            vf_curve_add(&level[n++], step, cJSON_IsNumber(v) ? v->valuedouble : NAN);
}

/* Counts the buckets of a step. Where it has several, their losses are listed; older lines have the
 * step's loss alone, which then counts for each. */
static int count_buckets(vf_curves *c, const cJSON *o, double loss, double step, vc_err *err)
{
    const cJSON *bucket = cJSON_GetObjectItemCaseSensitive(o, "bucket"), *v;
    const cJSON *parts = cJSON_GetObjectItemCaseSensitive(o, "loss_buckets");
    const char *name = cJSON_IsString(bucket) && !parts ? bucket->valuestring : "";
    int rc = 0;
    cJSON_ArrayForEach(v, parts)
        if (!rc && v->string)
            rc = count_bucket(c, v->string, strlen(v->string),
                              cJSON_IsNumber(v) ? v->valuedouble : NAN, step, err);
    while (*name && !rc) {
        size_t n = strcspn(name, ",");
        rc = count_bucket(c, name, n, loss, step, err);
        name += n + (name[n] == ',');
    }
    return rc;
}

static int add_line(vf_curves *c, const cJSON *o, vc_err *err)
{
    const struct { vf_curve *curve; const char *field; } column[] = {
        { &c->loss, "loss" }, { &c->eval, "eval_loss" }, { &c->lr, "lr" },
        { &c->d, "d" }, { &c->own, "loss_own" }, { &c->prior, "loss_prior" },
        { &c->video, "loss_video" }, { &c->audio, "loss_audio" },
        { &c->grad_norm, "grad_norm" }, { &c->tokens, "tokens_per_s" }, { &c->step_s, "step_s" },
        { &c->wait, "data_wait_s" }, { &c->memory, "peak_bytes" }, { &c->epochs, "epoch" },
    };
    double step = number(o, "step");

    c->steps++;
    for (size_t i = 0; i < sizeof column / sizeof *column; i++)
        vf_curve_add(column[i].curve, step, number(o, column[i].field));
    add_levels(c->level, cJSON_GetObjectItemCaseSensitive(o, "loss_levels"), step);
    add_levels(c->eval_level, cJSON_GetObjectItemCaseSensitive(o, "eval_levels"), step);
    if (c->step_s.points)
        vf_curve_add(&c->hours, step, c->step_s.sum / 3600);
    double peak = number(o, "peak_bytes");
    if (peak > (double)c->peak_bytes)
        c->peak_bytes = (int64_t)peak;
    c->step = (int64_t)step;
    c->epoch = number(o, "epoch");
    c->dropout = number(o, "caption_dropout");

    int rc = count_buckets(c, o, number(o, "loss"), step, err);
    return rc ? rc : count_samples(c, cJSON_GetObjectItemCaseSensitive(o, "samples"), err);
}

static int read_lines(vf_curves *c, const char *text, size_t size, vc_err *err)
{
    int rc = 0;
    for (size_t at = 0; at < size && !rc;) {
        const char *line = text + at, *end = memchr(line, '\n', size - at);
        size_t n = end ? (size_t)(end - line) : size - at;
        cJSON *o;
        rc = vf_json_parse(&o, line, n, err);
        if (!rc && cJSON_IsObject(o) && isfinite(number(o, "step")))
            rc = add_line(c, o, err);
        else if (rc != VC_ENOMEM) {
            c->unreadable++;
            rc = 0;
        }
        cJSON_Delete(o);
        at += n + 1;
    }
    return rc;
}

/* ---- all ---- */

int vf_curves_read(vf_curves **out, const char *dir, vc_err *err)
{
    *out = NULL;
    vf_curves *c = calloc(1, sizeof *c);
    char *path = vc_path_join(dir, "metrics.jsonl");
    vc_map map = { 0 };
    int rc = c && path ? vc_map_open(&map, path, err)
                       : vc_fail(err, VC_ENOMEM, "%s: out of memory", dir);
    if (!rc)
        rc = read_lines(c, (const char *)map.data, map.size, err);
    if (!rc) {
        *out = c;
        c = NULL;
    }
    vc_map_close(&map);
    vf_curves_free(c);
    free(path);
    return rc;
}

void vf_curves_free(vf_curves *c)
{
    if (!c)
        return;
    for (int i = 0; i < c->n_buckets; i++)
        free(c->bucket[i].curve);
    free(c->bucket);
    vf_keymap_free(&c->keys);
    free(c);
}

/* ---- a file that grows ---- */

static ssize_t read_at(int fd, char *to, size_t n, int64_t at)
{
    size_t got = 0;
    for (ssize_t r = 1; got < n && r; got += r > 0 ? (size_t)r : 0) {
        r = pread(fd, to + got, n - got, (off_t)at + (off_t)got);
        if (r < 0 && errno != EINTR)
            return -1;
    }
    return (ssize_t)got;
}

/* Hashes the bytes before `at` with which the place is found again. */
static int hash_tail(vf_key *tail, int fd, char *buf, int64_t at)
{
    size_t n = at < TAIL ? (size_t)at : TAIL;
    if (read_at(fd, buf, n, at - (int64_t)n) != (ssize_t)n)
        return -1;
    *tail = vf_hash(buf, n);
    return 0;
}

/* Reads whole lines from c->read on. A line that is longer than the buffer is unreadable. */
static int read_on(vf_curves *c, int fd, char *buf, vc_err *err)
{
    for (int rc; ;) {
        ssize_t got = read_at(fd, buf, PIECE, c->read);
        const char *end = got > 0 ? memrchr(buf, '\n', (size_t)got) : NULL;
        size_t n = end ? (size_t)(end - buf) + 1 : got == PIECE ? PIECE : 0;
        if (got < 0)
            return vc_fail_errno(err, "metrics.jsonl");
        rc = n ? read_lines(c, buf, n, err) : 0;
        if (!n || rc)
            return rc;
        c->read += (int64_t)n;
    }
}

static int follow(vf_curves **c, int fd, char *buf, vc_err *err)
{
    vf_key tail = { 0 };
    if (*c && (hash_tail(&tail, fd, buf, (*c)->read) || memcmp(&tail, &(*c)->tail, sizeof tail))) {
        vf_curves_free(*c);
        *c = NULL;
    }
    if (!*c && !(*c = calloc(1, sizeof **c)))
        return vc_no_memory(err);
    int rc = read_on(*c, fd, buf, err);
    if (!rc && hash_tail(&(*c)->tail, fd, buf, (*c)->read))
        rc = vc_fail(err, VC_EIO, "metrics.jsonl: it was cut while it was read");
    return rc;
}

int vf_curves_follow(vf_curves **c, const char *dir, vc_err *err)
{
    char *path = vc_path_join(dir, "metrics.jsonl"), *buf = malloc(PIECE);
    int fd = path ? open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK) : -1;
    struct stat st;
    int rc = 0;
    if (!path || !buf)
        rc = vc_no_memory(err);
    else if (fd < 0 || fstat(fd, &st))
        rc = vc_fail_errno(err, "%s", path);
    else if (!S_ISREG(st.st_mode))
        rc = vc_fail(err, VC_EFORMAT, "%s: not a file", path);
    else
        rc = vc_context(err, follow(c, fd, buf, err), "%s", dir);
    if (rc) {
        vf_curves_free(*c);
        *c = NULL;
    }
    if (fd >= 0)
        close(fd);
    free(buf);
    free(path);
    return rc;
}
