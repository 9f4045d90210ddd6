/* ckpt_state.c - writes and reads trainer.json, a run's state as JSON; see ckpt.h */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/os/file.h"
#include "train/output/ckpt.h"

enum {
    MAX_STATE = 64 << 20,
    MOST_BATCH = 1 << 16, MOST_RUNS = 1 << 20      /* of a rank's batches a step, and of ranks */
};
#define MOST_EPOCHS 1e15

#define STATE "trainer.json"

static int add_sets(cJSON *o, const vtrain_state *s)
{
    cJSON *list = cJSON_AddArrayToObject(o, "data");
    for (int i = 0; i < s->n_sets && list; i++) {
        cJSON *d = cJSON_CreateObject();
        if (!cJSON_AddItemToArray(list, d) ||
            !cJSON_AddStringToObject(d, "path", s->sets[i].path) ||
            !cJSON_AddStringToObject(d, "root", s->sets[i].root) ||
            (s->sets[i].plan && !cJSON_AddStringToObject(d, "plan", s->sets[i].plan)) ||
            vf_json_add_int(d, "samples", s->sets[i].samples))
            return -1;
    }
    return list ? 0 : -1;
}

/* Adds a number of 64 bits as text, because JSON numbers are exact only to 2^53. */
static int add_u64(cJSON *o, const char *field, uint64_t v)
{
    char text[32];
    snprintf(text, sizeof text, "%" PRIu64, v);
    return cJSON_AddStringToObject(o, field, text) ? 0 : -1;
}

static int add_order(cJSON *o, const vtrain_span *p)
{
    return !cJSON_AddNumberToObject(o, "epochs_done", p->done) ||
           vf_json_add_int(o, "micro_batch_size", p->batch) || add_u64(o, "seed", p->seed) ||
           (p->rest && !cJSON_AddTrueToObject(o, "rest")) || add_u64(o, "visits", p->visits)
           ? -1 : 0;
}

static int add_spans(cJSON *o, const vtrain_state *s)
{
    cJSON *list = cJSON_AddArrayToObject(o, "epochs");
    for (int i = 0; i < s->n_spans && list; i++) {
        const vtrain_span *p = &s->span[i];
        cJSON *e = cJSON_CreateObject(), *parts = NULL;
        if (!cJSON_AddItemToArray(list, e) || vf_json_add_int(e, "epoch", (int64_t)p->epoch) ||
            vf_json_add_int(e, "micro_batch", (int64_t)p->micro) || add_order(e, p) ||
            !(parts = cJSON_AddArrayToObject(e, "data")))
            return -1;
        for (int k = 0; k < p->n_parts; k++) {
            cJSON *d = cJSON_CreateObject();
            if (!cJSON_AddItemToArray(parts, d) ||
                vf_json_add_int(d, "shards", p->part[k].shards) ||
                vf_json_add_int(d, "samples", p->part[k].samples) ||
                !cJSON_AddStringToObject(d, "root", p->part[k].root))
                return -1;
        }
    }
    return list ? 0 : -1;
}

static int add_base(cJSON *o, const vtrain_base_id *base)
{
    char files[VF_KEY_HEX], weights[VF_KEY_HEX];
    cJSON *b = base->path ? cJSON_AddObjectToObject(o, "base") : NULL;
    if (!base->path)
        return 0;
    return b && cJSON_AddStringToObject(b, "path", base->path) &&
           cJSON_AddStringToObject(b, "files", vf_key_hex(files, base->files)) &&
           cJSON_AddStringToObject(b, "weights", vf_key_hex(weights, base->weights)) ? 0 : -1;
}

/* Adds what is known of the last step. */
static int add_last(cJSON *o, const vtrain_state *s)
{
    if (s->counted && vf_json_add_int(o, "step_epoch", s->step_epoch))
        return -1;
    return !s->evaluated || cJSON_AddNumberToObject(o, "eval_loss", s->eval_loss) ? 0 : -1;
}

