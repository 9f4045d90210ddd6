/* ltx2_connector.h - LTX-2's connector of the prompt of video or sound: a transformer over the text
 * encoder's features, which runs before the model in each step and is never trained. The semantics
 * are those of video_connector and audio_connector of diffusers' LTX2TextConnectors.
 *
 * Learned registers stand behind a prompt's own tokens up to a fixed number of rows, all of which
 * the model then attends to. */
#ifndef TRAIN_MODELS_LTX2_CONNECTOR_H
#define TRAIN_MODELS_LTX2_CONNECTOR_H

#include "train/models/dit.h"

enum { LTX2_PROMPT_ROWS = 1024 };             /* max_sequence_length of diffusers' pipelines */

typedef struct ltx2_connector ltx2_connector;
typedef enum { LTX2_OF_VIDEO, LTX2_OF_SOUND, LTX2_CONNECTORS } ltx2_connector_of;

/* Opens the connector of this config.json and these weights for prompts of `rows` rows. VC_EFORMAT
 * names the field of config.json; VC_ENOENT and VC_EMISMATCH name the tensor. *out is NULL on
 * failure. */
int ltx2_connector_open(ltx2_connector **out, vt_ctx *g, ltx2_connector_of of, const cJSON *config,
                        const vt_source *src, int64_t rows, vc_err *err);
void ltx2_connector_close(ltx2_connector *c);               /* NULL is fine */
/* The parameters, for checks of names and sizes. */
vt_params *ltx2_connector_params(ltx2_connector *c);
int64_t ltx2_connector_width(const ltx2_connector *c);      /* of features and of results */
/* Bytes of private memory, without weights that stay mapped from their file. */
size_t ltx2_connector_bytes(const ltx2_connector *c);

/* Makes the tensors that come from the host, of texts of `rows` rows. */
enum { LTX2_CONNECTOR_MADE = 2 };
void ltx2_connector_prepare(vt_ctx *g, const ltx2_connector *c, const vtrain_cond *text,
                            vt_tensor *made[LTX2_CONNECTOR_MADE]);
/* features [B,rows,D], zeros behind a prompt's tokens -> [B,rows,D] in the compute type */
vt_tensor *ltx2_connector_run(vt_ctx *g, const ltx2_connector *c, vt_tensor *features,
                              vt_tensor *const made[LTX2_CONNECTOR_MADE]);

#endif
