/* ttt.h - the settings of TTT layers and the names of their transformer; for ttt*.c only. */
#ifndef TRAIN_MODELS_TTT_H
#define TRAIN_MODELS_TTT_H

#include "train/models/dit.h"

#define TTT_CLASS "TTTCogVideoXTransformer3DModel"

/* A segment has SEGMENT latent frames (3 s) after the first one, which it shares with the segment
 * before it. */
enum { TTT_SEGMENT = 12 };

typedef struct ttt_config {
    int layer;                                /* index into ttt_linear|ttt_mlp */
    int64_t mini_batch, group;                /* mini_batch_size, scan_checkpoint_group_size */
    double base_lr;                           /* ttt_base_lr */
    bool compat;                              /* ttt_eta_compat */
} ttt_config;
enum { TTT_LINEAR, TTT_MLP };

/* Reads the settings from config.json. VC_EFORMAT names the field. */
int ttt_config_read(ttt_config *c, const cJSON *o, vc_err *err);
/* vtrain_family.ssm */
int ttt_config_set(cJSON *config, const vtrain_ssm *want, vc_err *err);
/* vtrain_family.convert: makes the config.json of a CogVideoX transformer that of one with TTT
 * layers, whose settings are not in it yet. */
int ttt_convert(cJSON **config, const cJSON *theirs, const vt_source *src, vc_err *err);

/* CogVideoX's names in diffusers of the weights whose names here are those of TTT's authors. */
extern const vtrain_rename ttt_names[];

#endif
