/* lora_names.c - tables of names in LoRA files, and searches by name; see lora_names.h */
#include "train/models/lora_names.h"

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
    "pytorch_lora_weights.safetensors", "transformer.", .a = ".lora_A.weight",
    .b = ".lora_B.weight",
};
const vtrain_naming vtrain_kohya = {
    "lora_kohya.safetensors", "lora_unet__", .flat = true, .renamed = true,
    .a = ".lora_down.weight", .b = ".lora_up.weight", .alpha = ".alpha",
};
const vtrain_naming vtrain_kohya_diffusers = {
    "lora_kohya.safetensors", "lora_unet__", .flat = true,
    .a = ".lora_down.weight", .b = ".lora_up.weight", .alpha = ".alpha",
};
const vtrain_naming vtrain_kohya_scripts = {
    "lora_kohya.safetensors", "lora_unet_", .flat = true, .renamed = true,
    .a = ".lora_down.weight", .b = ".lora_up.weight", .alpha = ".alpha",
};
const vtrain_naming vtrain_comfyui = {
    "lora_comfyui.safetensors", "diffusion_model.", .renamed = true,
    .a = ".lora_down.weight", .b = ".lora_up.weight", .alpha = ".alpha",
};

/* ---- names that are read ---- */

static const struct { const char *word; vtrain_lora_part is; } halves[] = {
    { ".lora_A.", VTRAIN_PART_A }, { ".lora_down.", VTRAIN_PART_A },
    { ".lora_B.", VTRAIN_PART_B }, { ".lora_up.", VTRAIN_PART_B },
};
static const struct { const char *prefix; bool flat; } prefixes[] = {
    { "base_model.model.", false }, { "pipe.dit.", false }, { "transformer.", false },
    { "diffusion_model.", false },
    { "lora_unet__", true }, { "lora_unet_", true },
};
/* The part of a tensor by the end of its name; *module is the length of the name before the part.
 * The name of an adapter ("default") may stand between the half's name and "weight". */
static vtrain_lora_part part_of(const char *name, size_t *module)
{
    static const char alpha[] = ".alpha";
    size_t n = strlen(name), a = sizeof alpha - 1;
    *module = n > a ? n - a : 0;
    if (*module && !strcmp(name + *module, alpha))
        return VTRAIN_PART_ALPHA;
    for (size_t i = 0; i < COUNT(halves); i++) {
        const char *at = strstr(name, halves[i].word);
        if (!at || at == name)
            continue;
        const char *rest = at + strlen(halves[i].word), *dot = strchr(rest, '.');
        *module = (size_t)(at - name);
        if (!strcmp(dot ? dot + 1 : rest, "weight"))
            return halves[i].is;
    }
    return VTRAIN_PART_NONE;
}

char *vtrain_lora_module(const char *name, vtrain_lora_part *is, bool *flat)
{
    size_t n;
    *flat = false;
    *is = part_of(name, &n);
    if (!*is)
        return NULL;
    for (size_t i = 0; i < COUNT(prefixes) && !*flat;) {     /* prefixes may follow each other */
        size_t p = strlen(prefixes[i].prefix);
        if (n <= p || strncmp(name, prefixes[i].prefix, p)) {
            i++;
            continue;
        }
        name += p;
        n -= p;
        *flat = prefixes[i].flat;
        i = 0;
    }
    return strndup(name, n);
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