static cJSON *state_json(const vtrain_state *s)
{
    cJSON *o = cJSON_CreateObject();
    if (vf_json_add_int(o, "format", 1) ||
        !cJSON_AddStringToObject(o, "program", "vlt " VLT_VERSION) ||
        vf_json_add_int(o, "step", s->step) ||
        vf_json_add_int(o, "micro_batch", (int64_t)s->micro) ||
        add_u64(o, "seed", s->seed) ||
        vf_json_add_int(o, "train_batch_size", s->batch) ||
        vf_json_add_int(o, "gradient_accumulation_steps", s->accumulation) ||
        vf_json_add_int(o, "ranks", s->ranks) ||
        vf_json_add_int(o, "micro_batch_size", s->micro_rows) ||
        !cJSON_AddStringToObject(o, "family", s->family) ||
        !cJSON_AddStringToObject(o, "training_type", s->training_type) ||
        !cJSON_AddStringToObject(o, "backend", s->backend) ||
        vf_json_add_int(o, "captions", (int64_t)s->rows) ||
        vf_json_add_int(o, "captions_dropped", (int64_t)s->dropped) ||
        (s->halves && (vf_json_add_int(o, "updates_high", s->updates[0]) ||
                       vf_json_add_int(o, "updates_low", s->updates[1]))) ||
        (s->average_from && vf_json_add_int(o, "average_from", s->average_from)) ||
        (s->planned && vf_json_add_int(o, "planned_steps", s->planned)) ||
        add_sets(o, s) ||
        vf_json_add_int(o, "epoch", (int64_t)s->epochs) ||
        !cJSON_AddNumberToObject(o, "epochs_done", s->epochs) || add_last(o, s) ||
        add_spans(o, s) ||
        add_base(o, &s->base) ||
        (s->sources && !cJSON_AddItemReferenceToObject(o, "sources", s->sources)) ||
        (s->numbers && !cJSON_AddItemReferenceToObject(o, "optimizer", s->numbers)) ||
        !cJSON_AddItemReferenceToObject(o, "settings", s->settings)) {
        cJSON_Delete(o);
        return NULL;
    }
    return o;
}

int vtrain_state_write(const vtrain_state *s, const char *dir, vf_sums *sums, vc_err *err)
{
    cJSON *o = state_json(s);
    if (o && sums && !cJSON_AddTrueToObject(o, "checksums")) {
        cJSON_Delete(o);
        o = NULL;
    }
    char *text = o ? vf_json_line(o) : NULL, *path = vc_path_join(dir, STATE);
    int rc = text && path ? vf_sums_put(sums, path, text, strlen(text), err)
                          : vc_fail(err, VC_ENOMEM, "%s/" STATE ": out of memory", dir);
    free(path);
    free(text);
    cJSON_Delete(o);
    return rc;
}

static int read_text(const cJSON *o, const char *field, char **v, vc_err *err)
{
    const char *s;
    int rc = vf_json_str(o, field, &s, err);
    if (rc)
        return rc;
    *v = strdup(s);
    return *v ? 0 : vc_fail(err, VC_ENOMEM, "%s: out of memory", field);
}

static int read_int(const cJSON *o, const char *field, int64_t lo, int64_t *v, vc_err *err)
{
    int rc = vf_json_int(o, field, v, err);
    if (!rc && *v < lo)
        rc = vc_fail(err, VC_EFORMAT, "%s: %" PRId64 " is below %" PRId64, field, *v, lo);
    return rc;
}

/* Reads a count that is 0 where the field is missing. */
static int read_int_opt(const cJSON *o, const char *field, int64_t *v, vc_err *err)
{
    *v = 0;
    return cJSON_GetObjectItemCaseSensitive(o, field) ? read_int(o, field, 0, v, err) : 0;
}

static int read_count(const cJSON *o, const char *field, uint64_t *v, vc_err *err)
{
    int64_t n;
    int rc = read_int(o, field, 0, &n, err);
    if (!rc)
        *v = (uint64_t)n;
    return rc;
}

static int read_u64(const cJSON *o, const char *field, uint64_t *v, vc_err *err)
{
    const char *s;
    char *end;
    int rc = vf_json_str(o, field, &s, err);
    if (rc)
        return rc;
    errno = 0;
    *v = strtoull(s, &end, 10);
    return *s >= '0' && *s <= '9' && !*end && !errno
               ? 0 : vc_fail(err, VC_EFORMAT, "%s: a number of 64 bits expected, as a string",
                             field);
}

