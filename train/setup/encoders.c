/* encoders.c - hashes the encoders of --model, and compares them with the datasets'.
 * See encoders.h */
#include "train/setup/encoders.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/os/file.h"
#include "formats/tensors/component.h"
#include "train/setup/beside.h"

#define REMEMBERED "weights.json"
enum { MAX_REMEMBERED = 1 << 20 };                            /* bytes */

/* A component of the model whose weights' hash is in a dataset's manifest. */
typedef struct part {
    char *path;                               /* the component's folder or file; NULL: --model
                                               * lacks it */
    char *set;                                /* the dataset */
    const char *slot;                         /* "vae", "text_encoder", ... */
    bool vae;
    vf_key files;                             /* vf_model_files of the folder */
    vf_key is, made;                          /* hash of the folder's weights, of the dataset's */
    double bytes;
    bool known;                               /* is holds the hash */
    bool tried;                               /* hashing was tried, or is of no use */
    bool compared;
    int rc;                                   /* of hashing */
    vc_err why;
} part;

struct vtrain_encoders {
    part part[2 + VTRAIN_TEXTS];             /* VAE, vision model, text encoders */
    int n;
    bool unsaved;                             /* weights.json lacks a hash that is known */
    vtrain_beside job;                        /* until its end only the job may use part */
};

static bool same_key(const vf_key *a, const vf_key *b)
{
    return !memcmp(a, b, sizeof *a);
}

/* ---- components to compare ---- */

/* The first dataset whose manifest has the hash, or NULL. One is enough: the datasets' fingerprints
 * were compared with each other. */
static const char *dataset_of(const vtrain *t, const char *component, vf_key *made)
{
    for (int i = 0; i < vtrain_data_sets(t->data); i++)
        if (vtrain_data_weights(t->data, i, component, made))
            return vf_dataset_path(vtrain_data_set(t->data, i));
    return NULL;
}

static int add_part(vtrain_encoders *e, const vtrain *t, const char *component, vc_err *err)
{
    part *p = &e->part[e->n];
    *p = (part){ .slot = component, .vae = !strcmp(component, "vae") };
    const char *set = dataset_of(t, component, &p->made);
    if (!set)
        return 0;
    int rc = vf_component_find(&p->path, t->cfg.model, component, err);
    if (rc)
        return rc;
    p->set = strdup(set);
    e->n++;
    if (!p->set)
        return vc_no_memory(err);
    rc = p->path ? vf_model_files(&p->files, &p->bytes, p->path, &p->why) : 0;
    if (rc)
        vc_warn(t->ui, "%s: the weights are not compared with those that %s was made with",
                p->why.text, p->set);
    p->tried = rc || p->bytes <= 0;           /* --model need not hold the component */
    return 0;
}

/* ---- hashes remembered in weights.json ---- */

static const char *text_of(const cJSON *o, const char *field)
{
    const char *s = "";
    vf_json_str_opt(o, field, &s, NULL);
    return s;
}

static void recall_one(vtrain_encoders *e, const cJSON *o)
{
    vf_key files, weights;
    if (!vf_key_parse(&files, text_of(o, "files")))
        return;
    if (!vf_key_parse(&weights, text_of(o, "weights")))
        return;
    const char *slot = text_of(o, "slot");            /* older files have none */
    for (int i = 0; i < e->n; i++) {
        part *p = &e->part[i];
        if (p->tried || !same_key(&p->files, &files) || (*slot && strcmp(slot, p->slot)))
            continue;
        p->is = weights;
        p->known = p->tried = true;
    }
}

/* Ignores a file that cannot be read: the weights are then hashed again. */
static void recall(vtrain_encoders *e, const char *out)
{
    cJSON *all = NULL;
    const cJSON *o;
    char *path = vc_path_join(out, REMEMBERED);
    if (path && !vf_json_read(&all, path, MAX_REMEMBERED, NULL))
        cJSON_ArrayForEach(o, cJSON_GetObjectItemCaseSensitive(all, "weights"))
            recall_one(e, o);
    cJSON_Delete(all);
    free(path);
}

static cJSON *remembered(const vtrain_encoders *e)
{
    char files[VF_KEY_HEX], weights[VF_KEY_HEX];
    cJSON *all = cJSON_CreateObject(), *list = cJSON_AddArrayToObject(all, "weights");
    for (int i = 0; list && i < e->n; i++) {
        const part *p = &e->part[i];
        cJSON *o = p->known ? cJSON_CreateObject() : NULL;
        if (!p->known)
            continue;
        if (!cJSON_AddItemToArray(list, o) || !cJSON_AddStringToObject(o, "path", p->path) ||
            !cJSON_AddStringToObject(o, "slot", p->slot) ||
            !cJSON_AddStringToObject(o, "files", vf_key_hex(files, p->files)) ||
            !cJSON_AddStringToObject(o, "weights", vf_key_hex(weights, p->is)))
            list = NULL;
    }
    if (list)
        return all;
    cJSON_Delete(all);
    return NULL;
}

/* A failure is a warning: the next run then hashes the weights again. */
static void remember(const vtrain *t, vtrain_encoders *e)
{
    vc_err why = { 0 };
    if (!e->unsaved)
        return;
    e->unsaved = false;
    cJSON *o = remembered(e);
    char *text = o ? vf_json_line(o) : NULL;
    char *path = vc_path_join(t->cfg.output_dir, REMEMBERED);
    int rc = text && path ? vc_file_write(path, text, strlen(text), &why)
                          : vc_fail(&why, VC_ENOMEM, "%s: out of memory", REMEMBERED);
    if (rc)
        vc_warn(t->ui, "%s", why.text);
    free(path);
    free(text);
    cJSON_Delete(o);
}

