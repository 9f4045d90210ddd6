#include "train/diffusion/scheduler.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/os/file.h"
#include "formats/json/json.h"

enum { MAX_CONFIG = 1 << 20 };

static const struct { const char *name; vtrain_kind kind; vtrain_sampler sampler; } classes[] = {
    { "CogVideoXDDIMScheduler", VTRAIN_V, VTRAIN_DDIM },
    { "CogVideoXDPMScheduler", VTRAIN_V, VTRAIN_DPM },
    { "FlowMatchEulerDiscreteScheduler", VTRAIN_FLOW, VTRAIN_EULER },
};

/* ---- single fields ---- */

/* A text field that must be `only`; fallback: what a missing one means. */
static int want_text(const cJSON *o, const char *field, const char *only, const char *fallback,
                     vc_err *err)
{
    const char *v = fallback;
    int rc = vf_json_str_opt(o, field, &v, err);
    if (rc || !strcmp(v, only)) return rc;
    return vc_fail(err, VC_EINVAL, "%s \"%s\": only \"%s\" is known here", field, v, only);
}

static int want_number(const cJSON *o, const char *field, double only, vc_err *err)
{
    double v = only;
    int rc = vf_json_num_opt(o, field, &v, err);
    if (rc || v == only) return rc;
    return vc_fail(err, VC_EINVAL, "%s %g: only %g is known here", field, v, only);
}

/* Fields that must be missing, null or false. */
static int want_none(const cJSON *o, const char *const *field, vc_err *err)
{
    for (; *field; field++) {
        const cJSON *v = cJSON_GetObjectItemCaseSensitive(o, *field);
        if (v && !cJSON_IsNull(v) && !cJSON_IsFalse(v))
            return vc_fail(err, VC_EINVAL, "%s is set: this program has no such schedule", *field);
    }
    return 0;
}

static int read_spacing(const cJSON *o, vtrain_spacing *spacing, vc_err *err)
{
    static const char *const names[] = { "trailing", "linspace", "leading" };
    const char *v = "leading";
    int rc = vf_json_str_opt(o, "timestep_spacing", &v, err);
    if (rc) return rc;
    for (int i = 0; i < 3; i++)
        if (!strcmp(v, names[i])) {
            *spacing = (vtrain_spacing)i;
            return *spacing == VTRAIN_LEADING ? want_number(o, "steps_offset", 0, err) : 0;
        }
    return vc_fail(err, VC_EINVAL, "timestep_spacing \"%s\": not trailing, linspace or leading", v);
}

/* ---- classes ---- */

static int read_v(vtrain_scheduler *s, const cJSON *o, vc_err *err)
{
    static const char *const none[] = { "trained_betas", NULL };
    s->snr_shift = 3;
    s->zero_snr = false;
    int rc = want_none(o, none, err);
    if (!rc) rc = want_text(o, "beta_schedule", "scaled_linear", "scaled_linear", err);
    if (!rc) rc = want_text(o, "prediction_type", "v_prediction", "epsilon", err);
    if (!rc) rc = vf_json_num_opt(o, "beta_start", &s->beta_start, err);
    if (!rc) rc = vf_json_num_opt(o, "beta_end", &s->beta_end, err);
    if (!rc) rc = vf_json_num_opt(o, "snr_shift_scale", &s->snr_shift, err);
    if (!rc) rc = vf_json_bool_opt(o, "rescale_betas_zero_snr", &s->zero_snr, err);
    if (!rc) rc = vf_json_bool_opt(o, "set_alpha_to_one", &s->alpha_to_one, err);
    if (!rc) rc = read_spacing(o, &s->spacing, err);
    if (rc) return rc;
    if (!(s->beta_start > 0 && s->beta_start < s->beta_end && s->beta_end < 1))
        return vc_fail(err, VC_EINVAL, "beta_start %g, beta_end %g: 0 < start < end < 1 is "
                       "expected", s->beta_start, s->beta_end);
    if (!(s->snr_shift > 0 && s->snr_shift <= 1e6))
        return vc_fail(err, VC_EINVAL, "snr_shift_scale %g: must be above 0", s->snr_shift);
    return 0;
}

static int read_flow(vtrain_scheduler *s, const cJSON *o, vc_err *err)
{
    static const char *const none[] = {
        "use_dynamic_shifting", "use_karras_sigmas", "use_exponential_sigmas", "use_beta_sigmas",
        "invert_sigmas", "shift_terminal", "stochastic_sampling", NULL
    };
    int rc = want_none(o, none, err);
    if (!rc) rc = vf_json_num_opt(o, "shift", &s->shift, err);
    if (!rc && !(s->shift > 0 && s->shift <= 1e6))
        rc = vc_fail(err, VC_EINVAL, "shift %g: must be above 0", s->shift);
    return rc;
}

static int read_class(vtrain_scheduler *s, const cJSON *o, vc_err *err)
{
    const char *name;
    int rc = vf_json_str(o, "_class_name", &name, err);
    if (rc) return rc;
    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++) {
        if (strcmp(name, classes[i].name)) continue;
        s->kind = classes[i].kind;
        s->sampler = classes[i].sampler;
        rc = want_number(o, "num_train_timesteps", VTRAIN_TIMES, err);
        return rc ? rc : s->kind == VTRAIN_V ? read_v(s, o, err) : read_flow(s, o, err);
    }
    return vc_fail(err, VC_EINVAL, "_class_name \"%s\": known are CogVideoXDDIMScheduler, "
                   "CogVideoXDPMScheduler and FlowMatchEulerDiscreteScheduler", name);
}

/* ---- the file ---- */

static int find_file(char **path, const char *model, const char *given, vc_err *err)
{
    static const char name[] = "scheduler_config.json";
    struct stat st;
    if (given) {
        bool folder = !stat(given, &st) && S_ISDIR(st.st_mode);
        *path = folder ? vc_path_join(given, name) : strdup(given);
    } else {
        *path = model ? vc_format("%s/scheduler/%s", model, name) : strdup("");
    }
    if (!*path) return vc_fail(err, VC_ENOMEM, "out of memory");
    if (vc_file_exists(*path)) return 0;
    int rc = given ? vc_fail(err, VC_ENOENT, "%s: no such file", *path) : 0;
    free(*path);
    *path = NULL;
    return rc;
}

int vtrain_scheduler_read(vtrain_scheduler *s, const char *model, const char *given, vc_err *err)
{
    *s = (vtrain_scheduler){
        .kind = VTRAIN_V, .sampler = VTRAIN_DDIM, .shift = 1, .beta_start = 0.00085,
        .beta_end = 0.012, .snr_shift = 1, .zero_snr = true, .alpha_to_one = true,
        .spacing = VTRAIN_TRAILING,
    };
    cJSON *o = NULL;
    int rc = find_file(&s->path, model, given, err);
    if (rc || !s->path) return rc;
    rc = vf_json_read(&o, s->path, MAX_CONFIG, err);
    if (!rc) rc = vc_context(err, read_class(s, o, err), "%s", s->path);
    cJSON_Delete(o);
    if (rc) vtrain_scheduler_free(s);
    return rc;
}

void vtrain_scheduler_free(vtrain_scheduler *s)
{
    free(s->path);
    *s = (vtrain_scheduler){ 0 };
}