/* Reads a number of epochs; `old` where the field is missing. */
static int read_epochs(const cJSON *o, double old, double *v, vc_err *err)
{
    *v = old;
    int rc = vf_json_num_opt(o, "epochs_done", v, err);
    if (!rc && !(*v >= 0 && *v < MOST_EPOCHS))
        rc = vc_fail(err, VC_EFORMAT, "epochs_done: %g", *v);
    return rc;
}

/* Reads the order of a span; one of an earlier version has the checkpoint's batch and seed. */
static int read_order(vtrain_span *s, const cJSON *o, const vtrain_state *of, vc_err *err)
{
    s->batch = of->batch;
    s->seed = of->seed;
    int rc = read_epochs(o, (double)s->epoch, &s->done, err);
    if (rc || !cJSON_HasObjectItem(o, "micro_batch_size"))
        return rc;
    if ((rc = read_int(o, "micro_batch_size", 1, &s->batch, err)) ||
        (rc = read_u64(o, "seed", &s->seed, err)) ||
        (rc = read_u64(o, "visits", &s->visits, err)) ||
        (rc = vf_json_bool_opt(o, "rest", &s->rest, err)))
        return rc;
    return s->batch <= MOST_BATCH ? 0 : vc_fail(err, VC_EFORMAT, "micro_batch_size: %" PRId64,
                                                    s->batch);
}

static int read_sets(vtrain_state *s, const cJSON *o, vc_err *err)
{
    const cJSON *list, *d;
    int rc = vf_json_arr(o, "data", &list, err);
    if (rc)
        return rc;
    s->sets = calloc((size_t)cJSON_GetArraySize(list) + 1, sizeof *s->sets);
    if (!s->sets)
        return vc_fail(err, VC_ENOMEM, "data: out of memory");
    cJSON_ArrayForEach(d, list) {
        vtrain_ckpt_set *set = &s->sets[s->n_sets++];
        if ((rc = read_text(d, "path", &set->path, err)) ||
            (rc = read_text(d, "root", &set->root, err)) ||
            (cJSON_HasObjectItem(d, "plan") && (rc = read_text(d, "plan", &set->plan, err))) ||
            (rc = read_int(d, "samples", 0, &set->samples, err)))
            return vc_context(err, rc, "data[%d]", s->n_sets - 1);
    }
    return 0;
}

static int read_part(vtrain_part *p, const cJSON *o, vc_err *err)
{
    const char *root;
    int64_t shards;
    int rc = read_int(o, "shards", 1, &shards, err);
    if (!rc && shards > INT_MAX)
        rc = vc_fail(err, VC_EFORMAT, "shards: %" PRId64, shards);
    if (rc || (rc = read_int(o, "samples", 0, &p->samples, err)) ||
        (rc = vf_json_str(o, "root", &root, err)))
        return rc;
    p->shards = (int)shards;
    if (strlen(root) != sizeof p->root - 1)
        return vc_fail(err, VC_EFORMAT, "root: 32 hex digits expected");
    memcpy(p->root, root, sizeof p->root);
    return 0;
}

static int read_span(vtrain_span *s, const cJSON *o, const vtrain_state *of, vc_err *err)
{
    const cJSON *parts, *p;
    int rc = read_count(o, "epoch", &s->epoch, err);
    if (rc || (rc = read_count(o, "micro_batch", &s->micro, err)) ||
        (rc = read_order(s, o, of, err)) || (rc = vf_json_arr(o, "data", &parts, err)))
        return rc;
    s->part = calloc((size_t)cJSON_GetArraySize(parts) + 1, sizeof *s->part);
    if (!s->part)
        return vc_no_memory(err);
    cJSON_ArrayForEach(p, parts)
        if (!rc && (rc = read_part(&s->part[s->n_parts++], p, err)))
            vc_context(err, rc, "data[%d]", s->n_parts - 1);
    return rc;
}

/* Checkpoints of the first versions have none, and later ones the next micro-batch's epoch alone,
 * which is taken for a begun one. */
