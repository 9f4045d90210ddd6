/* controlnet.c - see controlnet.h */
#include "train/models/controlnet.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/os/file.h"
#include "common/tensor/packing.h"
#include "formats/tensors/model.h"

enum { NAME = 192, MAX_CONFIG = 1 << 20 };

#define PART VTRAIN_CONTROL_PART
#define KINDS_IN_FILE "controlnet_mode_embedder.weight"
#define WEIGHTS "diffusion_pytorch_model.safetensors"

struct vtrain_controlnet {
    const char *flag, *path;
    vf_model *file;                           /* NULL: it is new */
    vt_source base;                           /* of the transformer's weights */
    const cJSON *config;                      /* of copied blocks: its config.json; else NULL */
    const char *reader;                       /* who opens them, unless diffusers does; or NULL */
};

bool vtrain_controlnet_has(const char *name)
{
    return strstr(name, PART) != NULL;
}

/* Writes a parameter's name in the file; it is of a ControlNet. */
static void name_in_file(char out[NAME], const char *name)
{
    const char *part = strstr(name, PART) + strlen(PART);
    const char *blocks = strchr(name, '.');   /* ".7." between the blocks' prefix and the part */
    if (part == name + strlen(PART))
        snprintf(out, NAME, "%s", part);
    else
        snprintf(out, NAME, "controlnet_blocks%.*s%s", (int)(part - strlen(PART) - blocks), blocks,
                 part);
}

int vtrain_controlnet_open(vtrain_controlnet **out, const char *flag, const char *path,
                           vc_err *err)
{
    vtrain_controlnet *c = *out = calloc(1, sizeof *c);
    int rc = c ? 0 : vc_no_memory(err);
    if (c)
        *c = (vtrain_controlnet){ .flag = flag, .path = path };
    if (!rc && strcmp(path, "new"))
        rc = vf_model_open(&c->file, path, err);
    if (rc) {
        vtrain_controlnet_close(c);
        *out = NULL;
    }
    return vc_context(err, rc, "--%s", flag);
}

void vtrain_controlnet_close(vtrain_controlnet *c)
{
    if (c)
        vf_model_close(c->file);
    free(c);
}

/* ---- the config.json of copied blocks ---- */

/* The fields with the numbers of blocks of each kind. */
static const char *const layers[] = { "num_layers", "num_single_layers" };
enum { KINDS = sizeof layers / sizeof *layers };

/* Fields that transformer and ControlNet have. */
static const char *const shared[] = {
    "patch_size", "in_channels", "out_channels", "num_layers", "num_single_layers",
    "attention_head_dim", "num_attention_heads", "joint_attention_dim", "pooled_projection_dim",
    "guidance_embeds", "axes_dims_rope"
};
enum { SHARED = sizeof shared / sizeof *shared };
static const char guidance[] = "guidance_embeds",
                  embedder[] = "time_text_embed.guidance_embedder.linear_1.weight";

/* Fields of a ControlNet alone, and the tensors that a file has with them, or a file of its
 * authors. */
#define PIXELS "pixels by layers of its own (XLabs' ControlNet)"
static const struct { const char *field, *tensor, *reads; } others[] = {
    { "conditioning_embedding_channels", "input_hint_block.conv_in.weight", PIXELS },
    { "conditioning_embedding_channels", "input_hint_block.0.weight", PIXELS },
};

static bool is_set(const cJSON *v)
{
    return v && !cJSON_IsNull(v) && !cJSON_IsFalse(v) && !(cJSON_IsNumber(v) && v->valueint == 0);
}

static bool has(const vf_model *m, const char *tensor)
{
    vf_view v;
    return m && !vf_model_get(m, tensor, &v, NULL);
}

/* Fails where the ControlNet has inputs besides the latents of a picture. */
static int check_inputs(const vtrain_controlnet *c, const cJSON *theirs, vc_err *err)
{
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        const cJSON *v = cJSON_GetObjectItemCaseSensitive(theirs, others[i].field);
        if (is_set(v) || has(c->file, others[i].tensor))
            return vc_fail(err, VC_EINVAL, "%s: %s: the ControlNet reads %s, which is not trained "
                           "here: give one that reads the latents of a picture alone",
                           is_set(v) ? others[i].field : others[i].tensor, c->path,
                           others[i].reads);
    }
    return 0;
}

