/* base.c - hashes the weights that a run began with, in the background; see base.h */
#include "train/setup/base.h"

#include <stdlib.h>
#include <string.h>

#include "common/os/file.h"
#include "train/models/weights.h"
#include "train/setup/beside.h"

struct vtrain_base {
    const vtrain_weights *weights[VTRAIN_HALVES];      /* of two transformers; else one, and NULL */
    const vf_model *beside;                   /* what runs with them, or NULL */
    char *path;
    vtrain_base_id id;                        /* path borrowed */
    bool known;                               /* id.weights is filled in */
    vtrain_beside job;                        /* hashes the weights into id.weights */
    int rc;                                   /* of the job */
    vc_err err;
};

/* Makes one key of two, that of a transformer and that of the part `name` of the model. */
static vf_key joined(const vf_key *a, const char *name, const vf_key *b)
{
    vf_hasher h;
    vf_hasher_begin(&h, "transformers");
    vf_hasher_bytes(&h, "transformer", a, sizeof *a);
    vf_hasher_bytes(&h, name, b, sizeof *b);
    return vf_hasher_end(&h);
}

static int hash_all(vtrain_base *b, const atomic_int *stop, vc_err *err)
{
    vf_key more;
    int rc = vtrain_weights_hash(&b->id.weights, b->weights[0], stop, err);
    if (!rc && b->weights[1]) {
        rc = vtrain_weights_hash(&more, b->weights[1], stop, err);
        b->id.weights = rc ? b->id.weights : joined(&b->id.weights, "transformer_2", &more);
    }
    if (!rc && b->beside) {
        rc = vf_model_hash(&more, b->beside, stop, err);
        b->id.weights = rc ? b->id.weights : joined(&b->id.weights, "beside", &more);
    }
    return rc;
}

static void hash(void *arg, const atomic_int *stop)
{
    vtrain_base *b = arg;
    b->rc = hash_all(b, stop, &b->err);
}

static bool same_key(const vf_key *a, const vf_key *b)
{
    return !memcmp(a, b, sizeof *a);
}

/* Hashes all weights now, because the files are not those that the checkpoint records. */
static int compare_bytes(vtrain *t, vtrain_base *b, const vtrain_base_id *had, vc_err *err)
{
    char is[VF_KEY_HEX], was[VF_KEY_HEX];
    vc_say(t->ui, "%s: these files are not those that the checkpoint began with: their weights are "
           "hashed and compared", b->id.path);
    int rc = hash_all(b, t->stop, err);
    b->known = rc == 0;
    if (rc || same_key(&b->id.weights, &had->weights))
        return rc;
    return vc_fail(err, VC_EMISMATCH, "%s: other weights (XXH3-128 %s) than those that %s was "
                   "trained on (%s, XXH3-128 %s): give these, or --allow_mismatch", b->id.path,
                   vf_key_hex(is, b->id.weights), t->from.dir, had->path,
                   vf_key_hex(was, had->weights));
}

static int compare(vtrain *t, vtrain_base *b, vc_err *err)
{
    const vtrain_base_id *had = &t->from.state.base;
    if (!had->path) {
        vc_say(t->ui, "%s does not record which weights it began with: they are not compared with "
               "%s", t->from.dir, b->id.path);
        return 0;
    }
    if (same_key(&had->files, &b->id.files)) {
        b->id.weights = had->weights;
        b->known = true;
        return 0;
    }
    int rc = vc_comm_local(t->comm) == 0 ? compare_bytes(t, b, had, err) : 0;
    if (rc != VC_EMISMATCH || !t->cfg.allow_mismatch)
        return rc;
    vc_warn(t->ui, "%s", err->text);
    return 0;
}

/* Fails where this run begins with noise of the seed, but the checkpoint's run began with files. */
static int check_noise(const vtrain *t, vc_err *err)
{
    char was[VF_KEY_HEX];
    const vtrain_base_id *had = &t->from.state.base;
    if (!had->path || t->cfg.allow_mismatch)
        return 0;
    return vc_fail(err, VC_EMISMATCH, "%s was trained on the weights of %s (XXH3-128 %s), but this "
                   "run begins with noise: give --model or --transformer, or --allow_mismatch",
                   t->from.dir, had->path, vf_key_hex(was, had->weights));
}

static bool all_trained(const vtrain *t)
{
    int i = 0, n = vt_params_count(t->params);
    while (i < n && vt_params_at(t->params, i)->trained)
        i++;
    return i == n;
}

int vtrain_base_open(vtrain *t, vc_err *err)
{
    if (all_trained(t) && !t->model.beside)
        return 0;
    if (!t->model.weights)
        return check_noise(t, err);
    vtrain_base *b = t->compared.base = calloc(1, sizeof *b);
    if (!b)
        return vc_no_memory(err);
    const vtrain_weights *low = t->model.low_weights;
    b->weights[0] = t->model.weights;
    b->weights[1] = low;
    b->path = vc_format("%s%s%s", vtrain_weights_path(t->model.weights), low ? " and " : "",
                        low ? vtrain_weights_path(low) : "");
    if (!b->path)
        return vc_no_memory(err);
    b->id.path = b->path;
    b->id.files = vtrain_weights_files(t->model.weights);
    if (low) {
        const vf_key of_low = vtrain_weights_files(low);
        b->id.files = joined(&b->id.files, "transformer_2", &of_low);
    }
    b->beside = t->model.beside;
    if (b->beside)
        b->id.files = joined(&b->id.files, "beside", &t->model.beside_files);
    int rc = t->from.dir ? compare(t, b, err) : 0;
    if (rc || b->known || t->cfg.dry_run || !vtrain_leads(t))
        return rc;
    return vtrain_beside_start(&b->job, hash, b, err);
}

int vtrain_base_id_get(vtrain_base_id *to, const vtrain *t, vc_err *err)
{
    vtrain_base *b = t->compared.base;
    *to = (vtrain_base_id){ 0 };
    if (!b)
        return 0;
    vtrain_beside_wait(&b->job, NULL);
    if (vtrain_beside_ended(&b->job))
        b->known = b->rc == 0;
    if (!b->known) {
        if (err)
            *err = b->err;
        return b->rc;
    }
    *to = b->id;
    return 0;
}

void vtrain_base_close(vtrain_base *b)
{
    if (!b)
        return;
    vtrain_beside_stop(&b->job);
    free(b->path);
    free(b);
}
