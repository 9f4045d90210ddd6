/* experts.c - see experts.h */
#include "train/setup/experts.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "common/os/file.h"
#include "formats/tensors/component.h"
#include "train/diffusion/shift.h"
#include "train/models/weights.h"


static const char *const names[VTRAIN_HALVES] = { "transformer", "transformer_2" };
static const char *const words[VTRAIN_HALVES] = { "high", "low" };
static const vtrain_side sides[VTRAIN_HALVES] = { VTRAIN_SIDE_HIGH, VTRAIN_SIDE_LOW };

char *vtrain_half_path(const char *path, bool low)
{
    return low ? vc_path_join(path, names[1]) : strdup(path);
}

char *vtrain_half_lora(const vtrain *t, const char *path, bool low)
{
    char *inside = vtrain_half_path(path, low);
    if (!inside || !low || vtrain_both(t) || vc_file_exists(inside))
        return inside;
    free(inside);
    return strdup(path);
}

/* ---- names and places ---- */

/* A part of a path: a file's or a folder's name. */
typedef struct part { const char *s; size_t n; } part;

static bool has(part p, const char *word)
{
    size_t n = strlen(word);
    for (size_t i = 0; i + n <= p.n; i++)
        if (!strncasecmp(p.s + i, word, n))
            return true;
    return false;
}

static bool is(part p, const char *word)
{
    return p.n == strlen(word) && !strncasecmp(p.s, word, p.n);
}

/* Whether the part has `word`, before which is no letter, followed by "noise" or, if alone, by no
 * letter or digit: "low_noise", "HighNoise", and "LOW" of "A14B-LOW_fp8". */
static bool tells(part p, const char *word, bool alone)
{
    size_t n = strlen(word);
    for (size_t i = 0; i + n <= p.n; i++) {
        size_t end = i + n, at = end + (end < p.n && strchr("_- .", p.s[end]));
        bool begins = i == 0 || !isalpha((unsigned char)p.s[i - 1]);
        if (!begins || strncasecmp(p.s + i, word, n))
            continue;
        if (at + 5 <= p.n && !strncasecmp(p.s + at, "noise", 5))
            return true;
        if (alone && (end == p.n || !isalnum((unsigned char)p.s[end])))
            return true;
    }
    return false;
}

/* Whether a name is that of a model of one transformer: Wan 2.1's, and some of Wan 2.2's. */
static bool names_one(part p)
{
    static const char *const one[] = { "wan2.1", "wan2_1", "wan-2.1", "wan_2.1", "wan21",
                                       "animate", "s2v" };
    bool found = false;
    for (size_t i = 0; i < sizeof one / sizeof *one; i++)
        found |= has(p, one[i]);
    return found;
}

/* Whether a name is that of a model with two transformers: Wan 2.2's, but for its 5B, which another
 * number of channels shows. */
static bool names_two(part p)
{
    static const char *const two[] = { "a14b", "wan2.2", "wan2_2", "wan-2.2", "wan_2.2", "wan22" };
    bool found = false;
    for (size_t i = 0; i < sizeof two / sizeof *two; i++)
        found |= has(p, two[i]);
    return found && !names_one(p);
}

/* The half that a part's name tells; VTRAIN_SIDE_FULL: none, or both. */
static vtrain_side side_of(part p, bool two)
{
    if (is(p, names[1]))
        return VTRAIN_SIDE_LOW;
    bool high = tells(p, words[0], false), low = tells(p, words[1], false);
    if (!high && !low && two) {
        high = tells(p, words[0], true);
        low = tells(p, words[1], true);
    }
    return high == low ? VTRAIN_SIDE_FULL : high ? VTRAIN_SIDE_HIGH : VTRAIN_SIDE_LOW;
}

enum { NEAR = 3, FAR = 6 };                    /* parts of a path, from its end, whose names tell
                                                * the half, and the model */

/* The k-th part from the path's end; empty where there is none. */
static part part_at(const char *path, int k)
{
    size_t end = strlen(path);
    for (int i = 0;; i++) {
        while (end > 0 && path[end - 1] == '/')
            end--;
        size_t from = end;
        while (from > 0 && path[from - 1] != '/')
            from--;
        if (i == k || from == end)
            return (part){ path + from, end - from };
        end = from;
    }
}

/* What is known of a transformer's weights before they are opened. */
typedef struct found {
    vtrain_side side;
    double boundary;                           /* 0: they are no half of a known kind */
    bool two;                                  /* the model is known to have two transformers */
    const char *why;                           /* that it is */
} found;

