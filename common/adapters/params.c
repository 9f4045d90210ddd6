/* params.c - adds the factors of adapters to the parameters of a model; see adapter.h */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "common/adapters/adapter.h"
#include "common/os/file.h"
#include "common/tensor/engine.h"
#include "common/tensor/params.h"

int vt_adapter_base(vt_ctx *g, const vt_tensor *w, float *to, vc_err *err)
{
    const size_t n = (size_t)vt_count(w), scales = w->scale ? (size_t)vt_count(w->scale) : 0;
    const void *host = vt_param_host_values(w);
    void *room = host ? NULL : malloc(vc_dtype_bytes(w->dtype, n));
    float *by = scales ? malloc(scales * sizeof *by) : NULL;
    int rc = (host || room) && (by || !scales) ? 0 : vc_no_memory(err);

    if (!rc)
        vc_to_f32(to, host ? host : vt_param_get(g, w, room), w->dtype, n);
    if (!rc && scales) {
        const float *scale = vt_param_get(g, w->scale, by);
        for (size_t i = 0; i < n; i++)
            to[i] *= scale[i / (n / scales)];
    }
    free(room);
    free(by);
    return rc;
}

/* The lengths of the rows of a layer's weight, which DoRA's magnitudes begin as. */
static int row_lengths(vt_params *p, const vt_param *of, vt_tensor *to, vc_err *err)
{
    if (p->g->sizes_only)
        return 0;
    const int64_t out = of->t->dim[0], in = vt_count(of->t) / out;
    float *w = malloc((size_t)(out * in) * sizeof *w), *lengths = malloc((size_t)out * sizeof *w);
    int rc = w && lengths ? vt_adapter_base(p->g, of->t, w, err) : vc_no_memory(err);

    for (int64_t o = 0; !rc && o < out; o++) {
        double sum = 0;
        for (int64_t i = 0; i < in; i++)
            sum += (double)w[o * in + i] * (double)w[o * in + i];
        lengths[o] = (float)sqrt(sum);
    }
    if (!rc)
        vt_param_set(p->g, to, lengths, VC_F32);
    free(w);
    free(lengths);
    return rc;
}

static int add_factor(vt_params *p, const vt_param *of, const vt_factor *f, int index, int nd,
                      const int64_t *dim, uint64_t seed, vc_err *err)
{
    vt_tensor *t = NULL;
    char *name = vc_format("%s%s", of->module, f->suffix);
    int rc = name ? vt_param_started(&t, p->g, f->init, nd, dim, name, seed, err)
                  : vc_fail(err, VC_ENOMEM, "%s: out of memory", of->name);

    if (!rc) {
        vt_param *w = vt_params_add(p, name, of->module, t, of->lin, 1 + index, err);
        rc = w ? vt_params_train_one(p, w, err) : VC_ENOMEM;
        if (!rc && f->init == VT_INIT_ROWS)
            rc = row_lengths(p, of, t, err);
        if (!rc)
            rc = vc_context(err, vt_param_round(p->g, t, err), "%s", name);
        if (w) {
            w->block = of->block;
            w->model = of->model;
            of->lin->factor[index] = t;
        }
    }
    free(name);
    return rc;
}

/* Sets the shape of a factor, and returns its number of axes. Of a convolution, the factor that has
 * the weight's inputs has its kernel too, and others have as many axes. */
static int factor_shape(int64_t dim[VT_DIMS], const vt_factor *f, const vt_param *of,
                        const int64_t *sides)
{
    int nd = 0;
    for (; nd < 2 && f->side[nd]; nd++)
        dim[nd] = sides[f->side[nd]];
    for (int i = 2; i < of->t->nd; i++, nd++)
        dim[nd] = f->side[1] == VT_IN ? of->t->dim[i] : 1;
    return nd;
}

static int check_size(const vt_param *of, const vt_adapter_size *s, vc_err *err)
{
    const vt_adapter *a = &vt_adapters[s->kind];
    if (s->rank < 1)
        return vc_fail(err, VC_EINVAL, "%s: LoRA of rank %d", of->module, s->rank);
    if (of->t->nd > 2 && !a->convs)
        return vc_fail(err, VC_EUSAGE, "--adapter %s: %s is a convolution, which only lora and "
                       "rslora adapt: leave it out of --target_name", a->name, of->module);
    return 0;
}

static int add_adapter(vt_params *p, const vt_param *of, const vt_adapter_size *s, uint64_t seed,
                       vc_err *err)
{
    const vt_adapter *a = &vt_adapters[s->kind];
    vt_lin *l = of->lin;
    int64_t sides[VT_SIDES];
    int rc = check_size(of, s, err);

    if (rc)
        return rc;
    vt_adapter_sides(sides, s, of->t->dim[0], of->t->dim[1]);
    l->adapter = a;
    l->apply = a->apply;
    l->lora_scale = (float)vt_adapter_scale(s, sides);
    l->lora_key = XXH3_64bits(of->module, strlen(of->module));
    for (int i = 0; !rc && i < VT_FACTORS && a->factor[i].suffix; i++) {
        int64_t dim[VT_DIMS];
        if (!vt_adapter_has(s, sides, &a->factor[i]))
            continue;
        const int nd = factor_shape(dim, &a->factor[i], of, sides);
        rc = add_factor(p, of, &a->factor[i], i, nd, dim, seed, err);
    }
    if (a->pair) {
        l->lora_a = l->factor[0];
        l->lora_b = l->factor[1];
    }
    return rc;
}

int vt_params_adapt(vt_params *p, bool (*size)(void *arg, const char *module, vt_adapter_size *s),
                    void *arg, uint64_t seed, int *matched, vc_err *err)
{
    int n = p->n;

    *matched = 0;
    for (int i = 0; i < n; i++) {
        const vt_param *w = p->at[i];
        vt_adapter_size s = { 0 };
        if (!w->lin || w->t != w->lin->w || w->lin->adapter || !size(arg, w->module, &s))
            continue;
        int rc = add_adapter(p, w, &s, seed, err);
        if (rc)
            return rc;
        ++*matched;
    }
    return 0;
}

/* A LoRA whose modules all have one size. */
typedef struct one_size {
    bool (*match)(void *arg, const char *module);
    void *arg;
    vt_adapter_size size;
} one_size;

static bool size_of_all(void *arg, const char *module, vt_adapter_size *s)
{
    const one_size *o = arg;
    *s = o->size;
    return !o->match || o->match(o->arg, module);
}

int vt_params_lora(vt_params *p, bool (*match)(void *arg, const char *module), void *arg, int rank,
                   double alpha, uint64_t seed, int *matched, vc_err *err)
{
    one_size o = { match, arg, { .rank = rank, .alpha = alpha } };

    *matched = 0;
    return rank < 1 ? vc_fail(err, VC_EINVAL, "LoRA of rank %d", rank)
                    : vt_params_adapt(p, size_of_all, &o, seed, matched, err);
}