static int read_spans(vtrain_state *s, const cJSON *o, vc_err *err)
{
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(o, "epochs"), *p;
    uint64_t epoch;
    if (!list)
        return 0;
    int rc = vf_json_arr(o, "epochs", &list, err);
    if (rc || (rc = read_count(o, "epoch", &epoch, err)) ||
        (rc = read_epochs(o, (double)epoch + 0.5, &s->epochs, err)))
        return rc;
    s->span = calloc((size_t)cJSON_GetArraySize(list) + 1, sizeof *s->span);
    if (!s->span)
        return vc_fail(err, VC_ENOMEM, "epochs: out of memory");
    cJSON_ArrayForEach(p, list) {
        const vtrain_span *last = s->n_spans ? &s->span[s->n_spans - 1] : NULL;
        vtrain_span *span = &s->span[s->n_spans++];
        rc = read_span(span, p, s, err);
        if (!rc && (span->micro > s->micro || (last && span->micro < last->micro)))
            rc = vc_fail(err, VC_EFORMAT, "micro_batch: %" PRIu64 " is out of order", span->micro);
        if (!rc && span->rest && (!last || !span->micro || span->epoch < last->epoch))
            rc = vc_fail(err, VC_EFORMAT, "rest: no epoch was begun before");
        if (rc)
            return vc_context(err, rc, "epochs[%d]", s->n_spans - 1);
    }
    return 0;
}

/* Reads what is known of the last step. */
static int read_last(vtrain_state *s, const cJSON *o, vc_err *err)
{
    s->counted = cJSON_HasObjectItem(o, "step_epoch");
    s->evaluated = cJSON_HasObjectItem(o, "eval_loss");
    int rc = read_int_opt(o, "step_epoch", &s->step_epoch, err);
    return rc ? rc : vf_json_num_opt(o, "eval_loss", &s->eval_loss, err);
}

static int read_key(const cJSON *o, const char *field, vf_key *k, vc_err *err)
{
    const char *hex;
    int rc = vf_json_str(o, field, &hex, err);
    if (!rc && !vf_key_parse(k, hex))
        rc = vc_fail(err, VC_EFORMAT, "%s: 32 hex digits expected", field);
    return rc;
}

static int read_base(vtrain_base_id *base, const cJSON *o, vc_err *err)
{
    const cJSON *b;
    if (!cJSON_HasObjectItem(o, "base"))
        return 0;
    int rc = vf_json_obj(o, "base", &b, err);
    if (rc)
        return rc;
    if ((rc = read_key(b, "files", &base->files, err)) ||
        (rc = read_key(b, "weights", &base->weights, err)) ||
        (rc = read_text(b, "path", &base->path, err)))
        return vc_context(err, rc, "base");
    return 0;
}

/* Checks that all values of the object are texts. */
static int check_texts(const cJSON *object, const char *name, vc_err *err)
{
    const char *text;
    int rc = 0;
    for (const cJSON *c = object->child; c && !rc; c = c->next)
        rc = vf_json_str(object, c->string, &text, err);
    return vc_context(err, rc, "%s", name);
}

static int read_sources(vtrain_state *s, cJSON *o, vc_err *err)
{
    const cJSON *sources;
    if (!cJSON_HasObjectItem(o, "sources"))
        return 0;
    int rc = vf_json_obj(o, "sources", &sources, err);
    if (!rc)
        rc = check_texts(sources, "sources", err);
    if (!rc)
        s->sources = cJSON_DetachItemFromObjectCaseSensitive(o, "sources");
    return rc;
}

/* Reads the numbers of the optimiser's run, whose names the run compares. */
static int read_numbers(vtrain_state *s, cJSON *o, vc_err *err)
{
    const cJSON *numbers, *x;
    if (!cJSON_HasObjectItem(o, "optimizer"))
        return 0;
    int rc = vf_json_obj(o, "optimizer", &numbers, err);
    if (rc)
        return rc;
    cJSON_ArrayForEach(x, numbers)
        if (!cJSON_IsNumber(x) || !isfinite(x->valuedouble))
            return vc_fail(err, VC_EFORMAT, "optimizer: \"%s\" is no number", x->string);
    s->numbers = cJSON_DetachItemFromObjectCaseSensitive(o, "optimizer");
    return 0;
}

/* Reads the samples of a micro-batch; in checkpoints of earlier versions those of a batch. */
static int read_micro_rows(vtrain_state *s, const cJSON *o, vc_err *err)
{
    s->micro_rows = s->batch;
    if (!cJSON_HasObjectItem(o, "micro_batch_size"))
        return 0;
    return read_int(o, "micro_batch_size", 1, &s->micro_rows, err);
}

