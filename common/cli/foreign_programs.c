/* foreign_programs.c - see foreign.h: flags of the programs beside the trainers, which encode clips
 * and captions, start ranks or convert checkpoints, and sections of configuration files. */
#include "common/cli/foreign_rows.h"

#define SLURM "sbatch and srun start the job: docs/cluster.md has a script, scripts/vlt.sbatch"
#define DEEPSPEED "write --deepspeed_config FILE for a file of DeepSpeed's settings"
#define FOLDERS "the files of --model have these settings"

const vc_foreign vc_program_flags[] = {
    /* ttt-video: training reads what its own programs encoded */
    NONE(1, "training.dataset_path training.jsonl_paths", "samples come from --latents DATASET, "
         "which vprep makes of the clips in --meta PATH, and vlat import of ttt-video's caches"),
    REFUSED(1, "precomp.episode_dir input_jsonl_file", LIST),
    REFUSED(1, "precomp.output_dir", "write vprep's --out DATASET"),
    REFUSED(1, "precomp.vae_weight_path", "write vprep's --vae FOLDER, or --model FOLDER"),
    REFUSED(1, "precomp.video_length", "write vprep's --ttt_segments N, segments of three seconds"),
    REFUSED(1, "precomp.fps", "write vprep's --sample_fps X: frames are picked by time"),
    REFUSED(1, "precomp.vae_tiling_window_unit", "write vprep's --vae_window N, in frames"),
    NONE(1, "precomp.batch_size", "clips go through the VAE one by one; --vae_tiling saves memory"),
    REFUSED(1, "max_length", "write vprep's --tokenizer_max_length"),
    REFUSED(1, "checkpoint_dir", "write vprep's --model FOLDER, or --text_encoder and "
            "--tokenizer"),
    REFUSED(1, "final_save_path pretrained_weights_dir ssm_type", "no conversion is needed: give "
            "diffusers' CogVideoX-5b as --model, and --ssm_layer ttt_mlp or ttt_linear"),
    REFUSED(1, "ngpus nodes timeout slurm_max_num_timeout account partition nodelist comment "
            "dependency_job_id", SLURM),
    /* torchrun and accelerate */
    NONE(1, "local_ranks_filter role tee redirects log_line_prefix_template max_restarts "
         "monitor_interval start_method", LAUNCHER),
    NONE(1, "dynamo_config.*", "the backend decides it"),
    NONE(0, "fsdp_text_encoder", "no text encoder is loaded in training"),
    /* DeepSpeed's JSON file as --config */
    REFUSED(1, "zero_optimization zero_optimization.* fp16.* bf16.* fp16.enabled bf16.enabled "
            "train_micro_batch_size_per_gpu wall_clock_breakdown", DEEPSPEED),
    /* VideoX-Fun's description of a model */
    NONE(1, "transformer_additional_kwargs.* vae_kwargs.* text_encoder_kwargs.* "
         "scheduler_kwargs.* image_encoder_kwargs.* audio_encoder_kwargs.*", FOLDERS),
    REFUSED(1, "output_audio_dir max_audio_duration", "no sound is trained: leave it out"),
    /* Finetrainers' list of datasets */
    ONLY("bicubic", "datasets.reshape_mode", "pictures are resized by a bicubic filter and cut"),
    REFUSED(1, "datasets.remove_common_llm_caption_prefixes", "leave the prefixes out of the "
            "captions of the list"),
    REFUSED(1, "datasets.caption_options datasets.rename_columns", "write vprep's --caption_column "
            "and --data_file_keys"),
    /* FastVideo's programs */
    REFUSED(1, "speed_factor drop_short_ratio", "write vprep's --sample_fps, --num_frames and "
            "--on_small"),
    NONE(0, "group_frame group_resolution do_temporal_sample", "batches are made of latents of one "
         "shape"),
    NONE(1, "use_image_num text_encoder_name distributed_executor_backend lora_nickname "
         "validate_cache_structure", "vprep encodes and vtrain trains in one way"),
    ONLY("finetuning|preprocess", "mode", "vprep prepares and vtrain trains"),
    REFUSED(1, "generator_model_path generator_update_interval gradient_mask_last_n_frames "
            "scheduler_type", OTHER),
    NONE(1, "training.distributed.num_gpus", LAUNCHER),
    { 0 }
};
