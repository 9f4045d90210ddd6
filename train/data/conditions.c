/* conditions.c - fits the data to a transformer: frames in front, and conditions. See data.h */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/os/file.h"
#include "train/data/kinds.h"
#include "train/data/parts.h"
#include "train/models/dit.h"

/* ---- frames in front ---- */

int vtrain_data_frames(const vtrain_data *d, int f)
{
    int m = d->frame_multiple > 1 ? d->frame_multiple : 1;
    return (f + m - 1) / m * m;
}

static int references_of(const vtrain_own *own)
{
    int n = 0;
    while (own && n < VC_REFERENCES && own->size[n][0])
        n++;
    return n;
}

/* Counts tokens by the transformer's patches: records count them for the family that the dataset
 * was made for, which may have other patches. */
static void pad_groups(vtrain_data *d, const vtrain_fit *fit)
{
    d->frame_multiple = fit->pad_front ? fit->mult[0] : 1;
    for (uint32_t i = 0; i < d->n_groups; i++) {
        vtrain_group *g = &d->group[i];
        g->padded = vtrain_data_frames(d, g->f) +
                    (fit->references_in_front ? references_of(&g->own) : 0);
        g->tokens = (uint32_t)(g->padded / fit->mult[0]) * (uint32_t)(g->h / fit->mult[1]) *
                    (uint32_t)(g->w / fit->mult[2]);
    }
}

/* ---- scaling ---- */

/* Whether a value consists of the VAE's channels. */
static bool is_latent(const vc_role_row *row)
{
    return row->kind != VC_VALUE_MASK && row->kind != VC_VALUE_EMBEDS;
}

static int make_role_norm(vtrain_data *d, vc_role role, vtrain_scale scale, vc_err *err)
{
    bool own = is_latent(&vc_roles[role]), latent = scale == VTRAIN_SCALE_LATENT;
    double factor = scale == VTRAIN_SCALE_INVERT && d->invert ? 1 / d->scaling : d->scaling;
    vtrain_norm *n = &d->role_norm[role];
    int rc = vtrain_norm_alloc(n, vtrain_role_channels(d, role), err);

    for (int c = 0; !rc && c < n->channels; c++) {
        n->sub[c] = latent && own ? d->norm.sub[c] : 0;
        n->mul[c] = !latent ? (float)factor : own ? d->norm.mul[c] : 1;
        if (!isfinite(n->mul[c]) || n->mul[c] == 0)
            rc = vc_fail(err, VC_EFORMAT, "normalization: %s times %g", vc_roles[role].what,
                         (double)n->mul[c]);
    }
    return rc;
}

/* ---- checks for the conditions ---- */

/* The --train_mode that stores a role's value for the transformer. */
static const char *mode_of(const vtrain_data *d, vc_role role)
{
    int mode = (int)d->mode;
    if (mode)
        return vc_mode_names[mode];
    while (mode < VC_MODES - 1 && !(vc_roles[role].modes & 1u << mode))
        mode++;
    return vc_mode_names[mode];
}

/* Fails where the masked pixels of a dataset have another colour than the transformer or its
 * ControlNet takes. */
static int check_masked(const vtrain_data *d, const vtrain_fit *fit, vc_err *err)
{
    for (int i = 0; fit->roles & VC_ROLE_BIT(VC_ROLE_VIDEO) && i < d->n_sets; i++)
        if (d->set[i].head.black != fit->black)
            return vc_fail(err, VC_EMISMATCH, "%s: its masked pixels are %s, and %s: run vprep "
                           "%s", vf_dataset_path(d->set[i].data), fit->black ? "grey" : "black",
                           fit->black ? "those of the ControlNet are black" :
                           "those of the transformer are grey", fit->black ? "--extra_inputs "
                           "controlnet_image,controlnet_inpaint_mask" : "--train_mode inpaint with "
                           "the transformer's own --model folder");
    return 0;
}

/* Fails because the dataset was made without a condition of the transformer; names both. */
static int refuse(const vtrain_data *d, int set, vc_role role, const char *class_name,
                  vc_err *err)
{
    int channels = d->norm.channels;
    if (vc_roles[role].kind == VC_VALUE_EMBEDS)
        return vc_fail(err, VC_EMISMATCH, "the transformer %s takes %s, which the dataset %s "
                       "lacks: run vprep --train_mode %s with the --model folder of this "
                       "transformer, or with --image_encoder DIR", class_name, vc_roles[role].what,
                       vf_dataset_path(d->set[set].data), mode_of(d, role));
    for (int i = 0; i < VC_ROLES; i++)
        if (d->roles & 1u << i && vc_roles[i].kind != VC_VALUE_EMBEDS)
            channels += d->role_norm[i].channels;
    return vc_fail(err, VC_EMISMATCH, "the transformer %s takes %s (%d channels in all), the "
                   "dataset %s was made with --train_mode %.32s: run vprep --train_mode %s%s",
                   class_name, vc_roles[role].what, channels, vf_dataset_path(d->set[set].data),
                   d->set[set].head.train_mode, mode_of(d, role), role == VC_ROLE_IMAGE &&
                   !strcmp(d->set[set].head.train_mode, vc_mode_names[VC_MODE_CONTROL])
                   ? ", or, for a Control model, give vtrain --model: model_index.json tells it "
                     "from an image-to-video model" : "");
}

