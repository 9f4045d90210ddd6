/* check_vae.c - whether a VAE is the one that the family, and the model, were trained with; see
 * components.h */
#include <stdlib.h>
#include <string.h>

#include "common/os/file.h"
#include "formats/tensors/component.h"
#include "precompute/run/components.h"
#include "precompute/run/vprep.h"

enum { MAX_CONFIG = 1 << 20 };                             /* bytes of JSON */

int prep_check_vae_class(const vprep *p, const char *dir, vc_err *err)
{
    const vc_family *f = p->encoders.family.is;
    char class[80];
    vc_err why;

    if (dir && prep_is_file(dir))
        return 0;                             /* the opening of a file compares its tensors */
    if (!dir || prep_component_class(class, sizeof class, dir, "vae", &why) ||
        !strcmp(class, f->vae))
        return 0;
    return vc_fail(err, VC_EUSAGE, "%s: its config.json has the _class_name %s, and models of %s "
                   "are trained with %s: give --vae DIR with such a VAE", dir, class, f->name,
                   f->vae);
}

static double number_of(const cJSON *v)
{
    return cJSON_IsNumber(v) ? v->valuedouble : 0;
}

/* Whether two values of config.json are equal; a number that is missing is as 0. */
static bool same_value(const cJSON *a, const cJSON *b)
{
    return cJSON_IsArray(a) || cJSON_IsArray(b) ? cJSON_Compare(a, b, true)
                                                : number_of(a) == number_of(b);
}

/* The number of channels is refused, a constant is a warning. */
static int differs(const vprep *p, const char *dir, const char *field, bool channels,
                   const cJSON *here, const cJSON *there, vc_err *err)
{
    char *a = cJSON_PrintUnformatted(here), *b = cJSON_PrintUnformatted(there);
    char *text = vc_format("--vae %s: its config.json has %s %.60s, and that of --model %s has "
                           "%.60s", dir, field, a ? a : "null", p->c.model, b ? b : "null");
    int rc = text ? 0 : vc_no_memory(err);

    free(a);
    free(b);
    if (!rc && channels)
        rc = vc_fail(err, VC_EUSAGE, "%s, as many as the transformer reads: leave --vae out, or "
                     "give a VAE of this model", text);
    else if (!rc)
        vc_warn(p->progress, "%s, with which the transformer was trained: leave --vae out, or give "
                "a VAE of this model (vtrain refuses these latents without --allow_mismatch)",
                text);
    free(text);
    return rc;
}

int prep_check_vae_model(const vprep *p, const char *dir, vc_err *err)
{
    static const struct { const char *field; bool channels; } fields[] = {
        { "latent_channels", true }, { "z_dim", true }, { "scaling_factor", false },
        { "shift_factor", false }, { "latents_mean", false }, { "latents_std", false } };
    cJSON *own = NULL, *given = NULL;
    int rc = 0;

    if (!p->c.model || !p->c.vae || !dir || prep_is_file(dir))
        return 0;
    rc = vf_json_read_in_opt(&own, p->c.model, "vae/config.json", MAX_CONFIG, err);
    if (!rc && own)
        rc = vf_json_read_in_opt(&given, dir, "config.json", MAX_CONFIG, err);
    const bool same = cJSON_Compare(cJSON_GetObjectItemCaseSensitive(given, "_class_name"),
                                    cJSON_GetObjectItemCaseSensitive(own, "_class_name"), true);
    for (size_t i = 0; !rc && same && i < sizeof fields / sizeof *fields; i++) {
        const cJSON *a = cJSON_GetObjectItemCaseSensitive(given, fields[i].field);
        const cJSON *b = cJSON_GetObjectItemCaseSensitive(own, fields[i].field);
        if (!same_value(a, b) && (!fields[i].channels || (a && b)))
            rc = differs(p, dir, fields[i].field, fields[i].channels, a, b, err);
    }
    cJSON_Delete(own);
    cJSON_Delete(given);
    return rc;
}
