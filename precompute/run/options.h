/* options.h - the options of a run, a field for each flag (precompute/vprep/main.c). */
#ifndef PRECOMPUTE_RUN_OPTIONS_H
#define PRECOMPUTE_RUN_OPTIONS_H

#include "common/base/dtype.h"
#include "common/cli/flags.h"
#include "formats/metadata/wording.h"

typedef struct vprep vprep;                          /* vprep.h */

typedef struct vprep_config {
    char *meta, *data, *out, *model, *config;
    char *model_paths, *model_id_with_origin_paths;  /* DiffSynth-Studio's names of the model */
    char *data_file_keys, *extra_inputs, *caption_column, *edits;
    char *plan, *validation_prompts, *negative_prompt, *trace_dir, *variants, *device;
    char *vae, *text_encoder[3], *tokenizer[3];      /* component folders; NULL: the model's */
    char *image_processor, *image_encoder, *connectors;
    vc_dtype vae_dtype, text_dtype[3], vision_dtype; /* VC_DTYPE_NONE: the family's */
    bool vae_tiling;
    int64_t vae_window;               /* frames; 0: the family's */
    int64_t max_length;               /* tokens of a prompt; 0: the model's */
    int64_t ttt_segments;             /* of each clip; 0: as its row has captions */
    char *video_length;               /* "9sec" in place of them; NULL */
    int64_t ttt_mini_batch;           /* 0: tokens are not checked */
    char *shard;                      /* "i/n"; NULL: all rows */
    int64_t comm_timeout;             /* s; 0: for ever */
    int64_t reference_size;
    int64_t seed, workers, thumbnails, shard_size, video_repeat, noise_variants;
    int64_t train_batch_size;         /* of the table of buckets */
    bool trust_metadata, with_audio;
    vc_dtype dtype;
    int train_mode;                   /* a vc_mode */
    int image_condition_type;         /* auto | token_replace | latent_concat */
    int mask_shapes;                  /* first_frame | all_frames */
    int without_mask;                 /* drawn | all */
    double unmasked_probability;
    int latent_store;                 /* STORE_AUTO ... */
    int on_error;                     /* skip | stop */
    int video_decoder;                /* cpu | nvdec */
    int tonemap;                      /* a media_tonemap, for HDR sources */
    int like;                         /* index into VC_LIKE_ALLOWED */
    int log_format;
    bool dry_run, overwrite, append, rehash, allow_missing, quiet, profile;
    bool allow_empty_captions, caption_lines, folder_repeats, reference_as_is;
    char *default_caption;            /* NULL: none */
    char *preserve;                   /* "TRIGGER=CLASS"; NULL */
    char *reg_data_dir;
    int sample_kind;                  /* a vf_held, of the rows of meta */
    vf_wording wording;               /* how captions are changed; its seed is not set */
    char *model_version;
    bool edit, edit_plus;             /* the same for Qwen-Image-Edit: its first version, others */
    vc_list reuse;
    vc_list control_directory;
    char *mask_directory;
    char *image_column, *reference_column;
    double sample_fps, shard_seconds;
    /* sampling flags, as vb_rules has them */
    bool enable_bucket, random_hw_adapt, token_length, random_ratio_crop, random_frame_crop;
    bool allow_upscale, random_flip;
    int64_t video_sample_size, image_sample_size, token_sample_size, fix_size[2], stride, n_frames;
    int64_t max_pixels;               /* 0: the flag was not given */
    int64_t num_frames;               /* clips are the first frames; 0: the flag was not given */
    int sampling;                     /* vlt | peer */
    int frame_rule, frame_count, start_rule, fit, bucket_metric, on_small;
    double max_upscale;
} vprep_config;

enum { STORE_AUTO, STORE_MOMENTS, STORE_SAMPLE, STORE_MODE };

#endif
