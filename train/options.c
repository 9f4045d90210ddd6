/* The flags of vtrain, what is allowed, and what the family fills in. */
#include "train/vtrain.h"

#include <string.h>
#include <strings.h>

#include "common/cli/foreign.h"
#include "common/cli/like.h"
#include "common/os/file.h"

/* Further names of choices, which vtrain_check makes one of their kinds' own. */
enum { REPORT_TENSORBOARD, REPORT_NONE, DENSITY_NONE = VTRAIN_COSMAP + 1 };

#define OFF(field) offsetof(vtrain_config, field)
#define GROUP(title) { title, VC_GROUP, 0, NULL, NULL, NULL, NULL, false }
#define ROW(kind, field, value, allowed, aliases, help) \
    { #field, VC_##kind, OFF(field), value, allowed, aliases, help, false }
#define NEED(kind, field, value, allowed, aliases, help) \
    { #field, VC_##kind, OFF(field), value, allowed, aliases, help, true }

static const vc_flag flags[] = {
    GROUP("Data"),
    NEED(LIST, latents, NULL, NULL, NULL,
         "latent dataset made by vprep; may be given several times, each with :repeat=N, or with "
         ":weight: below 1 its share of the training, else repeats"),
    ROW(INT, dataset_repeat, "1", "1..1000000", NULL, "times a sample counts in an epoch"),
    ROW(FLOAT, eval_split, "0", "0..0.5", NULL, "part of the samples held out for eval_loss"),
    ROW(FLOAT, caption_dropout_p, NULL, "0..1", "caption_dropout "
        "caption_dropout_probability",
        "chance that a caption becomes the empty prompt (default: 0.1 full finetune, 0 LoRA)"),
    ROW(FLOAT, image_dropout_p, "0.05", "0..1", "noised_image_dropout",
        "image to video: chance that the first frame becomes zeros"),
    ROW(FLOAT, mask_all_dropout_p, "0.9", "0..1", NULL,
        "inpainting: chance that mask and clip become zeros where all is to be generated"),
    ROW(CHOICE, posterior, "auto", "auto|sample|mean", NULL,
        "latents from stored moments: a fresh draw each time, or the mean (auto: the family's)"),
    ROW(BOOLEAN, follow, "false", NULL, NULL,
        "train on a dataset that vprep still writes: what it has closed joins at the next epoch"),
    ROW(BOOLEAN, allow_mismatch, "false", NULL, NULL,
        "a dataset whose encoders are not another's or --model's (by their weights' hash too), and "
        "a checkpoint of other base weights, are no errors"),
    ROW(BOOLEAN, verify_data, "true", NULL, NULL, "check each value's checksum when first read"),

    GROUP("Model"),
    ROW(PATH, model, NULL, NULL, "pretrained_model_name_or_path model_path "
        "model_id diffusers_path", "diffusers folder, or a checkpoint of a full finetune; without "
        "it: a small built-in DiT"),
    ROW(PATH, transformer, NULL, NULL, "transformer_id transformer_path",
        "folder of the transformer, instead of MODEL/transformer"),
    ROW(CHOICE, boundary_type, "full", "full|high|low", NULL,
        "of a model with two transformers (boundary_ratio in its model_index.json), the one to "
        "train, on levels of its side alone: high noise (transformer) or low (transformer_2)"),
    ROW(PATH, scheduler, NULL, NULL, "scheduler_id scheduler_path",
        "scheduler_config.json or its folder, instead of MODEL/scheduler"),
    ROW(DTYPE_KIND, transformer_dtype, NULL, "f32|bf16|f16|fp8", NULL,
        "how a LoRA's base is held (default: as in the file; fp8: e4m3 with a scale a row, stored, "
        "not computed)"),
    ROW(WORDS, fp8_models, NULL, NULL, NULL,
        "the same as --transformer_dtype fp8, unless all that it names are encoders or VAEs"),
    ROW(INT, dit_width, "192", "16..16384", NULL, "built-in DiT: width"),
    ROW(INT, dit_layers, "4", "1..256", NULL, "built-in DiT: blocks"),
    ROW(INT, dit_heads, "3", "1..256", NULL, "built-in DiT: attention heads"),
    ROW(INT, dit_patch, "2", "1..16", NULL, "built-in DiT: latent rows and columns of a token"),
    ROW(BOOLEAN, dit_guidance_embeds, "false", NULL, NULL,
        "built-in DiT: it takes guidance as an input, as HunyuanVideo and FLUX.1-dev do"),

    GROUP("What is trained"),
    ROW(CHOICE, training_type, "lora", "lora|full-finetune", NULL,
        "default: lora; full-finetune for the built-in DiT, which starts from noise"),
    ROW(WORDS, trainable_models, NULL, NULL, NULL, "dit: the same as --training_type "
        "full-finetune"),
    ROW(WORDS, trainable_modules, NULL, NULL, NULL,
        "full finetune: parts of parameter names to train, the others stay frozen (\".\": all)"),
    ROW(INT, rank, "64", "1..4096", "lora_rank", "LoRA: rank"),
    ROW(FLOAT, network_alpha, NULL, "1e-6..1e6", "lora_alpha", "LoRA: alpha (default: the rank)"),
    ROW(WORDS, target_name, NULL, NULL, "target_modules lora_target_modules",
        "LoRA: modules, a list of names or endings, a regular expression over whole paths, or "
        "all-linear (default: the family's)"),
    ROW(PATH, lora_checkpoint, NULL, NULL, NULL, "LoRA: start from this one"),
    ROW(PATH, preset_lora_path, NULL, NULL, NULL,
        "fold this LoRA into the weights before training"),
    ROW(BOOLEAN, bake_scale, "true", NULL, NULL, "LoRA: multiply alpha / rank into the saved B, "
        "with alpha = rank, so that programs that ignore alpha load it at the same strength"),
    ROW(BOOLEAN, export_kohya, "true", NULL, NULL,
        "LoRA: save it also as VideoX-Fun's merge_lora reads it, lora_kohya.safetensors"),
    ROW(BOOLEAN, export_comfyui, "true", NULL, NULL,
        "LoRA: save it also as ComfyUI reads it, lora_comfyui.safetensors"),
    ROW(BOOLEAN, export_pipeline, "true", NULL, NULL,
        "full finetune of a whole model folder: link its other components into each checkpoint, "
        "so that diffusers' Pipeline.from_pretrained opens it"),

    GROUP("Objective"),
    ROW(CHOICE, objective, "auto", "auto|flow|v", NULL,
        "flow matching or v-prediction (auto: the family's)"),
    ROW(CHOICE, weighting_scheme, NULL, "uniform|logit_normal|mode|sigma_sqrt|cosmap|none",
        "flow_weighting_scheme", "flow: density of noise levels and loss weight; none is uniform "
        "(default: the family's)"),
    ROW(FLOAT, logit_mean, "0", NULL, "flow_logit_mean", "flow: mean of logit_normal"),
    ROW(FLOAT, logit_std, "1", ">0", "flow_logit_std", "flow: deviation of logit_normal"),
    ROW(FLOAT, mode_scale, "1.29", NULL, "flow_mode_scale", "flow: scale of mode"),
    ROW(FLOAT, flow_shift, NULL, ">0", NULL, "flow: shift of levels to more noise (default: the "
        "model's, which may follow from the number of tokens)"),
    ROW(BOOLEAN, uniform_sampling, "false", NULL, NULL,
        "each micro-batch of a step draws its times from its own part of the range"),
    ROW(BOOLEAN, motion_sub_loss, "false", NULL, NULL,
        "blend the loss with that of the differences between frames (from 3 latent frames on)"),
    ROW(FLOAT, motion_sub_loss_ratio, "0.25", "0..1", NULL, "weight of the differences' loss"),
    ROW(FLOAT, first_frame_conditioning_p, "0", "0..1", NULL,
        "image to video without a condition beside the latents: chance that a clip's first latent "
        "frame stays clean, with timestep 0 and without a part in the loss; samples begin with "
        "their prompt's image (default: 0, or 1 where the model always begins so)"),
    ROW(FLOAT, embedded_guidance, "1", "0..100", NULL,
        "models with guidance_embeds in their config.json: the guidance that a training step names; "
        "samples name --guidance_scale, and are not guided otherwise"),

    GROUP("Optimiser"),
    ROW(INT, max_train_steps, NULL, "0..", "train_steps max_steps",
        "steps of the run (default, without epochs: the family's)"),
    ROW(INT, num_train_epochs, NULL, "0..", "num_epochs train_epochs max_train_epochs "
        "epochs",
        "epochs of the run; with both, what ends first"),
    ROW(INT, train_batch_size, NULL, "0..4096", "batch_size micro_batch_size_per_gpu",
        "samples of a micro-batch, all of one bucket (default: the family's)"),
    ROW(INT, gradient_accumulation_steps, "1", "1..65536", NULL, "micro-batches of a step"),
    ROW(FLOAT, learning_rate, NULL, ">0", "lr", "base rate (default: the family's)"),
    ROW(CHOICE, optimizer, "adamw", "adamw|adamw_bf16|adamw8bit", "optimizer_type "
        "optimizer.type",
        "AdamW with f32 weights and moments (16 bytes a trained value, with its gradient), both in "
        "bf16 with stochastic rounding (10), or moments in blocks of 8 bits (10)"),
    ROW(BOOLEAN, use_8bit_adam, "false", NULL, "use_8bit_bnb", "the same as --optimizer adamw8bit"),
    ROW(CHOICE, lr_scheduler, "constant", "constant|constant_with_warmup|linear|cosine|"
        "cosine_with_restarts|polynomial|piecewise_constant", NULL,
        "how the rate changes, as in diffusers"),
    ROW(INT, lr_warmup_steps, "0", "0..", "lr_num_warmup_steps warmup_steps",
        "steps of rising rate"),
    ROW(INT, lr_num_cycles, "1", "1..1000000", "lr_scheduler_num_cycles",
        "cosine_with_restarts: times that the rate falls to 0"),
    ROW(FLOAT, lr_power, "1", ">0", "lr_scheduler_power", "polynomial: its power"),
    ROW(STRING, lr_step_rules, NULL, "FACTOR:STEP,...,FACTOR", NULL,
        "piecewise_constant: factors of the rate and the steps they end at, the last without"),
    ROW(FLOAT, adam_beta1, "0.9", "0..0.999999", "beta1", "AdamW"),
    ROW(FLOAT, adam_beta2, "0.95", "0..0.999999", "beta2", "AdamW"),
    ROW(FLOAT, adam_weight_decay, "1e-4", "0..", "weight_decay", "AdamW, decoupled"),
    ROW(FLOAT, adam_epsilon, "1e-8", ">0", "epsilon eps", "AdamW"),
    ROW(FLOAT, max_grad_norm, "1", "0..", "gradient_clipping", "gradients are clipped to this "
        "norm; 0: never"),
    ROW(BOOLEAN, use_ema, "false", NULL, NULL, "keep a moving average of what is trained; it is "
        "what is exported and sampled"),
    ROW(FLOAT, ema_decay, "0.999", "0..0.9999999", NULL, "of the average"),
    ROW(INT, seed, "42", "0..", NULL, "of order, captions, noise, times and fresh weights"),

    GROUP("Machine"),
    ROW(STRING, device, "auto", NULL, NULL, "auto, cpu, cuda or cuda:N"),
    ROW(INT, threads, "0", "0..4096", NULL, "CPU threads of the kernels; 0: all"),
    ROW(CHOICE, kernels, "auto", "auto|plain|avx2|avx512|amx", NULL, "CPU kernels"),
    ROW(INT, workers, "2", "0..256", "dataloader_num_workers dataset_num_workers "
        "num_workers max_data_loader_n_workers",
        "threads that read samples ahead; 0: one"),
    ROW(CHOICE, mixed_precision, NULL, "no|bf16", NULL, "what is computed in (default: the "
        "family's)"),
    ROW(OPTIONAL, gradient_checkpointing, "auto", "block|auto|none", "use_gradient_checkpointing "
        "activation_checkpointing",
        "recompute blocks in backward to save memory; auto: of each bucket as few as make it fit"),
    ROW(BYTES, memory_limit, NULL, "0..", NULL, "peak of the run, beyond which it does not begin, "
        "and what auto makes it fit (default: most of what is free; more is a warning)"),
    ROW(BOOLEAN, gradient_checkpointing_offload, "false", NULL,
        "use_gradient_checkpointing_offload gradient_checkpointing_cpu_offload",
        "--gradient_checkpointing, and on a GPU the inputs of blocks wait for backward in host "
        "memory"),
    ROW(INT, blocks_to_swap, "0", "0..", NULL, "LoRA on a GPU: the frozen weights of so many "
        "blocks stay on the host and are copied when their block is reached"),
    ROW(BOOLEAN, low_vram, "false", NULL, NULL, "LoRA on a GPU: swap as many blocks as needed, and "
        "recompute blocks in backward"),
    ROW(BOOLEAN, deterministic, "false", NULL, NULL, "on a GPU: the same bits in each run, for "
        "time and memory; on a CPU they always are"),
    ROW(BOOLEAN, profile, "false", NULL, NULL, "tell where the time of each step goes"),

    GROUP("Several ranks (mpirun, srun)"),
    ROW(CHOICE, parallel, "ddp", "ddp|zero2|fsdp", NULL, "what ranks share the work of: gradients "
        "are summed (ddp), gradients and optimiser state split too (zero2), weights too (fsdp)"),
    ROW(INT, dp_degree, "0", "0..65536", NULL,
        "groups of ranks that each hold everything; 0: ranks / dp_shards"),
    ROW(INT, dp_shards, "0", "0..65536", NULL,
        "ranks that split one group's state; 0: 1 for ddp, else ranks / dp_degree"),
    ROW(CHOICE, reduce_dtype, "f32", "f32|bf16", NULL, "how gradients travel between ranks"),
    ROW(INT, nccl_timeout, "1800", "1..1000000", NULL, "on GPUs: seconds until a rank that does "
        "not answer ends the run"),

    GROUP("Output"),
    NEED(PATH, output_dir, NULL, NULL, "output_path", "folder of the run"),
    ROW(INT, checkpointing_steps, "500", "1..", "save_steps", "steps between checkpoints"),
    ROW(INT, checkpointing_limit, "0", "0..", "checkpoints_total_limit",
        "checkpoints kept, the oldest go first; 0: all"),
    ROW(STRING, resume_from_checkpoint, NULL, NULL, NULL, "a step, latest, or a folder"),
    ROW(INT, eval_steps, NULL, "0..", NULL,
        "steps between held-out losses (default: checkpointing_steps)"),
    ROW(INT, validation_steps, "0", "0..", NULL, "steps between validation samples; 0: never"),
    ROW(INT, num_inference_steps, "28", "1..1000", NULL, "of a validation sample whose "
        "prompt names none"),
    ROW(FLOAT, guidance_scale, NULL, "0..100", NULL, "of validation samples whose prompts "
        "name none; 1 and below guide nothing (default: the family's)"),
    ROW(CHOICE, validation_sampler, "auto", "auto|ddim|dpm|euler", NULL,
        "of validation samples (auto: as the model's scheduler file says)"),
    ROW(CHOICE, report_to, "tensorboard", "tensorboard|none|wandb|comet_ml|clearml|swanlab|mlflow|"
        "aim|dvclive|all", NULL, "event files of TensorBoard, whichever is named, or none"),
    ROW(PATH, trace_dir, NULL, NULL, NULL, "write all tensors of the first micro-batches there"),
    ROW(INT, trace_steps, "1", "1..1000000", NULL, "micro-batches traced"),
    ROW(CHOICE, like, "none", VC_LIKE_ALLOWED, NULL, "take that trainer's defaults for what neither "
        "command line nor --config gives, and tell which differ"),
    ROW(BOOLEAN, dry_run, "false", NULL, NULL, "tell what would happen and stop"),
    ROW(BOOLEAN, quiet, "false", NULL, NULL, "errors only"),
    ROW(CHOICE, log_format, "text", "text|json", NULL, "messages for people or for machines"),
    { .kind = VC_BOOLEAN }
};

static const char *version(void)
{
    return "cpu";
}

static const vc_foreign *const foreign[] = {
    vc_vprep_flags, vc_jobless_flags, vc_refused_flags, NULL
};

const vc_program vtrain_program = {
    .name = "vtrain",
    .synopsis = "vtrain --latents DATASET [--model DIR] --output_dir OUT [flags]",
    .about = "Trains a video transformer from a latent dataset: a LoRA or the whole model. It "
             "loads no encoder and no decoder.",
    .flags = flags, .foreign = foreign, .version = version,
};

/* ---- what does not go together ---- */

static void check_type(vtrain_config *c, vc_flags *set)
{
    bool lora_said = vc_flags_given(set, "training_type") && c->training_type == VTRAIN_LORA;
    bool fresh = !c->model && !c->transformer;
    if (c->trainable_models && strcmp(c->trainable_models, "dit"))
        vc_flags_wrong(set, "--trainable_models \"%s\": only dit, the transformer, is trained "
                       "here; VAE and text encoders stay as they are", c->trainable_models);
    else if (c->trainable_models && lora_said)
        vc_flags_wrong(set, "--trainable_models: dit means a full finetune, but --training_type "
                       "says lora");
    else if (lora_said && fresh)
        vc_flags_wrong(set, "--training_type: a LoRA needs a trained transformer: give --model or "
                       "--transformer (the built-in DiT starts from noise)");
    if (c->trainable_models || (fresh && !lora_said)) c->training_type = VTRAIN_FULL;
    if (c->training_type == VTRAIN_LORA && c->trainable_modules)
        vc_flags_wrong(set, "--trainable_modules: belongs to --training_type full-finetune; a "
                       "LoRA's modules are --target_name");
    const struct { const char *flag; bool there; } lora[] = {
        { "target_name", c->target_name }, { "lora_checkpoint", c->lora_checkpoint },
        { "rank", c->rank != 64 },
        { "network_alpha", c->network_alpha != 0 && c->network_alpha != (double)c->rank },
    };
    for (size_t i = 0; c->training_type == VTRAIN_FULL && i < sizeof lora / sizeof *lora; i++)
        if (lora[i].there)
            vc_flags_wrong(set, "--%s: belongs to --training_type lora, but this is a full "
                           "finetune%s", lora[i].flag,
                           fresh ? " of the built-in DiT: give --model" : "");
}

static void check_files(const vtrain_config *c, vc_flags *set)
{
    const struct { const char *flag, *path; } paths[] = {
        { "model", c->model }, { "transformer", c->transformer }, { "scheduler", c->scheduler },
        { "lora_checkpoint", c->lora_checkpoint }, { "preset_lora_path", c->preset_lora_path },
    };
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
        if (paths[i].path && !vc_file_exists(paths[i].path))
            vc_flags_wrong(set, "--%s %s: no such file or folder (nothing is downloaded: give a "
                           "folder on this machine)", paths[i].flag, paths[i].path);
    for (int i = 0; i < c->latents.n; i++)
        if (strchr(c->latents.item[i], ',') && !vc_file_exists(c->latents.item[i]))
            vc_flags_wrong(set, "--latents %s: a comma divides nothing here: write the flag again "
                           "for each dataset, --latents A --latents B", c->latents.item[i]);
}

/* Whether a part of --fp8_models, a name or a path, is of a model that vtrain does not load. */
static bool is_encoder(const char *part, size_t n)
{
    static const char *const names[] = { "text_encoder", "t5", "clip", "vae", "tokenizer",
                                         "encoder", "llm", "qwen2", "qwen_2" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        for (size_t k = 0; k + strlen(names[i]) <= n; k++)
            if (!strncasecmp(part + k, names[i], strlen(names[i]))) return true;
    return false;
}

static void check_fp8(vtrain_config *c, vc_flags *set)
{
    bool transformer = false;
    size_t n;
    for (const char *s = c->fp8_models; s && *s; s += n + strspn(s + n, ", ")) {
        n = strcspn(s, ", ");
        transformer = transformer || (n && !is_encoder(s, n));
    }
    if (c->fp8_models && !transformer)
        vc_flags_say(set, "--fp8_models %s: vtrain loads no such model; the transformer stays as "
                     "it is", c->fp8_models);
    if (!transformer) return;
    if (c->transformer_dtype != VC_F8E4M3 && c->transformer_dtype != VC_DTYPE_NONE)
        vc_flags_wrong(set, "--fp8_models: means --transformer_dtype fp8, which says another");
    c->transformer_dtype = VC_F8E4M3;
}

static void check_model(vtrain_config *c, vc_flags *set)
{
    bool fresh = !c->model && !c->transformer;
    bool sized = c->dit_width != 192 || c->dit_layers != 4 || c->dit_heads != 3 ||
                 c->dit_patch != 2;
    if (!fresh && sized)
        vc_flags_wrong(set, "--dit_width, --dit_layers, --dit_heads and --dit_patch size a new "
                       "built-in DiT; with --model its config.json says them");
    check_fp8(c, set);
    if (c->preset_lora_path && fresh)
        vc_flags_wrong(set, "--preset_lora_path: there are no weights to fold it into: give "
                       "--model or --transformer");
}

vtrain_rate vtrain_rate_of(const vtrain_config *c, int64_t steps)
{
    return (vtrain_rate){ .how = (vtrain_schedule)c->lr_scheduler, .warmup = c->lr_warmup_steps,
                          .steps = steps, .cycles = c->lr_num_cycles, .power = c->lr_power,
                          .rate = c->learning_rate, .rules = c->lr_step_rules };
}

static void check_rate(vtrain_config *c, vc_flags *set)
{
    const vtrain_rate rate = vtrain_rate_of(c, 0);
    bool flat = c->lr_scheduler == VTRAIN_CONSTANT || c->lr_scheduler == VTRAIN_PIECEWISE_CONSTANT;
    vc_err e;
    if (flat && c->lr_warmup_steps)
        vc_flags_wrong(set, "--lr_warmup_steps: --lr_scheduler %s has no warm-up: give %s",
                       c->lr_scheduler == VTRAIN_CONSTANT ? "constant" : "piecewise_constant",
                       c->lr_scheduler == VTRAIN_CONSTANT ? "constant_with_warmup"
                                                          : "rules that begin with it");
    if (c->lr_num_cycles != 1 && c->lr_scheduler != VTRAIN_COSINE_WITH_RESTARTS)
        vc_flags_wrong(set, "--lr_num_cycles: belongs to --lr_scheduler cosine_with_restarts");
    if (c->lr_power != 1 && c->lr_scheduler != VTRAIN_POLYNOMIAL)
        vc_flags_wrong(set, "--lr_power: belongs to --lr_scheduler polynomial");
    if (c->lr_step_rules && c->lr_scheduler != VTRAIN_PIECEWISE_CONSTANT)
        vc_flags_wrong(set, "--lr_step_rules: belongs to --lr_scheduler piecewise_constant");
    vc_flags_catch(set, vtrain_rate_check(&rate, &e), &e);
}

static void check_optimiser(vtrain_config *c, vc_flags *set)
{
    check_rate(c, set);
    if (c->use_8bit_adam && vc_flags_given(set, "optimizer") && c->optimizer != VT_ADAMW_8BIT)
        vc_flags_wrong(set, "--use_8bit_adam: means adamw8bit, but --optimizer says another");
    if (c->use_8bit_adam) c->optimizer = VT_ADAMW_8BIT;
}

static void check_memory(vtrain_config *c, vc_flags *set)
{
    if (c->gradient_checkpointing_offload && c->gradient_checkpointing == VTRAIN_REMAT_NONE)
        vc_flags_wrong(set, "--gradient_checkpointing_offload: --gradient_checkpointing says none");
    if (c->gradient_checkpointing_offload) c->gradient_checkpointing = VTRAIN_REMAT_BLOCK;
    if (c->low_vram && c->blocks_to_swap)
        vc_flags_wrong(set, "--low_vram: finds the number of blocks itself: leave --blocks_to_swap "
                       "out");
    if (c->low_vram)
        vc_flags_say(set, "--low_vram: no encoder is loaded here in any case; blocks are "
                     "recomputed in backward, and on a GPU a LoRA's frozen blocks wait on the host "
                     "as far as needed");
    if (c->low_vram && !vc_flags_given(set, "gradient_checkpointing"))
        c->gradient_checkpointing = VTRAIN_REMAT_BLOCK;
}

/* --like: ranks are a LoRA's, and a rate that stays the same or goes by rules has no warm-up. */
static bool has_a_job(const void *options, const char *flag)
{
    const vtrain_config *c = options;
    bool rules = c->lr_scheduler == VTRAIN_PIECEWISE_CONSTANT;
    if (!strcmp(flag, "rank") || !strcmp(flag, "network_alpha"))
        return c->training_type == VTRAIN_LORA;
    if (!strcmp(flag, "lr_step_rules")) return rules;
    return strcmp(flag, "lr_warmup_steps") || (!rules && c->lr_scheduler != VTRAIN_CONSTANT);
}

int vtrain_check(vtrain_config *c, vc_flags *set, vc_err *err)
{
    check_type(c, set);
    int rc = vc_like_take(set, c->like, vc_vtrain_like, has_a_job, c, err);
    if (rc) return rc;
    check_files(c, set);
    check_model(c, set);
    if (vc_flags_given(set, "eval_steps") && c->eval_steps && c->eval_split == 0)
        vc_flags_wrong(set, "--eval_steps: no sample is held out: give --eval_split too");
    if (c->follow && c->num_train_epochs)
        vc_flags_wrong(set, "--follow: how many steps --num_train_epochs are is not known while "
                       "the dataset grows: give --max_train_steps");
    check_optimiser(c, set);
    if (c->motion_sub_loss_ratio != 0.25 && !c->motion_sub_loss)
        vc_flags_wrong(set, "--motion_sub_loss_ratio: give --motion_sub_loss too");
    check_memory(c, set);
    if (c->report_to > REPORT_NONE) {
        vc_flags_say(set, "--report_to: event files of TensorBoard are written, to tensorboard/ "
                     "in the run's folder: wandb and others read them");
        c->report_to = REPORT_TENSORBOARD;
    }
    if (c->weighting_scheme == DENSITY_NONE) c->weighting_scheme = VTRAIN_UNIFORM;
    if (c->workers == 0) c->workers = 1;
    return vc_flags_verdict(set, err);
}

static int not_with(vc_err *err, const char *flag, const char *why)
{
    return vc_fail(err, VC_EUSAGE, "--%s: %s", flag, why);
}

int vtrain_check_ranks(vtrain_config *c, int ranks, vc_err *err)
{
    if (c->parallel == VTRAIN_DDP && c->dp_shards > 1)
        return not_with(err, "dp_shards", "--parallel ddp splits no state: leave it out, or give "
                        "--parallel zero2 or fsdp");
    if (c->parallel != VTRAIN_DDP && c->trace_dir)
        return not_with(err, "trace_dir", "needs whole gradients on each rank: give "
                        "--parallel ddp");
    if (!c->dp_shards)
        c->dp_shards = c->parallel == VTRAIN_DDP ? 1 : c->dp_degree ? ranks / c->dp_degree : ranks;
    if (!c->dp_shards) c->dp_shards = 1;
    if (!c->dp_degree) c->dp_degree = ranks / c->dp_shards;
    if (c->dp_degree * c->dp_shards == ranks) return 0;
    return vc_fail(err, VC_EUSAGE, "--dp_degree %lld x --dp_shards %lld: there are %d ranks "
                   "(mpirun -np, srun -n); leave one of them out to have it worked out",
                   (long long)c->dp_degree, (long long)c->dp_shards, ranks);
}

/* ---- what the family says ---- */

static void resolve_objective(vtrain_config *c, const vc_flags *set, const vtrain_family *f,
                              const vtrain_scheduler *s)
{
    if (c->objective == 0) c->objective = 1 + (int)(s->path ? s->kind : f->objective);
    bool flow = c->objective == 1 + VTRAIN_FLOW;
    double shift = s->path && s->kind == VTRAIN_FLOW ? s->shift : f->flow_shift;
    if (!vc_flags_decided(set, "weighting_scheme"))
        c->weighting_scheme = flow ? f->density : VTRAIN_UNIFORM;
    if (!vc_flags_decided(set, "logit_mean")) c->logit_mean = f->logit_mean;
    if (!vc_flags_decided(set, "logit_std")) c->logit_std = f->logit_std;
    if (!vc_flags_decided(set, "flow_shift")) c->flow_shift = flow ? shift : 1;
    if (c->posterior == VTRAIN_POSTERIOR_AUTO)
        c->posterior = f->posterior_mean ? VTRAIN_POSTERIOR_MEAN : VTRAIN_POSTERIOR_SAMPLE;
}

/* A model that predicts v has no flow to weight; whoever says --objective v knows that. */
static void drop_flow_flags(vtrain_config *c, vc_flags *set)
{
    static const char *const flags_of_flow[] = { "flow_shift", "weighting_scheme", "logit_mean",
                                                 "logit_std", "mode_scale" };
    for (size_t i = 0; i < sizeof flags_of_flow / sizeof *flags_of_flow; i++) {
        if (!vc_flags_given(set, flags_of_flow[i])) continue;
        if (vc_flags_given(set, "objective"))
            vc_flags_wrong(set, "--%s: belongs to --objective flow, but this is v",
                           flags_of_flow[i]);
        else
            vc_flags_say(set, "--%s: has no job here: this model predicts v and follows no flow",
                         flags_of_flow[i]);
    }
    c->flow_shift = 1;
    c->weighting_scheme = VTRAIN_UNIFORM;
}

static void resolve_sampler(vtrain_config *c, vc_flags *set, const vtrain_scheduler *s)
{
    bool flow = c->objective == 1 + VTRAIN_FLOW, euler;
    if (c->validation_sampler == 0)
        c->validation_sampler = 1 + (flow ? VTRAIN_EULER
                                          : s->kind == VTRAIN_V ? s->sampler : VTRAIN_DDIM);
    euler = c->validation_sampler == 1 + VTRAIN_EULER;
    if (euler != flow)
        vc_flags_wrong(set, "--validation_sampler: %s", flow ? "ddim and dpm sample a model that "
                       "predicts v, this one follows a flow: give euler" : "euler samples a flow, "
                       "this model predicts v: give ddim or dpm");
}

int vtrain_resolve(vtrain_config *c, vc_flags *set, const vtrain_family *f,
                   const vtrain_scheduler *s, vc_err *err)
{
    bool full = c->training_type == VTRAIN_FULL;
    resolve_objective(c, set, f, s);
    resolve_sampler(c, set, s);
    if (c->objective == 1 + VTRAIN_V) drop_flow_flags(c, set);
    if (!vc_flags_decided(set, "caption_dropout_p")) c->caption_dropout_p = full ? 0.1 : 0;
    if (!full && !vc_flags_decided(set, "network_alpha")) c->network_alpha = (double)c->rank;
    if (!vc_flags_given(set, "guidance_scale")) c->guidance_scale = f->guidance;
    if (!vc_flags_given(set, "mixed_precision"))
        c->mixed_precision = f->bf16 ? VTRAIN_PRECISION_BF16 : VTRAIN_PRECISION_NO;
    if (c->learning_rate == 0) c->learning_rate = full ? f->lr_full : f->lr_lora;
    if (c->train_batch_size == 0) c->train_batch_size = f->batch;
    if (c->max_train_steps == 0 && c->num_train_epochs == 0) c->max_train_steps = f->steps;
    if (c->eval_split == 0) c->eval_steps = 0;
    else if (c->eval_steps == 0) c->eval_steps = c->checkpointing_steps;
    if (!full && !c->target_name) c->target_name = (char *)f->lora_targets;
    return vc_flags_verdict(set, err);
}
