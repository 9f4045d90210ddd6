/* scheduler.c - the fields of scheduler_config.json, as a table; see scheduler.h */
#include "train/diffusion/scheduler.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/os/file.h"
#include "formats/json/config.h"

enum { MAX_CONFIG = 1 << 20 };

static const struct { const char *name; vtrain_kind kind; vtrain_sampler sampler; } classes[] = {
    { "CogVideoXDDIMScheduler", VTRAIN_V, VTRAIN_DDIM },
    { "CogVideoXDPMScheduler", VTRAIN_V, VTRAIN_DPM },
    { "FlowMatchEulerDiscreteScheduler", VTRAIN_FLOW, VTRAIN_EULER },
    { "UniPCMultistepScheduler", VTRAIN_FLOW, VTRAIN_UNIPC },
};

/* ---- fields ---- */

typedef vtrain_scheduler config;

static const vf_config_row v_rows[] = {
    VF_NUM(config, beta_start, "beta_start", 0.00085, VF_ABOVE_0, 1),
    VF_NUM(config, beta_end, "beta_end", 0.012, VF_ABOVE_0, 1),
    VF_NUM(config, snr_shift, "snr_shift_scale", 3, VF_ABOVE_0, 1e6),
    VF_FLAG(config, zero_snr, "rescale_betas_zero_snr", false),
    VF_FLAG(config, alpha_to_one, "set_alpha_to_one", true),
    VF_WORD(config, spacing, "timestep_spacing", "leading", "trailing|linspace|leading"),
    VF_ONLY("beta_schedule", "scaled_linear", "scaled_linear"),
    VF_ONLY("prediction_type", "v_prediction", "epsilon"),
    VF_ONLY_INT("num_train_timesteps", VTRAIN_TIMES),
    VF_UNSET("trained_betas", NULL),
    { 0 }
};
static const vf_config_row leading_rows[] = { VF_ONLY_INT("steps_offset", 0), { 0 } };

static const vf_config_row flow_rows[] = {
    VF_NUM(config, shift, "shift", 1, VF_ABOVE_0, 1e6),
    VF_ONLY_INT("num_train_timesteps", VTRAIN_TIMES),
    VF_FLAG(config, by_tokens.on, "use_dynamic_shifting", false),
    VF_WORD(config, by_tokens.type, "time_shift_type", "exponential", "exponential|linear"),
    VF_NUM(config, by_tokens.base, "base_shift", 0.5, -100, 100),
    VF_NUM(config, by_tokens.max, "max_shift", 1.15, -100, 100),
    VF_INT(config, by_tokens.base_len, "base_image_seq_len", 256, 1, 1 << 30),
    VF_INT(config, by_tokens.max_len, "max_image_seq_len", 4096, 1, 1 << 30),
    VF_NUM(config, terminal, "shift_terminal", 0, 0, 0.999),
    VF_FLAG(config, karras, "use_karras_sigmas", false),
    VF_UNSET("use_exponential_sigmas", NULL),
    VF_UNSET("use_beta_sigmas", NULL),
    VF_UNSET("invert_sigmas", NULL),
    VF_UNSET("stochastic_sampling", NULL),
    { 0 }
};

/* With flow sigmas, which are off unless the file has them on. */
static const vf_config_row unipc_rows[] = {
    VF_FLAG(config, flow_sigmas, "use_flow_sigmas", false),
    VF_NUM(config, shift, "flow_shift", 1, VF_ABOVE_0, 1e6),
    VF_NUM(config, terminal, "shift_terminal", 0, 0, 0.999),
    VF_ONLY("prediction_type", "flow_prediction", "epsilon"),
    VF_ONLY("solver_type", "bh2|midpoint|heun|logrho", "bh2"),
    VF_ONLY("final_sigmas_type", "zero", "zero"),
    VF_ONLY_INT("num_train_timesteps", VTRAIN_TIMES),
    VF_ONLY_INT("solver_order", 2),
    VF_ONLY_FLAG("predict_x0", true),
    VF_ONLY_FLAG("lower_order_final", true),
    VF_UNSET("disable_corrector", NULL),
    VF_UNSET("solver_p", NULL),
    VF_UNSET("thresholding", NULL),
    VF_UNSET("use_dynamic_shifting", NULL),
    VF_UNSET("use_karras_sigmas", NULL),
    VF_UNSET("use_exponential_sigmas", NULL),
    VF_UNSET("use_beta_sigmas", NULL),
    { 0 }
};

static int read_unipc(vtrain_scheduler *s, const cJSON *o, vc_err *err)
{
    int rc = vf_config_read(s, unipc_rows, o, err);
    if (!rc && !s->flow_sigmas)
        rc = vc_fail(err, VC_EINVAL, "use_flow_sigmas: false; true is supported");
    return rc;
}