/* ---- hashing ---- */

static void hash(part *p, const atomic_int *stop)
{
    vf_model *m;
    p->tried = true;
    p->rc = vf_component_open(&m, p->path, p->slot, &p->why);
    if (p->rc)
        return;
    p->rc = vc_maps_check(vf_model_hash(&p->is, m, stop, &p->why), &p->why);
    p->known = p->rc == 0;
    vf_model_close(m);
}

/* A component that cannot be hashed is a warning: the run does not need its weights. */
static void note_hash(const vtrain *t, vtrain_encoders *e, const part *p)
{
    e->unsaved |= p->known;
    if (p->rc)
        vc_warn(t->ui, "%s: %s: the weights are not compared with those that %s was made with",
                p->path, p->why.text, p->set);
}

static int hash_vae(const vtrain *t, vtrain_encoders *e, vc_err *err)
{
    char size[32];
    for (int i = 0; i < e->n; i++) {
        part *p = &e->part[i];
        if (!p->vae || p->tried)
            continue;
        vc_say(t->ui, "%s: hashing %s of weights, to compare them with those that %s was made with",
               p->path, vc_human_bytes(size, p->bytes), p->set);
        hash(p, t->stop);
        if (p->rc == VC_ESTOP)
            return vc_fail(err, p->rc, "stopped");
        note_hash(t, e, p);
    }
    return 0;
}

static void hash_rest(void *arg, const atomic_int *stop)
{
    vtrain_encoders *e = arg;
    for (int i = 0; i < e->n && !*stop; i++)
        if (!e->part[i].tried)
            hash(&e->part[i], stop);
}

/* ---- comparing ---- */

/* Adds a part that differs to the list of them; NULL when out of memory. */
static char *add_difference(char *list, const part *p)
{
    char is[VF_KEY_HEX], made[VF_KEY_HEX];
    char *more = list ? vc_format("%s%s%s: other weights (XXH3-128 %s) than %s was made with (%s)",
                                  list, *list ? "; " : "", p->path, vf_key_hex(is, p->is), p->set,
                                  vf_key_hex(made, p->made)) : NULL;
    free(list);
    return more;
}

/* Compares the hashes that are known; VC_EMISMATCH names all that differ. */
static int compare(const vtrain *t, vtrain_encoders *e, vc_err *err)
{
    char *list = strdup("");
    for (int i = 0; i < e->n; i++) {
        part *p = &e->part[i];
        if (p->known && !p->compared && !same_key(&p->is, &p->made))
            list = add_difference(list, p);
        p->compared |= p->known;
    }
    int rc = !list ? vc_no_memory(err) : 0;
    if (!rc && *list && t->cfg.allow_mismatch)
        vc_warn(t->ui, "%s", list);
    else if (!rc && *list)
        rc = vc_fail(err, VC_EMISMATCH, "%s: give the --model that vprep was given, encode the "
                     "dataset with this one, or --allow_mismatch", list);
    free(list);
    return rc;
}

/* ---- the run's calls ---- */

int vtrain_encoders_open(vtrain *t, vc_err *err)
{
    if (!t->cfg.model || !vtrain_leads(t))
        return 0;
    vtrain_encoders *e = t->compared.encoders = calloc(1, sizeof *e);
    if (!e)
        return vc_no_memory(err);
    int rc = add_part(e, t, "vae", err);
    if (!rc)
        rc = add_part(e, t, "image_encoder", err);
    for (int i = 0; !rc && i < vtrain_data_slots(t->data); i++)
        rc = add_part(e, t, vtrain_data_slot(t->data, i)->name, err);
    if (rc)
        return rc;
    recall(e, t->cfg.output_dir);
    rc = hash_vae(t, e, err);
    return rc ? rc : compare(t, e, err);
}

int vtrain_encoders_begin(vtrain *t, vc_err *err)
{
    char size[32];
    bool all = true;
    vtrain_encoders *e = t->compared.encoders;
    for (int i = 0; e && i < e->n; i++) {
        const part *p = &e->part[i];
        if (p->tried)
            continue;
        all = false;
        vc_say(t->ui, "%s: hashing %s of weights in the background, to compare them with those "
               "that %s was made with", p->path, vc_human_bytes(size, p->bytes), p->set);
    }
    if (e)
        remember(t, e);
    return all ? 0 : vtrain_beside_start(&e->job, hash_rest, e, err);
}

int vtrain_encoders_check(vtrain *t, bool wait, vc_err *err)
{
    vtrain_encoders *e = t->compared.encoders;
    if (!e)
        return 0;
    if (wait)
        vtrain_beside_wait(&e->job, t->stop);
    if (!vtrain_beside_ended(&e->job))
        return 0;
    for (int i = 0; i < e->n; i++)
        if (!e->part[i].vae)
            note_hash(t, e, &e->part[i]);
    remember(t, e);
    return compare(t, e, err);
}

void vtrain_encoders_close(vtrain_encoders *e)
{
    if (!e)
        return;
    vtrain_beside_stop(&e->job);
    for (int i = 0; i < e->n; i++) {
        free(e->part[i].path);
        free(e->part[i].set);
    }
    free(e);
}
