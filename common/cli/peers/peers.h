/* peers.h - configuration files of other trainers: constant tables that say which of our flags a
 * setting is. config_peers.c reads them. A peer is a file with its rows.
 *
 * A setting's key is its path below the peer's root, "train.lr"; lists of sections add nothing to
 * it, so each dataset of "datasets" has "datasets.folder_path". A key that no row has is refused
 * with the nearest one, so that nothing is silently dropped. */
#ifndef COMMON_CLI_PEERS_PEERS_H
#define COMMON_CLI_PEERS_PEERS_H

#include <stdbool.h>

#include "common/cli/peers/encoders.h"

typedef enum vc_setting {
    VC_SETTING_FLAG,         /* the value of `flag`, or what `map` says */
    VC_SETTING_EACH,         /* each item of the list is a value of `flag` */
    VC_SETTING_SPLIT,        /* the items are the values of the flags in `flag`, in order */
    VC_SETTING_PARTS,        /* "a,b", parts of modules' names; where the map says target_name, the
                              * expression that matches such names */
    VC_SETTING_DATASETS,     /* each item, the value of the flags in `flag`, is a dataset's own */
    VC_SETTING_AREA,         /* one side, or width and height; `by` says whether other shapes of
                              * this area are taken */
    VC_SETTING_SQUARE,       /* the side of a square, or where the setting `by` is "area" its area
                              * in megapixels; other values of `by` than `otherwise` are refused */
    VC_SETTING_MORE,         /* a number of repeats after the first time: `flag` is one more */
    VC_SETTING_NOTE,         /* has no effect, for the reason in `say` */
    VC_SETTING_REFUSED,      /* not available, with the remedy in `say` */
    VC_SETTING_PAIRS,        /* "name=value" texts: settings with the key before the name */
    VC_SETTING_FILE          /* the name of a file, whose settings have the path `flag` */
} vc_setting;

typedef struct vc_peer_row {
    vc_setting kind;
    const char *key;         /* paths separated by blanks; a trailing '*' matches any ending */
    const char *flag;        /* a flag of vprep or vtrain; beside a refusal or a map the flag that
                              * the user may give instead */
    const char *map;         /* "THEIRS>FLAG=VALUE FLAG=VALUE|...": flags that a value stands for,
                              * none or several; a FLAG without '=' takes the value itself. "*"
                              * is any other value. NULL: the value as it is */
    const char *by;          /* the setting beside this one whose value `map` is read by */
    const char *otherwise;   /* its value where the file has none */
    bool both;               /* the map is read by "BESIDE/VALUE" */
    const char *only;        /* NOTE: "a|b", the values that have no effect; others are refused.
                              * REFUSED: values that are not refused */
    const char *unless;      /* REFUSED: signs of the file, any of which makes it right */
    bool kind_of_run;        /* the file is refused by this setting alone, before all others */
    const char *say;         /* reason or remedy; of a FLAG without a map a note beside it */
} vc_peer_row;

typedef struct vc_peer_file {
    const char *name;        /* "ai-toolkit" */
    const char *signs;       /* "a b|c=text*": a file with all paths of one alternative is of this
                              * peer */
    const char *root;        /* "config.process": its keys have no prefix; "": the file's own */
    const char *items;       /* the path of the sections that a file has which is a list of them,
                              * and the signs of such a section; NULL: there is none */
    const char *item_signs;
    const char *skips;       /* signs of a section of a list that is off; NULL: none is */
    const char *like;        /* the peer's name for --like; NULL: it has none */
    const char *defaults;    /* "FLAG=VALUE[??SIGNS][!!SIGNS] ...", where the file says nothing of
                              * the flag, and if it has all of the first signs, "a&b", and none of
                              * the second */
    const char *needs;       /* "a|b": the file must have one of these settings, which say the
                              * model's family; NULL: it need not */
    const char *without;     /* the remedy where it has none */
    bool expands;            /* ${NAME} is the environment's, [name] the run's name */
    bool is_flags;           /* other keys, after their section, are flags as they are typed */
    const vc_peer_row *rows; /* ended by a NULL key */
    const vc_peer_row *more; /* rows that count after these; NULL: there are none */
} vc_peer_file;

