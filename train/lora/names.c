/* names.c - tables of names in LoRA files, and searches by name; see names.h */
#include "train/lora/names.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/os/file.h"

#define COUNT(a) (sizeof (a) / sizeof *(a))

/* ---- renames ---- */

/* Whether name is the pattern with a number in place of '#'. `number` gets the digits, "" for a
 * pattern without '#'. */
static bool fits(const char *pattern, const char *name, char number[16])
{
    size_t before = strcspn(pattern, "#"), n = 0;
    number[0] = 0;
    if (!pattern[before])
        return !strcmp(pattern, name);
    if (strncmp(pattern, name, before))
        return false;
    name += before;
    while (isdigit((unsigned char)name[n]))
        n++;
    if (!n || n > 15 || strcmp(pattern + before + 1, name + n))
        return false;
    snprintf(number, 16, "%.*s", (int)n, name);
    return true;
}

static char *filled(const char *pattern, const char *number)
{
    int before = (int)strcspn(pattern, "#");
    return vc_format("%.*s%s%s", before, pattern, number,
                     pattern[before] ? pattern + before + 1 : "");
}

static int share_of(const vtrain_rename *row, int part)
{
    return row->share[part] > 0 ? row->share[part] : 1;
}

/* Counts the row's modules, the shares of all modules, and the shares before r->part. */
static void measure(vtrain_renamed *r)
{
    for (; r->parts < VTRAIN_FUSED && r->row->ours[r->parts]; r->parts++) {
        if (r->parts < r->part)
            r->first += share_of(r->row, r->parts);
        r->all += share_of(r->row, r->parts);
    }
    r->share = share_of(r->row, r->part);
}

int vtrain_rename_find(vtrain_renamed *r, const vtrain_rename *table, const char *module,
                       vc_err *err)
{
    *r = (vtrain_renamed){ 0 };
    for (const vtrain_rename *row = table; row && row->theirs && !r->row; row++)
        for (int i = 0; i < VTRAIN_FUSED && row->ours[i] && !r->row; i++) {
            if (!fits(row->ours[i], module, r->number))
                continue;
            r->row = row;
            r->part = i;
        }
    if (!r->row)
        return 0;
    measure(r);
    r->theirs = filled(r->row->theirs, r->number);
    return r->theirs ? 0 : vc_no_memory(err);
}

bool vtrain_rename_swapped(const vtrain_renamed *r, int64_t rows, int64_t columns)
{
    return r->row && (r->row->share[0] == VTRAIN_SWAPPED ||
                      (r->row->share[0] == VTRAIN_SWAPPED_PAIR && rows == 2 * columns));
}

int vtrain_rename_module(vtrain_renamed *r, const vtrain_rename *table, const char *module,
                         vc_err *err)
{
    static const char end[] = ".weight";
    int rc = vtrain_rename_find(r, table, module, err);
    if (rc || r->row || !table)
        return rc;
    char *weight = vc_format("%s%s", module, end);
    rc = weight ? vtrain_rename_find(r, table, weight, err) : vc_no_memory(err);
    free(weight);
    const size_t n = rc || !r->row ? 0 : strlen(r->theirs), m = strlen(end);
    if (n > m && r->row->share[0] == VTRAIN_SWAPPED && !strcmp(r->theirs + n - m, end)) {
        r->theirs[n - m] = 0;
    } else if (!rc) {
        free(r->theirs);
        *r = (vtrain_renamed){ 0 };
    }
    return rc;
}

bool vtrain_rename_rows(const vtrain_renamed *r, int64_t all, int64_t *first, int64_t *rows)
{
    int64_t each = all / r->all;
    *first = each * r->first;
    *rows = each * r->share;
    return each * r->all == all;
}

char *vtrain_rename_sibling(const vtrain_renamed *r, int part)
{
    return filled(r->row->ours[part], r->number);
}

/* ---- names that are written ---- */

