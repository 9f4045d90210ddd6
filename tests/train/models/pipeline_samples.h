/* pipeline_samples.h - validation samples of whole runs against those of diffusers' pipelines,
 * which are in tests/golden/samples-NAME. For tests: failures end the test.
 *
 * Such a golden holds `text` [n,D] of the prompt and `negative_text`, `pooled` [P] and
 * `negative_pooled` where the model has pooled vectors, `text_2` and `negative_text_2` where a
 * second encoder has states of its own, a raw first-frame latent `image` [C,1,h,w], `last`
 * [C,1,h,w] and `start` [C,k,h,w] of pipelines that end with a picture or go on from a clip, and
 * the conditions `video`, `control` and `mask` [C,f,h,w] and `vision` [n,D] where the pipeline
 * takes them, and the pipeline's raw `latents` [C,f,h,w]; the metadata holds `seed`, `steps`,
 * `guidance`, and `flags` where vtrain needs more of them for this sample. */
#ifndef TESTS_TRAIN_MODELS_PIPELINE_SAMPLES_H
#define TESTS_TRAIN_MODELS_PIPELINE_SAMPLES_H

#include "formats/tensors/safetensors.h"
#include "tests/lib/train_dataset.h"

/* A set-up for cmocka: makes a folder, which becomes *state, with the models of the goldens
 * `names`, ended by NULL, in folders of these names. */
int pipeline_models_make(void **state, const char *const *names);
/* Makes the dataset t, with the golden's prompt of `frames` frames as its one validation prompt.
 * Text encoders of t->pooled_only get the pooled vector alone, others get both tensors. */
void pipeline_set_make(toy t, const vf_safetensors *gold, int frames);
/* Trains a step on DIR/SET with the transformer's folder DIR/MODEL, into DIR/out-SET-MODEL. The
 * LoRA's changes are too small to be seen in samples, which are the base's. */
int pipeline_run(const char *dir, const char *set, const char *model, const char *more,
                 vc_err *err);
/* Makes the folder DIR/CLASS with model_index.json and this scheduler_config.json, for --model.
 * Returns its path, malloc'ed. */
char *pipeline_folder(const char *dir, const char *class, const char *scheduler);
/* Compares a sample's file with the golden's latents and guidance: the largest difference is 5e-5
 * of the largest value. Returns the open file. */
vf_safetensors *pipeline_sample_check(const char *path, const vf_safetensors *gold);
/* For each golden, ended by NULL: the model's run makes its sample, with its steps and guidance.
 * toy_of gives the dataset at a path. */
void pipeline_goldens_check(const char *dir, toy (*toy_of)(const char *path), const char *model,
                            const char *const *goldens);
/* A run without flags for samples has these steps and this guidance. */
void pipeline_defaults_check(const char *dir, toy (*toy_of)(const char *path), const char *model,
                             const char *golden, const char *steps, const char *guidance);

#endif