/* Returns the row behind `row`, the first one for NULL; NULL: there is none. */
const vc_peer_row *vc_peer_next(const vc_peer_file *peer, const vc_peer_row *row);

/* Variables of a file of assignments (config_env.h), and the flag that they are. */
typedef struct vc_peer_variable {
    const char *names;       /* separated by blanks; a trailing '*' matches any ending; NULL ends
                              * the table */
    const char *key;         /* NULL: the name in small letters */
    const char *value;       /* of the flag, where the variable is true; NULL: the variable's */
} vc_peer_variable;
extern const vc_peer_variable vc_simpletuner_variables[];

/* peers.c; ended by NULL. A file is of the first peer whose signs it has. */
extern const vc_peer_file *const vc_peer_files[];
extern const vc_peer_file vc_aitoolkit_file, vc_fastvideo_file, vc_ltxtrainer_file,
    vc_onetrainer_file, vc_musubi_file, vc_sdscripts_data_file, vc_sdscripts_sd3_file,
    vc_sdscripts_file, vc_simpletuner_file;

#define FLAG(keys, name) { .kind = VC_SETTING_FLAG, .key = keys, .flag = name }
#define FLAG_NOTE(keys, name, note)                                                                \
    { .kind = VC_SETTING_FLAG, .key = keys, .flag = name, .say = note }
#define MAP(keys, values, remedy)                                                                  \
    { .kind = VC_SETTING_FLAG, .key = keys, .map = values, .say = remedy }
#define KIND(keys, values, remedy)                                                                 \
    { .kind = VC_SETTING_FLAG, .key = keys, .map = values, .kind_of_run = true, .say = remedy }
#define BY(keys, beside, default_, values, remedy)                                                 \
    { .kind = VC_SETTING_FLAG, .key = keys, .by = beside, .otherwise = default_, .map = values,    \
      .say = remedy }
#define BOTH(keys, beside, default_, values, remedy)                                               \
    { .kind = VC_SETTING_FLAG, .key = keys, .by = beside, .otherwise = default_, .both = true,     \
      .map = values, .say = remedy }
#define PARTS(keys, beside, default_, values, remedy)                                              \
    { .kind = VC_SETTING_PARTS, .key = keys, .by = beside, .otherwise = default_, .map = values,   \
      .say = remedy }
#define EACH(keys, name) { .kind = VC_SETTING_EACH, .key = keys, .flag = name }
#define SPLIT(keys, names) { .kind = VC_SETTING_SPLIT, .key = keys, .flag = names }
#define DATASETS(keys, names) { .kind = VC_SETTING_DATASETS, .key = keys, .flag = names }
#define AREA(keys, beside, default_)                                                               \
    { .kind = VC_SETTING_AREA, .key = keys, .by = beside, .otherwise = default_ }
#define SQUARE(keys, names, beside, default_, remedy)                                              \
    { .kind = VC_SETTING_SQUARE, .key = keys, .flag = names, .by = beside, .otherwise = default_,  \
      .say = remedy }
#define MORE(keys, name) { .kind = VC_SETTING_MORE, .key = keys, .flag = name }
#define NOTE(keys, reason) { .kind = VC_SETTING_NOTE, .key = keys, .say = reason }
#define ONLY(values, keys, remedy)                                                                 \
    { .kind = VC_SETTING_NOTE, .key = keys, .only = values, .say = remedy }
#define REFUSED(keys, remedy) { .kind = VC_SETTING_REFUSED, .key = keys, .say = remedy }
#define UNLESS(values, keys, remedy)                                                               \
    { .kind = VC_SETTING_REFUSED, .key = keys, .only = values, .say = remedy }
#define INSTEAD(name, keys, remedy)                                                                \
    { .kind = VC_SETTING_REFUSED, .key = keys, .flag = name, .say = remedy }
#define UNLESS_OR(name, values, keys, remedy)                                                      \
    { .kind = VC_SETTING_REFUSED, .key = keys, .flag = name, .only = values, .say = remedy }