const vtrain_naming vtrain_diffusers = {
    .file = "pytorch_lora_weights.safetensors", .prefix = "transformer.",
};
const vtrain_naming vtrain_kohya = {
    "lora_kohya.safetensors", "lora_unet__", .flat = true, .renamed = true,
    .alpha = ".alpha",
};
const vtrain_naming vtrain_kohya_diffusers = {
    "lora_kohya.safetensors", "lora_unet__", .flat = true,
    .alpha = ".alpha",
};
const vtrain_naming vtrain_kohya_scripts = {
    "lora_kohya.safetensors", "lora_unet_", .flat = true, .renamed = true,
    .alpha = ".alpha",
};
const vtrain_naming vtrain_kohya_plain = {
    "lora_kohya.safetensors", "lora_unet_", .flat = true,
    .alpha = ".alpha",
};
const vtrain_naming vtrain_diffsynth = {
    .file = "lora_diffsynth.safetensors", .prefix = "", .alpha = ".alpha",
};
const vtrain_naming vtrain_comfyui = {
    "lora_comfyui.safetensors", "diffusion_model.", .renamed = true,
    .alpha = ".alpha",
};

/* ---- names that are read ---- */

/* What stands between the module and "weight", where the name of an adapter ("default") may follow,
 * or at the end of the name. */
static const struct { const char *word; vtrain_lora_part is; } halves[] = {
    { ".lora_A", VTRAIN_PART_A },       { ".lora_down", VTRAIN_PART_A },
    { ".lora_B", VTRAIN_PART_B },       { ".lora_up", VTRAIN_PART_B },
    { ".lora.down", VTRAIN_PART_A },    { ".lora.up", VTRAIN_PART_B },
    { ".lora_linear_layer.down", VTRAIN_PART_A },
    { ".lora_linear_layer.up", VTRAIN_PART_B },
};
/* Ends of the names of other parts. */
static const struct { const char *end; vtrain_lora_part is; } ends[] = {
    { ".alpha", VTRAIN_PART_ALPHA },
    { ".lora_magnitude_vector", VTRAIN_PART_MAGNITUDE },
    { ".lora_magnitude_vector.weight", VTRAIN_PART_MAGNITUDE },
    { ".lora_magnitude_vector.default.weight", VTRAIN_PART_MAGNITUDE },
    { ".dora_scale", VTRAIN_PART_MAGNITUDE },
    { ".diff", VTRAIN_PART_DIFF },          { ".w_norm", VTRAIN_PART_DIFF },
    { ".diff_b", VTRAIN_PART_DIFF_B },      { ".b_norm", VTRAIN_PART_DIFF_B },
    { ".lokr_w1", VTRAIN_PART_KR_1 },       { ".lokr_w1_a", VTRAIN_PART_KR_1A },
    { ".lokr_w1_b", VTRAIN_PART_KR_1B },    { ".lokr_w2", VTRAIN_PART_KR_2 },
    { ".lokr_w2_a", VTRAIN_PART_KR_2A },    { ".lokr_w2_b", VTRAIN_PART_KR_2B },
    { ".hada_w1_a", VTRAIN_PART_HA_1A },    { ".hada_w1_b", VTRAIN_PART_HA_1B },
    { ".hada_w2_a", VTRAIN_PART_HA_2A },    { ".hada_w2_b", VTRAIN_PART_HA_2B },
};
/* Layers of an attention's processor, which have the LoRA's name themselves (XLabs):
 * "double_blocks.0.processor.qkv_lora1.down.weight". */