static int read_v(vtrain_scheduler *s, const cJSON *o, vc_err *err)
{
    int rc = vf_config_read(s, v_rows, o, err);
    if (!rc && s->spacing == VTRAIN_LEADING)
        rc = vf_config_read(s, leading_rows, o, err);
    if (!rc && !(s->beta_start < s->beta_end && s->beta_end < 1))
        rc = vc_fail(err, VC_EINVAL, "beta_start: %g, beta_end: %g; 0 < start < end < 1 is "
                     "expected", s->beta_start, s->beta_end);
    return rc;
}

/* A linear mu is itself the factor, so mu must be above 0 for any number of tokens. */
static int read_flow(vtrain_scheduler *s, const cJSON *o, vc_err *err)
{
    const vtrain_by_tokens *b = &s->by_tokens;
    int rc = vf_config_read(s, flow_rows, o, err);
    if (rc || !b->on)
        return rc;
    s->shift = 0;
    if (b->base_len >= b->max_len)
        return vc_fail(err, VC_EINVAL, "base_image_seq_len: %lld, max_image_seq_len: %lld; base < "
                       "max is expected", (long long)b->base_len, (long long)b->max_len);
    if (b->type == VTRAIN_MU_LINEAR && !(b->max >= b->base && vtrain_shift_mu(b, 1) > 0))
        return vc_fail(err, VC_EINVAL, "base_shift: %g, max_shift: %g; a linear shift rises with "
                       "the tokens, and is above 0 for one", b->base, b->max);
    return 0;
}

/* ---- classes ---- */

static int read_class(vtrain_scheduler *s, const cJSON *o, vc_err *err)
{
    const char *name;
    int rc = vf_json_str(o, "_class_name", &name, err);
    if (rc)
        return rc;
    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++) {
        if (strcmp(name, classes[i].name))
            continue;
        s->kind = classes[i].kind;
        s->sampler = classes[i].sampler;
        if (s->sampler == VTRAIN_UNIPC)
            return read_unipc(s, o, err);
        return s->kind == VTRAIN_V ? read_v(s, o, err) : read_flow(s, o, err);
    }
    return vc_fail(err, VC_EINVAL, "_class_name \"%s\": known are CogVideoXDDIMScheduler, "
                   "CogVideoXDPMScheduler, FlowMatchEulerDiscreteScheduler and "
                   "UniPCMultistepScheduler", name);
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
    if (!*path)
        return vc_no_memory(err);
    if (vc_file_exists(*path))
        return 0;
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
    if (rc || !s->path)
        return rc;
    rc = vf_json_read(&o, s->path, MAX_CONFIG, err);
    if (!rc)
        rc = vc_context(err, read_class(s, o, err), "%s", s->path);
    cJSON_Delete(o);
    if (rc)
        vtrain_scheduler_free(s);
    return rc;
}

int vtrain_scheduler_check(const vtrain_scheduler *s, const vc_pipeline *pipeline, vc_err *err)
{
    if (!s->karras || (pipeline && pipeline->sigmas == VC_SIGMAS_KARRAS))
        return 0;
    return vc_fail(err, VC_EINVAL, "%s: use_karras_sigmas: true; false is supported for this model",
                   s->path);
}

vtrain_solver_opts vtrain_scheduler_plan(const vtrain_scheduler *s, vtrain_sampler sampler,
                                         const vc_pipeline *pipeline, const vtrain_objective *o,
                                         int64_t tokens, int steps)
{
    static const vc_pipeline plain = { .sigmas = VC_SIGMAS_EVEN };
    const vc_pipeline *p = pipeline ? pipeline : &plain;
    const bool flow = vtrain_objective_kind(o) == VTRAIN_FLOW;
    const bool by_steps = p->steps_shift && vtrain_objective_by_tokens(o);
    const double shift = !flow ? 1 : by_steps ? vtrain_shift_of_steps(tokens, steps)
                                              : vtrain_objective_shift(o, tokens);
    vtrain_solver_opts x = {
        .sampler = sampler, .steps = steps, .spacing = s->spacing, .sigmas = p->sigmas,
        .shift = shift, .terminal = s->terminal,
        .final_alpha = 1, .alpha_bar = flow ? NULL : vtrain_alpha_bars(o),
    };
    if (!flow && !s->alpha_to_one)
        x.final_alpha = x.alpha_bar[0];
    return x;
}

void vtrain_scheduler_free(vtrain_scheduler *s)
{
    free(s->path);
    *s = (vtrain_scheduler){ 0 };
}