#define UNLESS_FILE(signs, name, values, keys, remedy)                                             \
    { .kind = VC_SETTING_REFUSED, .key = keys, .flag = name, .only = values, .unless = signs,      \
      .say = remedy }
#define PAIRS(keys) { .kind = VC_SETTING_PAIRS, .key = keys }
#define FOLLOW(keys, path) { .kind = VC_SETTING_FILE, .key = keys, .flag = path }

/* The numbers of optimisers that are pairs of optimizer_args. */
#define OPTIMIZER_ARGS                                                                             \
    FLAG("optimizer_args.weight_decay", "adam_weight_decay"),                                      \
    FLAG("optimizer_args.eps", "adam_epsilon"),                                                    \
    SPLIT("optimizer_args.betas", "adam_beta1 adam_beta2"),                                        \
    FLAG("optimizer_args.d_coef", "prodigy_d_coef"), FLAG("optimizer_args.d0", "prodigy_d0"),      \
    FLAG("optimizer_args.beta3", "prodigy_beta3"),                                                 \
    FLAG("optimizer_args.growth_rate", "prodigy_growth_rate"),                                     \
    FLAG("optimizer_args.use_bias_correction", "prodigy_use_bias_correction"),                     \
    FLAG("optimizer_args.safeguard_warmup", "prodigy_safeguard_warmup"),                           \
    FLAG("optimizer_args.relative_step", "adafactor_relative_step"),                               \
    FLAG("optimizer_args.scale_parameter", "adafactor_scale_parameter"),                           \
    FLAG("optimizer_args.warmup_init", "adafactor_warmup_init"),                                   \
    FLAG("optimizer_args.clip_threshold", "adafactor_clip_threshold"),                             \
    FLAG("optimizer_args.decay_rate", "adafactor_decay_rate"),                                     \
    FLAG("optimizer_args.r", "schedule_free_r"),                                                   \
    FLAG("optimizer_args.weight_lr_power", "schedule_free_weight_lr_power"),                       \
    FLAG("optimizer_args.momentum", "muon_momentum"),                                              \
    FLAG("optimizer_args.nesterov", "muon_nesterov"),                                              \
    FLAG("optimizer_args.ns_steps", "muon_iterations"),                                           \
    REFUSED("optimizer_args.*", "--optimizer's numbers have flags (--help optimiser)")

/* Remedies that several peers have. */
#define ADAMW "write --optimizer adamw, or another of its words (--help optimiser)"
#define SCHEDULE                                                                                   \
    "a schedule is --lr_scheduler with --lr_warmup_steps, --lr_end, --lr_num_cycles, --lr_power "  \
    "or --lr_step_rules"
#define PACKED "the forms here are --transformer_dtype fp8, int8 and nf4"
#define FAMILIES                                                                                   \
    "no family here; the families are Chroma, CogVideoX, ERNIE-Image, FLUX.1, FLUX.2, "            \
    "HunyuanVideo, Ideogram 4, Kandinsky 5, Krea 2, LTX-Video, LTX-2, Qwen-Image, "                \
    "SkyReels V2, Stable Diffusion 3, Wan and Z-Image"
#define ADAPTERS                                                                                   \
    "the adapters are those of --adapter (lora, rslora, dora, loha, lokr), and --training_type "   \
    "full-finetune is the other way"
#define CAPTIONS "write it into the captions"
#define LOSS "loss and noise are those of the model's family"
#define PROMPTS                                                                                    \
    "give vprep --validation_prompts FILE, whose rows have prompt, height, width, num_frames, seed"
#define MASKS "name the masks in the column loss_mask_path of vprep's list"
#define PIXELS "change the files, or vprep's --random_flip: pictures are resized and cut alone"
#define HUB "nothing is uploaded or downloaded"
#define MEMORY "the results are the same; --low_vram, --blocks_to_swap N and "                     \
    "--gradient_checkpointing save memory"
#define BACKEND "the backend decides it"
#define ENCODED "vprep encodes everything once, before training"
#define EVENTS "event files are always written, to tensorboard/ in the run's folder"
#define SAVED "weights are saved as they are trained, in the forms of diffusers, kohya and ComfyUI"

#endif