/* The nearest name that tells the model decides. */
static void look_at_names(found *f, const char *path)
{
    for (int k = 0; k < FAR && !f->two; k++) {
        if (names_one(part_at(path, k)))
            return;
        f->two = names_two(part_at(path, k));
    }
    for (int k = 0; k < NEAR && f->side == VTRAIN_SIDE_FULL; k++)
        f->side = side_of(part_at(path, k), f->two);
    f->two |= f->side != VTRAIN_SIDE_FULL;
}

/* Looks at the folder around the weights: a folder `transformer` beside `transformer_2` is that for
 * high noise, and a model_index.json there has the boundary. */
static int look_around(found *f, const char *path, vc_err *err)
{
    for (int k = 0; k < 2; k++) {
        part p = part_at(path, k);
        if (!is(p, names[0]) && !is(p, names[1]) && !has(p, "_noise_model"))
            continue;
        char *model = p.s == path ? strdup(".") : strndup(path, (size_t)(p.s - path)), *second;
        int rc = model ? vf_component_find(&second, model, names[1], err) : vc_no_memory(err);
        if (!rc && second) {
            rc = vtrain_weights_boundary(&f->boundary, model, err);
            f->two = true;
            if (is(p, names[0]))
                f->side = VTRAIN_SIDE_HIGH;
        }
        if (!rc)
            free(second);
        free(model);
        return rc;
    }
    return 0;
}

/* ---- the transformer's config.json ---- */

static int64_t number_of(const cJSON *config, const char *field)
{
    const cJSON *v = field ? cJSON_GetObjectItemCaseSensitive(config, field) : NULL;
    return cJSON_IsNumber(v) ? (int64_t)cJSON_GetNumberValue(v) : 0;
}

/* The boundary of models of this kind, for data of a mode: that of the first authors' type whose
 * pipeline has the mode. 0: no model of the kind has two transformers. */
static double kind_boundary(const cJSON *config, vc_mode mode)
{
    const char *class = "";
    vf_json_str_opt(config, "_class_name", &class, NULL);
    for (const vc_family *f = vc_families(); f->name; f++) {
        const vc_first *first = f->first;
        bool own = f->transformer && !strcmp(f->transformer, class);
        if (!first || (!own && strcmp(first->class, class)))
            continue;
        int type;
        if (!own && vf_component_type(first, config, &type, NULL))
            return 0;                          /* a variant that is refused later */
        int64_t out = number_of(config, own ? "out_channels" : first->out_field);
        if (out && out != f->channels)
            return 0;
        vc_mode want = mode == VC_MODE_I2V || mode == VC_MODE_INPAINT ? VC_MODE_I2V
                                                                      : VC_MODE_NORMAL;
        for (int i = 0; i < VC_FIRST_TYPES && first->type[i].type; i++) {
            const vc_pipeline *p = vc_family_pipeline(f, first->type[i].pipeline);
            if (first->type[i].boundary > 0 && p && p->mode == want)
                return first->type[i].boundary;
        }
        return 0;
    }
    return 0;
}

/* Whether a transformer is told what the first frame is by its inputs alone: one of a model of one
 * transformer also has the states of a vision model. */
static bool lacks_vision(const cJSON *config, vc_mode mode)
{
    const cJSON *type = cJSON_GetObjectItemCaseSensitive(config, "model_type");
    if (mode != VC_MODE_I2V)
        return false;
    if (cJSON_IsString(type))                  /* made of the tensors of a file */
        return number_of(config, "in_dim") > number_of(config, "out_dim") &&
               !strcmp(type->valuestring, "t2v");
    return number_of(config, "in_channels") > number_of(config, "out_channels") &&
           !number_of(config, "image_dim");
}

/* Whether two config.json describe transformers of as many blocks; those of Wan 2.2 A14B have 40,
 * as Wan 2.1's 14B has. */
static bool as_deep(const cJSON *config, const char *model)
{
    enum { BLOCKS_OF_14B = 40 };
    static const char field[] = "num_layers";
    cJSON *other = NULL;
    if (vf_component_transformer(&other, model, NULL))
        other = NULL;
    int64_t n = other ? number_of(other, field) : BLOCKS_OF_14B;
    cJSON_Delete(other);
    return number_of(config, field) == n;
}