/* Fails where the ControlNet's config.json has another value than the transformer's, but for the
 * fields in which they may differ. */
static int check_same(const vtrain_controlnet *c, const cJSON *theirs, const cJSON *ours,
                      vc_err *err)
{
    const cJSON *v;
    cJSON_ArrayForEach(v, theirs) {
        const cJSON *of = cJSON_GetObjectItemCaseSensitive(ours, v->string);
        bool free = v->string[0] == '_' || !of || cJSON_IsNull(v) || cJSON_IsNull(of) ||
                    !strcmp(v->string, guidance);
        for (int k = 0; k < KINDS; k++)
            free |= !strcmp(v->string, layers[k]);
        if (!free && !cJSON_Compare(v, of, true))
            return vc_fail(err, VC_EMISMATCH, "%s: %s has another value than the transformer's "
                           "config.json: the ControlNet belongs to another transformer", v->string,
                           c->path);
    }
    return 0;
}

static int check_class(const vtrain_controlnet *c, const cJSON *theirs, const char *class,
                       vc_err *err)
{
    const char *is = class;
    int rc = vf_json_str_opt(theirs, "_class_name", &is, err);
    return rc || !strcmp(is, class) ? rc
           : vc_fail(err, VC_EMISMATCH, "_class_name: %s is a %s, and the ControlNet of this "
                     "transformer is a %s", c->path, is, class);
}

/* Fails where config.json says another number of kinds of pictures than the file has tokens. */
static int check_kinds(const vtrain_controlnet *c, const cJSON *theirs, vc_err *err)
{
    const vt_source file = vf_model_source(c->file);
    const int64_t n = vtrain_size_in(&file, KINDS_IN_FILE, 0);
    int64_t said = 0;
    const cJSON *v = cJSON_GetObjectItemCaseSensitive(theirs, "num_mode");
    int rc = is_set(v) ? vf_json_int_opt(theirs, "num_mode", &said, err) : 0;
    return rc || !theirs || said == n ? rc
           : vc_fail(err, VC_EMISMATCH, "num_mode: %s has %lld, and its weights have %lld rows of "
                     "%s: the config.json belongs to another file", c->path, (long long)said,
                     (long long)n, KINDS_IN_FILE);
}

static int check_file(const vtrain_controlnet *c, const cJSON *config, const char *class,
                      vc_err *err)
{
    cJSON *theirs = NULL;
    int rc = 0;
    if (has(c->file, embedder) && !is_set(cJSON_GetObjectItemCaseSensitive(config, guidance)))
        return vc_fail(err, VC_EMISMATCH, "%s: %s reads guidance, which the transformer does not: "
                       "the ControlNet belongs to another transformer", guidance, c->path);
    if (vc_file_exists_in(c->path, "config.json"))
        rc = vf_json_read_in(&theirs, c->path, "config.json", MAX_CONFIG, err);
    if (!rc && theirs)
        rc = check_class(c, theirs, class, err);
    if (!rc)
        rc = check_inputs(c, theirs, err);
    if (!rc)
        rc = check_kinds(c, theirs, err);
    if (!rc && theirs)
        rc = check_same(c, theirs, config, err);
    cJSON_Delete(theirs);
    return rc;
}

static bool replace(cJSON *o, const char *field, cJSON *v)
{
    cJSON_DeleteItemFromObject(o, field);
    return cJSON_AddItemToObject(o, field, v);
}

/* The number of blocks of a kind: those of the file, or `new` ones, or all of the transformer's. */
static int64_t blocks_of(const vtrain_controlnet *c, const cJSON *config, int k, const char *hint,
                         int64_t new)
{
    int64_t of = 0;
    char tensor[96];
    vf_json_int_opt(config, layers[k], &of, NULL);
    if (!c->file)
        return new < of ? new : of;
    const vt_source file = vf_model_source(c->file);
    snprintf(tensor, sizeof tensor, "%s.weight", hint);
    return vtrain_blocks_in(&file, tensor);
}