/* Checks that a sample has the transformer's conditions, in the right shapes. */
static int check_sample(vtrain_data *d, uint32_t i, const vtrain_conditions *c,
                        const char *class_name, vc_err *err)
{
    int set = d->sample[i].dataset, rc = 0;
    for (int role = 0; role < VC_ROLES && !rc; role++) {
        vc_role e = (vc_role)role, other = vc_role_stand_in(e);
        if (!(vtrain_data_roles_of(d, &d->group[d->sample[i].group].own) & 1u << role))
            continue;
        if (!(c->has & 1u << e) && (strcmp(d->set[set].head.train_mode, mode_of(d, e)) ||
                                    vc_roles[e].kind == VC_VALUE_EMBEDS))
            return refuse(d, set, e, class_name, err);
        for (int k = 0; k < 2 && !rc; k++) {
            vtrain_latent_value v;
            rc = vtrain_condition_open(d, i, c, e, false, &v, err);
            if (!rc && vc_roles[e].kind == VC_VALUE_EMBEDS)
                d->embeds[0] = v.mean.dim[0];
            vf_safetensors_close(v.st);
            if (!(d->set[set].stand_ins & 1u << other))
                break;
            e = other;
        }
    }
    return rc ? vtrain_name_sample(d, i, rc, err) : 0;
}

/* Reads the number of tokens of a sample's first caption, for its group. */
static int read_tokens(vtrain_data *d, uint32_t i, const cJSON *record, vc_err *err)
{
    const vtrain_sample *s = &d->sample[i];
    vf_key key[VTRAIN_TEXTS];
    vtrain_text_value v = { 0 };
    int rc = vtrain_caption_keys(d, record, 0, key, err);
    if (!rc)
        rc = vtrain_text_open(d, s->dataset, 0, key[0], d->group[s->group].segments, false, &v,
                              err);
    if (!rc)
        d->group[s->group].text_rows = v.embeds.dim[0];
    vf_safetensors_close(v.st);
    return rc;
}

/* Checks the first sample of each group, and reads that of each dataset, which has the roles whose
 * values replace others in training. */
static int check_samples(vtrain_data *d, const vtrain_fit *fit, const char *class_name, vc_err *err)
{
    bool *seen = calloc((size_t)d->n_groups + (size_t)d->n_sets, sizeof *seen);
    int rc = seen ? 0 : vc_fail(err, VC_ENOMEM, "out of memory for %u buckets", d->n_groups);
    unsigned stand_ins = 0;
    const vc_family *family = vc_family_of_transformer(class_name);
    const bool clean = family && family->clean_images;

    for (int i = 1; i < VC_ROLES; i++)
        stand_ins |= vc_roles[i].instead_of && !clean ? 1u << i : 0;
    for (uint32_t i = 0; i < d->n_samples && !rc; i++) {
        const vtrain_sample *s = &d->sample[i];
        bool *of_set = &seen[d->n_groups + s->dataset], *of_group = &seen[s->group];
        cJSON *record;
        vtrain_conditions c;
        if (*of_set && *of_group)
            continue;
        rc = vf_dataset_sample(d->set[s->dataset].data, s->index, &record, err);
        if (rc)
            break;
        rc = vtrain_conditions_read(&c, record, err);
        if (!rc && d->control_kinds)
            rc = vtrain_kind_read(&(int32_t){ 0 }, record, d->control_kinds, d->control_kind, err);
        if (!rc && fit->whole_texts && !*of_group)
            rc = read_tokens(d, i, record, err);
        rc = vtrain_name_sample(d, i, rc, err);
        cJSON_Delete(record);
        if (rc)
            break;
        if (!*of_set)
            d->set[s->dataset].stand_ins = c.has & stand_ins;
        d->weighted |= (c.has & 1u << VC_ROLE_LOSS_MASK) != 0;
        *of_set = *of_group = true;
        if (fit->needs_image && !(c.has & 1u << VC_ROLE_IMAGE))
            rc = vtrain_name_sample(d, i, refuse(d, s->dataset, VC_ROLE_IMAGE, class_name, err),
                                    err);
        if (!rc)
            rc = check_sample(d, i, &c, class_name, err);
    }
    free(seen);
    return rc;
}

/* ---- fitting ---- */

/* Reports conditions that the transformer does not take, which is no error: a plain model trains on
 * any dataset. */