static int read_fields(vtrain_state *s, cJSON *o, vc_err *err)
{
    const cJSON *settings;
    int64_t format;
    int rc = vf_json_int(o, "format", &format, err);
    if (!rc && format != 1)
        rc = vc_fail(err, VC_EFORMAT, "format: %" PRId64 ", this program reads 1", format);
    if (rc || (rc = read_int(o, "step", 0, &s->step, err)) ||
        (rc = read_count(o, "micro_batch", &s->micro, err)) ||
        (rc = read_u64(o, "seed", &s->seed, err)) ||
        (rc = read_int(o, "train_batch_size", 1, &s->batch, err)) ||
        (rc = read_int(o, "gradient_accumulation_steps", 1, &s->accumulation, err)) ||
        (rc = read_int(o, "ranks", 1, &s->ranks, err)) || (rc = read_micro_rows(s, o, err)) ||
        (rc = read_text(o, "family", &s->family, err)) ||
        (rc = read_text(o, "training_type", &s->training_type, err)) ||
        (rc = read_text(o, "backend", &s->backend, err)) ||
        (rc = read_count(o, "captions", &s->rows, err)) ||
        (rc = read_count(o, "captions_dropped", &s->dropped, err)) ||
        (rc = read_int_opt(o, "average_from", &s->average_from, err)) ||
        (rc = read_int_opt(o, "planned_steps", &s->planned, err)) ||
        (rc = read_int_opt(o, "updates_high", &s->updates[0], err)) ||
        (rc = read_int_opt(o, "updates_low", &s->updates[1], err)) ||
        (rc = read_last(s, o, err)) ||
        (rc = vf_json_bool_opt(o, "checksums", &s->checksums, err)) ||
        (rc = read_sets(s, o, err)) || (rc = read_spans(s, o, err)) ||
        (rc = read_base(&s->base, o, err)) ||
        (rc = vf_json_obj(o, "settings", &settings, err)) ||
        (rc = check_texts(settings, "settings", err)) ||
        (rc = read_sources(s, o, err)) || (rc = read_numbers(s, o, err)))
        return rc;
    if (s->dropped > s->rows)
        return vc_fail(err, VC_EFORMAT, "captions_dropped: more than captions");
    if (s->updates[0] > s->step || s->updates[1] > s->step)
        return vc_fail(err, VC_EFORMAT, "updates_high, updates_low: more than steps");
    if (s->batch > MOST_BATCH || s->micro_rows > MOST_BATCH || s->accumulation > MOST_RUNS ||
        s->ranks > MOST_RUNS)
        return vc_fail(err, VC_EFORMAT, "train_batch_size %" PRId64 ", micro_batch_size %" PRId64
                       ", gradient_accumulation_steps %" PRId64 ", ranks %" PRId64 ": one of them "
                       "is too large", s->batch, s->micro_rows, s->accumulation, s->ranks);
    if (s->micro > UINT32_MAX)
        return vc_fail(err, VC_EFORMAT, "micro_batch: %" PRIu64 " is above 2^32 - 1", s->micro);
    s->settings = cJSON_DetachItemFromObjectCaseSensitive(o, "settings");
    return 0;
}

int vtrain_state_read(vtrain_state *s, const char *dir, vc_err *err)
{
    *s = (vtrain_state){ 0 };
    cJSON *o;
    int rc = vf_json_read_in(&o, dir, STATE, MAX_STATE, err);
    if (!rc)
        rc = vc_context(err, read_fields(s, o, err), "%s/%s", dir, STATE);
    if (rc)
        vtrain_state_free(s);
    cJSON_Delete(o);
    return rc;
}

void vtrain_spans_free(vtrain_span *s, int n)
{
    for (int i = 0; i < n; i++)
        free(s[i].part);
    free(s);
}

void vtrain_state_free(vtrain_state *s)
{
    vtrain_spans_free(s->span, s->n_spans);
    for (int i = 0; i < s->n_sets; i++) {
        free(s->sets[i].path);
        free(s->sets[i].root);
        free(s->sets[i].plan);
    }
    free(s->sets);
    free(s->base.path);
    free(s->family);
    free(s->training_type);
    free(s->backend);
    cJSON_Delete(s->settings);
    cJSON_Delete(s->sources);
    cJSON_Delete(s->numbers);
    *s = (vtrain_state){ 0 };
}
