/* alpha.h - the alphas that a LoRA file's metadata give to its modules; for lora.c.
 *
 * The metadata are the object lora_adapter_metadata of the file's header (diffusers), or
 * lora_config (Finetrainers), or the adapter_config.json beside the file (PEFT). Their
 * alpha_pattern, whose keys are expressions for the end of a module's path, comes before their
 * lora_alpha. */
#ifndef TRAIN_LORA_ALPHA_H
#define TRAIN_LORA_ALPHA_H

#include <stdbool.h>

#include "formats/tensors/safetensors.h"

struct vtrain_lora_pattern;
typedef struct vtrain_lora_alpha {
    double alpha;                /* lora_alpha; NaN: the metadata have none */
    bool root;                   /* use_rslora: alpha / sqrt(r) (Kalajdzievski 2023) */
    bool dora;                   /* use_dora: each module has magnitudes */
    struct vtrain_lora_pattern *pattern;
    int n_patterns;
    double trained;              /* vlt_network_alpha of a file with alpha baked into B; or NaN */
} vtrain_lora_alpha;

/* Reads the metadata of the open file of this path. VC_EFORMAT names the field that is out of range
 * or not supported. The caller closes *a even after a failure. */
int vtrain_lora_alpha_read(vtrain_lora_alpha *a, const vf_safetensors *file, const char *path,
                           vc_err *err);
void vtrain_lora_alpha_close(vtrain_lora_alpha *a);          /* an all-zero *a is fine */
/* The factor of a module's B A by the metadata; 1 (alpha is the rank) where they have no alpha. A
 * pattern that takes too long to match has no factor: NaN, and vtrain_lora_alpha_check says why. */
double vtrain_lora_alpha_scale(const vtrain_lora_alpha *a, const char *module, double rank);
int vtrain_lora_alpha_check(const vtrain_lora_alpha *a, vc_err *err);

#endif