/* Whether vprep made a dataset with a model of two transformers. */
static void look_at_data(found *f, const vtrain *t, const cJSON *config)
{
    for (int i = 0; !f->two && i < vtrain_data_sets(t->data); i++) {
        vf_made made;
        double at = 0;
        vf_dataset_made(&made, vf_dataset_path(vtrain_data_set(t->data, i)));
        bool two = made.model && names_two(part_at(made.model, 0));
        if (made.model && !vtrain_weights_boundary(&at, made.model, NULL))
            two |= at > 0;
        f->two = two && as_deep(config, made.model);
        vf_made_free(&made);
    }
    if (f->two && !f->why)
        f->why = "the dataset was made with a model of two transformers";
}

/* Adds what the config.json, names, flags and the dataset say. real: the path without links, or
 * NULL. */
static void look_inside(found *f, const vtrain *t, const char *path, const char *real,
                        const cJSON *config)
{
    double kind = kind_boundary(config, vtrain_data_mode(t->data));
    if (f->boundary == 0)
        f->boundary = kind;
    if (kind > 0)
        look_at_names(f, path);
    if (kind > 0 && f->side == VTRAIN_SIDE_FULL && real)
        look_at_names(f, real);
    if (kind == 0 && f->two && f->side == VTRAIN_SIDE_FULL)
        f->side = side_of(part_at(real ? real : path, vc_file_exists_in(path, "config.json") ? 0
                                                                                              : 1),
                          false);
    if (f->two)
        f->why = "its name or its folder says so";
    if (kind > 0 && t->cfg.task >= VTRAIN_TASK_A14B) {
        f->two = true;
        f->why = "--task says so";
    }
    if (kind > 0 && !f->two && lacks_vision(config, vtrain_data_mode(t->data))) {
        f->two = true;
        f->why = "it takes a first frame without the states of a vision model";
    }
    if (kind > 0)
        look_at_data(f, t, config);
}

/* Finds what is known of the weights at path. Weights whose config.json cannot be read are reported
 * when they are opened. */
static int look(found *f, const vtrain *t, const char *path, vc_err *err)
{
    cJSON *config = NULL;
    *f = (found){ 0 };
    if (vf_component_config(&config, path, "transformer", NULL, NULL))
        return 0;
    char *real = realpath(path, NULL);         /* of "." and of links that have other names */
    int rc = look_around(f, path, err);
    if (!rc && !f->two && real)
        rc = look_around(f, real, err);
    if (!rc)
        look_inside(f, t, path, real, config);
    free(real);
    cJSON_Delete(config);
    return rc;
}

/* ---- the choice ---- */

/* Takes the range of levels that DiffSynth-Studio's flags give for --boundary_type. They are shares
 * of its list of levels: 0.417 of Wan 2.2's T2V is the level 0.875. */
static int read_range(vtrain_config *c, double boundary, vc_err *err)
{
    enum { SHIFT = 5 };
    double least = c->min_timestep_boundary, most = c->max_timestep_boundary;
    double level = vtrain_shifted(SHIFT, 1 - (most < 1 ? most : least));
    int type = most < 1 ? VTRAIN_SIDE_HIGH : VTRAIN_SIDE_LOW;
    if (!(boundary > 0) || (least == 0 && most == 1))   /* of one transformer: part of its levels */
        return 0;
    if ((least > 0 && most < 1) || !(fabs(level - boundary) < 0.01))
        return vc_fail(err, VC_EUSAGE, "--min_timestep_boundary %g, --max_timestep_boundary %g: "
                       "levels on one side of %.3g, but the model's boundary_ratio is %g: give "
                       "--boundary_type high or low instead", least, most, level, boundary);
    if (c->boundary_type != VTRAIN_SIDE_FULL && c->boundary_type != type)
        return vc_fail(err, VC_EUSAGE, "--min_timestep_boundary %g, --max_timestep_boundary %g: "
                       "these are the levels of the other --boundary_type: leave them out", least,
                       most);
    c->boundary_type = type;
    return 0;
}

/* The half whose levels alone a range of timesteps has; VTRAIN_SIDE_FULL: it has levels of both. */
static vtrain_side side_of_range(const vtrain_config *c, double boundary)
{
    const double at = 1000 * boundary, least = 1e-3;
    if (c->min_timestep > 0 && c->min_timestep > at - least)
        return VTRAIN_SIDE_HIGH;
    return c->max_timestep < at + least ? VTRAIN_SIDE_LOW : VTRAIN_SIDE_FULL;
}