static int note_unused(const vtrain_data *d, const char *class_name, char **note, vc_err *err)
{
    for (int i = 0; i < d->n_sets; i++) {
        const char *mode = d->set[i].head.train_mode;
        bool begins = d->clean_frames && !strcmp(mode, mode_of(d, VC_ROLE_IMAGE));
        begins |= d->references && !strcmp(mode, vc_mode_names[VC_MODE_EDIT]);
        if (!strcmp(mode, "normal") || begins)
            continue;
        *note = vc_format("%s was made with --train_mode %.32s: its conditions are not used, since "
                          "the transformer %s takes none", vf_dataset_path(d->set[i].data), mode,
                          class_name);
        return *note ? 0 : vc_no_memory(err);
    }
    return 0;
}

/* The roles of references of these sizes. */
static unsigned own_roles(const vtrain_own *own)
{
    unsigned roles = 0;
    for (int k = 0; k < VC_REFERENCES; k++)
        roles |= own->size[k][0] ? 1u << (VC_ROLE_REFERENCE + k) : 0;
    return roles;
}

unsigned vtrain_data_roles_of(const vtrain_data *d, const vtrain_own *own)
{
    return (d->roles & ~VC_ROLES_REFERENCE) | (d->references & own_roles(own));
}

/* Frames in front of a clip have its rows and columns. */
static int check_front(const vtrain_data *d, const vtrain_fit *fit, vc_err *err)
{
    for (uint32_t i = 0; fit->references_in_front && i < d->n_groups; i++)
        for (int k = 0; k < references_of(&d->group[i].own); k++) {
            const uint16_t *size = d->group[i].own.size[k];
            if (size[0] != d->group[i].h || size[1] != d->group[i].w)
                return vc_fail(err, VC_EMISMATCH, "bucket %s: reference picture %d has %d x %d "
                               "latent rows and columns, and the transformer takes references of "
                               "the clip's size: run vprep --train_mode %s", d->group[i].name,
                               k + 1, size[0], size[1], vc_mode_names[fit->mode]);
        }
    return 0;
}

int vtrain_data_fit(vtrain_data *d, const vtrain_family *family, const vtrain_fit *fit,
                    char **note, vc_err *err)
{
    int rc = 0;
    *note = NULL;
    if (d->frame_multiple)
        return vc_fail(err, VC_EINVAL, "the data was fitted to a transformer before");
    rc = check_front(d, fit, err);
    if (!rc)
        rc = check_masked(d, fit, err);
    if (rc)
        return rc;
    pad_groups(d, fit);
    d->references_in_front = fit->references_in_front;
    d->references = fit->references;
    d->roles = fit->roles;
    for (uint32_t i = 0; i < d->n_groups; i++)
        d->roles |= own_roles(&d->group[i].own) & fit->references;
    d->mode = fit->mode;
    d->mean_roles = fit->mean_roles | fit->references;
    memcpy(d->embeds, fit->embeds, sizeof d->embeds);
    d->needs_mask = fit->needs_mask;
    d->control_kinds = fit->control_kinds;
    d->control_kind = fit->control_kind;
    d->mask_channels = fit->mask_channels ? fit->mask_channels : 1;
    for (int i = 0; i < d->n_slots; i++) {
        d->slot[i].rows = fit->text_rows[i];
        d->slot[i].absent = fit->absent_texts[i];
    }
    d->clean_frames = fit->clean_first ? fit->mult[0] : 0;
    rc = vtrain_lengths_measure(d, err);
    for (int i = 0; i < VC_ROLES && !rc; i++)
        if ((d->roles | d->references) & 1u << i)
            rc = make_role_norm(d, (vc_role)i, family->scale[i], err);
    if (!rc)
        rc = vtrain_sound_fit(d, fit, err);
    if (!rc)
        rc = check_samples(d, fit, family->class_name, err);
    return rc || d->roles ? rc : note_unused(d, family->class_name, note, err);
}

vc_mode vtrain_data_mode(const vtrain_data *d)
{
    int mode = VC_MODES - 1;
    while (mode && strcmp(d->set[0].head.train_mode, vc_mode_names[mode]))
        mode--;
    return (vc_mode)mode;
}

unsigned vtrain_data_roles(const vtrain_data *d) { return d->roles; }
bool vtrain_data_weighted(const vtrain_data *d) { return d->weighted; }

const vtrain_norm *vtrain_data_role_norm(const vtrain_data *d, vc_role role)
{
    return &d->role_norm[role];
}

int vtrain_data_role_dim(const vtrain_data *d, vc_role role, const int64_t x[5],
                         const vtrain_own *own, int64_t of[5])
{
    const vc_role_row *row = &vc_roles[role];
    memcpy(of, x, 5 * sizeof *of);
    if (row->kind == VC_VALUE_EMBEDS) {
        memcpy(of + 1, d->embeds, sizeof d->embeds);
        return 3;
    }
    if (!row->clip)
        of[2] = 1;
    else if (d->references_in_front && role != VC_ROLE_LOSS_MASK)
        of[2] -= references_of(own);
    if (row->own_size) {
        of[3] = own->size[vc_role_reference(role)][0];
        of[4] = own->size[vc_role_reference(role)][1];
    }
    if (row->kind == VC_VALUE_MASK)
        of[1] = vtrain_role_channels(d, role);
    return 5;
}