static const struct { const char *end; vtrain_lora_part is; } layers[] = {
    { ".down.weight", VTRAIN_PART_A }, { ".up.weight", VTRAIN_PART_B },
};
static const struct { const char *prefix; bool flat, second; } prefixes[] = {
    { "base_model.model.", false, false }, { "pipe.dit.", false, false },
    { "pipe.dit2.", false, true },         { "transformer.", false, false },
    { "pipe.vace.", false, false },        { "vace.", false, false },
    { "transformer_2.", false, true },     { "model.diffusion_model.", false, false },
    { "diffusion_model.", false, false },  { "unet.", false, false },
    { "dit.", false, false },              { "dit2.", false, true },
    { "module.", false, false },           { "_orig_mod.", false, false },
    { "lora_unet__", true, false },        { "lora_unet_", true, false },
    { "lora_transformer_", true, false },  { "lycoris_", true, false },
};
static const char *const texts[] = {
    "lora_te_", "lora_te1_", "lora_te2_", "lora_te3_", "lora_te4_", "lora_prior_te_",
    "text_encoder.", "text_encoder_2.", "text_encoder_3.", "text_encoders.", "text_encoder_", "te.",
    "te1.", "te2.", "conditioner.", "cond_stage_model.", "clip_l.", "clip_g.", "t5xxl.",
};

static bool ends_with(const char *name, const char *end, size_t *before)
{
    const size_t n = strlen(name), e = strlen(end);
    *before = n > e ? n - e : 0;
    return *before && !strcmp(name + *before, end);
}

/* Whether the rest of a name, behind a half's word, is that of its tensor. */
static bool is_tensor(const char *rest)
{
    if (*rest != '.')
        return !*rest;
    const char *dot = strchr(rest + 1, '.');
    return !strcmp(dot ? dot + 1 : rest + 1, "weight");
}

/* The part of a tensor by the end of its name; *module is the length of the name before the
 * part. */
static vtrain_lora_part part_of(const char *name, size_t *module)
{
    for (size_t i = 0; i < COUNT(ends); i++)
        if (ends_with(name, ends[i].end, module))
            return ends[i].is;
    for (size_t i = 0; i < COUNT(halves); i++) {
        const char *at = strstr(name, halves[i].word);
        if (!at || at == name || !is_tensor(at + strlen(halves[i].word)))
            continue;
        *module = (size_t)(at - name);
        return halves[i].is;
    }
    for (size_t i = 0; i < COUNT(layers); i++)
        if (ends_with(name, layers[i].end, module)) {
            const char *last = memrchr(name, '.', *module);
            const char *lora = strstr(last ? last : name, "_lora");
            return lora && lora < name + *module ? layers[i].is : VTRAIN_PART_NONE;
        }
    return VTRAIN_PART_NONE;
}

vtrain_lora_part vtrain_lora_part_of(const char *suffix)
{
    for (size_t i = 0; i < COUNT(ends); i++)
        if (!strcmp(ends[i].end, suffix))
            return ends[i].is;
    return VTRAIN_PART_NONE;
}

/* Skips prefixes, which may follow each other, before the name's first n characters end. */
static const char *skip_prefixes(const char *name, size_t n, bool *flat, bool *second)
{
    *flat = *second = false;
    for (size_t i = 0; i < COUNT(prefixes) && !*flat;) {
        const size_t p = strlen(prefixes[i].prefix);
        if (n <= p || strncmp(name, prefixes[i].prefix, p)) {
            i++;
            continue;
        }
        name += p;
        n -= p;
        *flat = prefixes[i].flat;
        *second |= prefixes[i].second;
        i = 0;
    }
    return name;
}

vtrain_lora_name vtrain_lora_module(const char *name)
{
    size_t n;
    vtrain_lora_name out = { .is = part_of(name, &n) };
    if (!out.is)
        return out;
    const char *bare = skip_prefixes(name, n, &out.flat, &out.second);
    out.module = strndup(bare, n - (size_t)(bare - name));
    return out;
}

bool vtrain_lora_is_text(const char *name)
{
    bool is = false;
    for (size_t i = 0; !is && i < COUNT(texts); i++)
        is = !strncmp(name, texts[i], strlen(texts[i]));
    return is;
}

const char *vtrain_lora_bare(const char *name)
{
    bool flat, second;
    return skip_prefixes(name, strlen(name), &flat, &second);
}

bool vtrain_lora_same_module(const char *read, bool flat, const char *module)
{
    if (!flat)
        return !strcmp(read, module);
    const char *a = read;
    for (; *a && *module; a++, module++)
        if (*a != (*module == '.' ? '_' : *module))
            return false;
    return !*a && !*module;
}