/* Sets the numbers of a condition's token that its mask has: those by which the rows of a tensor
 * of the file are longer than a token of the latents. */
static bool set_mask(const vtrain_controlnet *c, cJSON *o, const char *tensor, bool masked)
{
    enum { PLACES = 2 * 2, TOKEN = 64 };      /* of a token; the default of in_channels */
    const char field[] = "extra_condition_channels";
    int64_t token = TOKEN, n = masked ? PLACES : 0;
    vf_json_int_opt(o, "in_channels", &token, NULL);
    if (c->file) {
        const vt_source file = vf_model_source(c->file);
        const int64_t row = vtrain_size_in(&file, tensor, 1);
        n = row > token ? row - token : 0;
    }
    return !n || replace(o, field, cJSON_CreateNumber((double)n));
}

/* Sets the number of kinds of pictures that a ControlNet-Union knows. */
static bool set_kinds(const vtrain_controlnet *c, cJSON *o, int64_t new)
{
    const vt_source file = c->file ? vf_model_source(c->file) : (vt_source){ 0 };
    const int64_t n = c->file ? vtrain_size_in(&file, KINDS_IN_FILE, 0) : new;
    return !n || replace(o, "num_mode", cJSON_CreateNumber((double)n));
}

int vtrain_controlnet_blockwise(const vtrain_controlnet *c, cJSON *config, const char *field,
                                bool masked, vc_err *err)
{
    return replace(config, field, cJSON_CreateTrue()) &&
           set_mask(c, config, "img_in.weight", masked) ? 0 : vc_no_memory(err);
}

int vtrain_controlnet_copies(vtrain_controlnet *c, cJSON *config, const vtrain_family *of,
                             const vtrain_controlnet_new *want, vc_err *err)
{
    cJSON *o = cJSON_CreateObject();
    bool ok = o && cJSON_AddStringToObject(o, "_class_name", of->class_name);
    int rc = c->file ? check_file(c, config, of->class_name, err) : 0;
    for (int i = 0; ok && i < SHARED; i++) {
        const cJSON *v = cJSON_GetObjectItemCaseSensitive(config, shared[i]);
        ok = !is_set(v) || cJSON_AddItemToObject(o, shared[i], cJSON_Duplicate(v, true));
    }
    for (int k = 0; ok && k < KINDS && of->hint[k]; k++) {
        const int64_t n = blocks_of(c, config, k, of->hint[k], want->blocks[k]);
        ok = replace(o, layers[k], cJSON_CreateNumber((double)n));
    }
    if (ok && c->file && cJSON_HasObjectItem(o, guidance))
        ok = replace(o, guidance, cJSON_CreateBool(has(c->file, embedder)));
    ok = ok && set_mask(c, o, "controlnet_x_embedder.weight", want->masked) &&
         set_kinds(c, o, want->kinds);
    c->reader = cJSON_HasObjectItem(o, "extra_condition_channels") ? of->masked_reader : NULL;
    if (ok && !rc)
        ok = replace(config, "controlnet", o);
    if (!ok || rc)
        cJSON_Delete(o);
    c->config = ok && !rc ? o : NULL;
    return vc_context(err, rc || ok ? rc : vc_no_memory(err), "--%s", c->flag);
}

/* ---- values ---- */

static int get(void *arg, const char *name, vt_host *view, vc_err *err)
{
    const vtrain_controlnet *c = arg;
    char theirs[NAME];
    if (!vtrain_controlnet_has(name))
        return c->base.get(c->base.arg, name, view, err);
    name_in_file(theirs, name);
    if (!c->file)                             /* a copy of the transformer's weight */
        return c->base.get(c->base.arg, theirs, view, err);
    const vt_source file = vf_model_source(c->file);
    return vc_context(err, file.get(file.arg, theirs, view, err), "--%s", c->flag);
}

