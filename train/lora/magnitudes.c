/* magnitudes.c - checks of what LoRA files have beside pairs, and magnitudes of a DoRA; see
 * parts.h */
#include "train/lora/parts.h"

int vtrain_lora_check_type(const vtrain_lora *l, const vf_view *v, vc_err *err)
{
    return v->dtype <= VC_F64 ? 0
         : vc_fail(err, VC_EFORMAT, "%s: tensor \"%s\" holds %s, but a LoRA holds floating-point "
                   "numbers", l->path, v->name, vc_dtype_name(v->dtype));
}

const char *vtrain_lora_more(const vtrain_lora_entry *e)
{
    const char *what = NULL;
    for (int i = VTRAIN_PART_DIFF; i < VTRAIN_PARTS && !what; i++)
        if (e->more[i])
            what = i == VTRAIN_PART_DIFF     ? "a change of a whole layer"
                   : i == VTRAIN_PART_DIFF_B ? "a change of a bias"
                   : i < VTRAIN_PART_HA_1A   ? e->magnitude ? "a decomposed LoKr" : "a LoKr"
                   : e->magnitude            ? "a decomposed LoHa"
                                             : "a LoHa";
    return what;
}

static int64_t rows_of(const vf_view *whole, const vf_view *a)
{
    const vf_view *v = whole ? whole : a;
    return v && v->nd ? v->dim[0] : 0;
}

/* The rows of what an entry adds. */
static int64_t entry_rows(const vtrain_lora_entry *e)
{
    const vf_view *const *m = e->more;
    if (e->b)
        return e->b->dim[0];
    if (m[VTRAIN_PART_HA_1A])
        return rows_of(NULL, m[VTRAIN_PART_HA_1A]);
    return rows_of(m[VTRAIN_PART_KR_1], m[VTRAIN_PART_KR_1A]) *
           rows_of(m[VTRAIN_PART_KR_2], m[VTRAIN_PART_KR_2A]);
}

int vtrain_lora_check_dora(const vtrain_lora *l, vc_err *err)
{
    for (int i = 0; i < l->n; i++)
        if (l->entry[i].magnitude)
            return 0;
    return vc_fail(err, VC_EFORMAT, "use_dora is true in lora_adapter_metadata, or in "
                   "adapter_config.json, but the file has no magnitudes of a DoRA: copy it again");
}

int vtrain_lora_check_magnitude(const vtrain_lora *l, const vtrain_lora_entry *e, vc_err *err)
{
    const vf_view *m = e->magnitude;
    const int64_t rows = entry_rows(e);
    int64_t longest = 1;
    int rc = vtrain_lora_check_type(l, m, err);
    if (rc)
        return rc;
    if (l->comfyui)
        return vc_fail(err, VC_EFORMAT, "%s: the magnitudes of this DoRA are those that ComfyUI "
                       "needs: give pytorch_lora_weights.safetensors beside it, or "
                       "lora_kohya.safetensors", l->path);
    for (int i = 0; i < m->nd; i++)
        longest = m->dim[i] > longest ? m->dim[i] : longest;
    const bool row = m->nd == 2 && m->dim[0] == 1 && m->dim[1] > 1;
    if (vf_view_count(m) == longest && longest == rows && !row)
        return 0;
    char have[VT_SHAPE_TEXT];
    vt_shape_text(have, m->nd, m->dim);
    return vc_fail(err, VC_EFORMAT, "%s: tensor \"%s\" is %s, but a DoRA has one magnitude for "
                   "each of the module's %lld rows here, as PEFT's and LyCORIS's wd_on_output",
                   l->path, m->name, have, (long long)rows);
}

int vtrain_lora_check_more(const vtrain_lora *l, const vtrain_lora_entry *e, vc_err *err)
{
    if (e->magnitude && (e->more[VTRAIN_PART_DIFF] || e->more[VTRAIN_PART_DIFF_B]))
        return vc_fail(err, VC_EFORMAT, "%s: module \"%s\" has %s with magnitudes (dora_scale), "
                       "and only those of a DoRA, a LoHa and a LoKr are read: fold the file into "
                       "the transformer with the program that made it, and give the result as "
                       "--transformer", l->path, e->module, vtrain_lora_more(e));
    int rc = e->magnitude ? vtrain_lora_check_magnitude(l, e, err) : 0;
    if (rc)
        return rc;
    if (e->alpha && (vf_view_count(e->alpha) != 1 || e->alpha->dtype > VC_F64))
        return vc_fail(err, VC_EFORMAT, "%s: tensor \"%s\": an alpha is one number", l->path,
                       e->alpha->name);
    for (int i = 0; !rc && i < VTRAIN_PARTS; i++)
        if (e->more[i])
            rc = vtrain_lora_check_type(l, e->more[i], err);
    return rc;
}

void vtrain_lora_magnitudes(const vtrain_lora_entry *e, const vtrain_renamed *r,
                            vtrain_lora_pair *p)
{
    int64_t first = 0, rows = e->b->dim[0];
    p->magnitude = *e->magnitude;
    if (r->parts > 1 && !vtrain_rename_rows(r, rows, &first, &rows))
        return;                               /* take_rows fails for B */
    const size_t each = p->magnitude.bytes / (size_t)e->b->dim[0];
    p->magnitude.nd = 1;
    p->magnitude.dim[0] = rows;
    p->magnitude.data = (const char *)p->magnitude.data + each * (size_t)first;
    p->magnitude.bytes = each * (size_t)rows;
    p->scaled = true;
}
