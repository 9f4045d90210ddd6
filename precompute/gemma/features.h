/* features.h - the features that LTX-2's connectors read, made from the states of all layers of its
 * text encoder; inside precompute only. The semantics are those of diffusers' LTX2TextConnectors
 * before its video_connector.
 *
 * 2.0 normalises the states of a layer by their mean and range over a text's tokens and channels,
 * 2.3 those of a layer and token by their root mean square; then one linear layer reads all layers
 * of a token. In 2.3 each connector has such a layer: with `sound` the features of a token are
 * those of the video's connector, then those of the sound's; in 2.0 both read the same. */
#ifndef PRECOMPUTE_GEMMA_FEATURES_H
#define PRECOMPUTE_GEMMA_FEATURES_H

#include "precompute/text/stack.h"

typedef struct ltx2_features ltx2_features;

/* Opens config.json and the weights of the connectors' folder for states of `states` layers,
 * `channels` wide, in the context g. VC_EFORMAT, VC_EMISMATCH, VC_ENOENT: the folder does not fit;
 * the message names the field or tensor. *out is NULL on failure. */
int ltx2_features_open(ltx2_features **out, vt_ctx *g, const char *dir, int states, int channels,
                       bool sound, vc_err *err);
void ltx2_features_close(ltx2_features *f);       /* NULL is fine */
int ltx2_features_width(const ltx2_features *f);
/* Hashes the version and the weights, all of which this call reads. VC_ESTOP. */
int ltx2_features_hash(const ltx2_features *f, vf_hasher *h, vc_err *err);
/* Makes the features [n,width] of a text of n tokens from its states [states,n,channels], which it
 * overwrites. VC_ENUMERIC: a feature is not finite. */
int ltx2_features_make(ltx2_features *f, float *states, int n, float *features, vc_err *err);

#endif