/* Whether a weight of a new ControlNet begins with the value of its table. Of copied blocks those
 * do that the transformer lacks, and, as in diffusers' from_transformer, Qwen-Image's txt_norm. */
static bool begins(const vtrain_controlnet *c, const char *name)
{
    static const char own[] = PART "controlnet_", norm[] = PART "txt_norm.";
    return !c->config || !strncmp(name, own, strlen(own)) || !strncmp(name, norm, strlen(norm));
}

static bool lacks(const void *arg, const char *name)
{
    const vtrain_controlnet *c = arg;
    return vtrain_controlnet_has(name) ? !c->file && begins(c, name)
                                       : c->base.lacks && c->base.lacks(c->base.lacks_arg, name);
}

vt_source vtrain_controlnet_source(vtrain_controlnet *c, const vt_source *base)
{
    vt_source src = *base;
    c->base = *base;
    src.get = get;
    src.arg = c;
    src.lacks = lacks;
    src.lacks_arg = c;
    return src;
}

int vtrain_controlnet_check(const vtrain_controlnet *c, vt_params *p, vc_err *err)
{
    int n = 0, all = c->file ? vf_model_count(c->file) : 0;
    for (int i = 0; i < vt_params_count(p); i++)
        n += vtrain_controlnet_has(vt_params_at(p, i)->name);
    if (!all || n == all)
        return 0;
    return vc_fail(err, VC_EMISMATCH, "--%s: the file has %d tensors, a ControlNet of this "
                   "transformer has %d: it belongs to a transformer of another number of blocks",
                   c->flag, all, n);
}

static vc_dtype type_of(const vtrain_controlnet *c, const char *name)
{
    vf_view v;
    if (!c->file || vf_model_get(c->file, name, &v, NULL))
        return VC_F32;
    return vt_is_code(v.dtype) ? VC_BF16 : v.dtype;
}

const char *vtrain_controlnet_name(const vtrain_controlnet *c)
{
    return c->config ? VTRAIN_CONTROL_FOLDER : VTRAIN_CONTROL_FILE;
}

const char *vtrain_controlnet_reader(const vtrain_controlnet *c)
{
    return !c->config ? "DiffSynth-Studio"
           : c->reader ? c->reader : "diffusers' from_pretrained of its class";
}

static int write_weights(const vtrain_controlnet *c, const char *dir, const char *file,
                         vt_params *p, vf_sums *sums, vc_err *err)
{
    const vf_meta meta = { "format", "pt" };
    vf_views v;
    int rc = vf_views_open(&v, vt_params_context(p), vt_params_count(p), err);
    for (int i = 0; !rc && i < vt_params_count(p); i++) {
        const vt_param *x = vt_params_at(p, i);
        char name[NAME];
        if (!vtrain_controlnet_has(x->name))
            continue;
        name_in_file(name, x->name);
        rc = vf_views_add(&v, "", name, "", x->t, type_of(c, name), 1, err);
    }
    if (!rc)
        rc = vf_views_write(&v, dir, file, &meta, 1, false, sums, err);
    vf_views_close(&v);
    return rc;
}

static int write_config(const vtrain_controlnet *c, const char *folder, vf_sums *sums, vc_err *err)
{
    char *to = vc_path_join(folder, "config.json"), *text = cJSON_Print(c->config);
    int rc = to && text ? vf_sums_put(sums, to, text, strlen(text), err) : vc_no_memory(err);
    free(to);
    free(text);
    return rc;
}

int vtrain_controlnet_write(const vtrain_controlnet *c, const char *dir, vt_params *p,
                            vf_sums *sums, vc_err *err)
{
    if (!c->config)
        return write_weights(c, dir, VTRAIN_CONTROL_FILE, p, sums, err);
    char *folder = vc_path_join(dir, VTRAIN_CONTROL_FOLDER);
    int rc = folder ? vc_mkdirs(folder, err) : vc_no_memory(err);
    if (!rc)
        rc = write_config(c, folder, sums, err);
    if (!rc)
        rc = write_weights(c, folder, WEIGHTS, p, sums, err);
    free(folder);
    return rc;
}