static int ask(const vtrain *t, const found *f, vc_err *err)
{
    const vtrain_config *c = &t->cfg;
    return vc_fail(err, VC_EUSAGE, "--transformer %s: one of the two transformers of its model "
                   "(%s), but not known which: give --boundary_type high if it is the one for "
                   "levels from %g up, low for the levels below, or both of them, --transformer "
                   "LOW --transformer_high HIGH; full trains all levels, as of a model with one "
                   "transformer", c->transformer ? c->transformer : c->model, f->why,
                   t->model.boundary);
}

static int contradiction(const char *path, bool low, vc_err *err)
{
    return vc_fail(err, VC_EUSAGE, "--boundary_type %s: %s is the transformer for %s noise, as its "
                   "name or its folder says: give --boundary_type %s, or the other one's file",
                   words[!low], path, words[low], words[low]);
}

static bool same_file(const char *a, const char *b)
{
    struct stat x, y;
    return !stat(a, &x) && !stat(b, &y) && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

/* Takes --transformer_high beside --transformer, which is then the half for low noise. */
static int take_two_files(vtrain *t, const found *low, bool all, double of_model, vc_err *err)
{
    vtrain_config *c = &t->cfg;
    found high;
    int rc = look(&high, t, c->transformer_high, err);
    if (rc)
        return rc;
    if (!c->transformer && !(of_model > 0))
        return vc_fail(err, VC_EUSAGE, "--transformer_high: the other transformer is missing: give "
                       "--transformer LOW, or to train the one for high noise alone, --transformer "
                       "%s --boundary_type high", c->transformer_high);
    if (all)
        return vc_fail(err, VC_EUSAGE, "--boundary_type full trains one transformer at all levels, "
                       "but --transformer_high is given too: leave one of the two flags out");
    if (c->transformer && same_file(c->transformer, c->transformer_high))
        return vc_fail(err, VC_EUSAGE, "--transformer and --transformer_high are the same: %s",
                       c->transformer);
    if (high.side == VTRAIN_SIDE_LOW)
        return vc_fail(err, VC_EUSAGE, "--transformer_high %s: this is the transformer for low "
                       "noise, as its name or its folder says: it belongs to --transformer",
                       c->transformer_high);
    if (c->transformer && low->side == VTRAIN_SIDE_HIGH)
        return vc_fail(err, VC_EUSAGE, "--transformer %s: this is the transformer for high noise, "
                       "as its name or its folder says: it belongs to --transformer_high",
                       c->transformer);
    if (c->boundary_type == VTRAIN_SIDE_FULL)
        c->boundary_type = VTRAIN_SIDE_BOTH;
    if (t->model.boundary == 0)
        t->model.boundary = high.boundary;
    t->model.half[0] = c->transformer_high;
    t->model.half[1] = c->transformer;
    return 0;
}

/* Decides for weights that --transformer names, or that are in --model's own folder. */
static int take_file(vtrain *t, const char *path, const found *f, bool all, double of_model,
                     vc_err *err)
{
    vtrain_config *c = &t->cfg;
    int how = c->boundary_type;
    if (how == VTRAIN_SIDE_FULL && !all) {
        how = f->side;
        if (how == VTRAIN_SIDE_FULL && (f->two || of_model > 0))
            how = side_of_range(c, t->model.boundary);
        if (how == VTRAIN_SIDE_FULL && f->two)
            return ask(t, f, err);
        c->boundary_type = how;
    }
    if (how == VTRAIN_SIDE_BOTH && (f->side == VTRAIN_SIDE_FULL || !(of_model > 0)))
        return vc_fail(err, VC_EUSAGE, "--boundary_type both: --transformer %s is one transformer: "
                       "give the one for low noise with --transformer and the other with "
                       "--transformer_high", path);
    for (int i = 0; i < VTRAIN_HALVES; i++) {
        if (how == (int)sides[i] && f->side == sides[!i])
            return contradiction(path, !i, err);
        if (how == (int)sides[i] || (how == VTRAIN_SIDE_BOTH && f->side == sides[i]))
            t->model.half[i] = c->transformer;
    }
    if (how == VTRAIN_SIDE_FULL && f->two)
        vc_say(t->ui, "--boundary_type full: %s, one of two transformers (%s), is trained at all "
               "levels", path, f->why);
    else if (how != VTRAIN_SIDE_FULL && how == (int)f->side)
        vc_say(t->ui, "%s: the transformer for %s noise, as its name or its folder says", path,
               words[how == VTRAIN_SIDE_LOW]);
    return 0;
}

static int check_one(const vtrain *t, double of_model, bool all, vc_err *err)
{
    const vtrain_config *c = &t->cfg;
    bool side = c->boundary_type != VTRAIN_SIDE_FULL;
    if (side && !(t->model.boundary > 0))
        return vc_fail(err, VC_EUSAGE, "--boundary_type: high, low and both choose of a model's "
                       "two transformers, but model_index.json below --model has no "
                       "boundary_ratio: leave the flag out, or give --timestep_boundary");
    if (!side && of_model > 0 && !(all && c->transformer))
        return vc_fail(err, VC_EUSAGE, "--boundary_type: %s has two transformers (boundary_ratio "
                       "%g): give high to train `transformer`, for levels from the boundary up, "
                       "low to train `transformer_2`, for the levels below, or both", c->model,
                       of_model);
    if (side && c->boundary_type != VTRAIN_SIDE_BOTH && vtrain_makes_samples(c))
        return vc_fail(err, VC_EUSAGE, "--%s: a sample needs both transformers, but the run loads "
                       "one: leave the flag out, or give --boundary_type both",
                       c->validation_steps ? "validation_steps"
                       : c->validation_epochs ? "validation_epochs" : "sample_at_first");
    if (c->boundary_type == VTRAIN_SIDE_BOTH && c->training_type == VTRAIN_FULL)
        return vc_fail(err, VC_EUSAGE, "--boundary_type both: trains LoRAs: for a full finetune "
                       "train the transformers in two runs, with high and with low");
    if (c->boundary_type == VTRAIN_SIDE_BOTH && c->sp > 1)
        return vc_fail(err, VC_EUSAGE, "--boundary_type both: the ranks cannot share samples of "
                       "two transformers yet: leave --sp out, or train them in two runs, with high "
                       "and with low");
    if (c->boundary_type == VTRAIN_SIDE_BOTH && c->dp_shards > 1)
        return vc_fail(err, VC_EUSAGE, "--boundary_type both: the ranks cannot split the state of "
                       "two transformers yet: give --parallel ddp, or train them in two runs, with "
                       "high and with low");
    return 0;
}

/* The level that --timestep_boundary gives, as a share or as a timestep; 0: none. */
static double given_boundary(const vtrain_config *c)
{
    return c->timestep_boundary > 1 ? c->timestep_boundary / 1000 : c->timestep_boundary;
}

/* Whether --model is the folder of a transformer, not of a model that has one. */
static int is_transformer(bool *yes, const char *model, vc_err *err)
{
    char *inside;
    int rc = vf_component_find(&inside, model, names[0], err);
    *yes = !rc && !inside;
    if (!rc)
        free(inside);
    return rc;
}

int vtrain_experts_choose(vtrain *t, vc_flags *set, vc_err *err)
{
    vtrain_config *c = &t->cfg;
    found f = { 0 };
    double of_model = 0, given = given_boundary(c);
    bool all = c->boundary_type == VTRAIN_SIDE_FULL && vc_flags_given(set, "boundary_type");
    bool itself = false;
    int rc = c->model ? vtrain_weights_boundary(&of_model, c->model, err) : 0;
    if (!rc && c->model && !c->transformer && !(of_model > 0))
        rc = is_transformer(&itself, c->model, err);
    if (rc)
        return vc_context(err, rc, "--model");
    const char *path = itself ? c->model : c->transformer;
    rc = path ? look(&f, t, path, err) : 0;
    if (rc)
        return vc_context(err, rc, itself ? "--model" : "--transformer");
    if (given >= 1)
        return vc_fail(err, VC_EUSAGE, "--timestep_boundary %g: the level between two transformers "
                       "is below 1, or as a timestep below 1000", c->timestep_boundary);
    if (given > 0 && path && !f.two) {
        f.two = true;
        f.why = "--timestep_boundary says so";
    }
    t->model.boundary = given > 0 ? given : of_model > 0 ? of_model : f.boundary;
    rc = read_range(c, t->model.boundary, err);
    if (!rc && c->transformer_high)
        rc = take_two_files(t, &f, all, of_model, err);
    else if (!rc && path)
        rc = take_file(t, path, &f, all, of_model, err);
    else if (!rc && of_model > 0 && c->boundary_type == VTRAIN_SIDE_FULL && !all)
        c->boundary_type = (int)side_of_range(c, t->model.boundary);
    if (!rc)
        rc = check_one(t, of_model, all, err);
    if (c->boundary_type == VTRAIN_SIDE_FULL)
        t->model.boundary = 0;
    return rc;
}
