/* simpletuner_env.c - the variables of SimpleTuner's config.env and the flags that they are
 * (bghira/SimpleTuner bc8e6ab, simpletuner/helpers/configuration/env_file.py). It reads no others:
 * those of the shell script that it once was (EMA_DECAY, CONTROLNET) have no effect any more. */
#include <stddef.h>

#include "common/cli/peers/peers.h"

#define IS(name, flag) { .names = name, .key = flag }

const vc_peer_variable vc_simpletuner_variables[] = {
    IS("RESUME_CHECKPOINT", "resume_from_checkpoint"),
    IS("DATALOADER_CONFIG", "data_backend_config"),
    IS("TRAINING_SEED", "seed"),
    IS("ACCELERATE_CONFIG_PATH", "accelerate_config"),
    IS("USE_XFORMERS", "enable_xformers_memory_efficient_attention"),
    IS("MINIMUM_RESOLUTION", "minimum_image_size"),
    { "USE_BITFIT", "layer_freeze_strategy", "bitfit" },
    IS("PUSH_CHECKPOINTS", "push_checkpoints_to_hub"),
    IS("MAX_NUM_STEPS", "max_train_steps"),
    IS("NUM_EPOCHS", "num_train_epochs"),
    IS("CHECKPOINTING_STEPS", "checkpoint_step_interval"),
    IS("CHECKPOINTING_LIMIT", "checkpoints_total_limit"),
    IS("HUB_MODEL_NAME", "hub_model_id"),
    IS("MODEL_NAME", "pretrained_model_name_or_path"),
    IS("USE_GRADIENT_CHECKPOINTING", "gradient_checkpointing"),
    IS("VALIDATION_STEPS", "validation_step_interval"),
    IS("LR_SCHEDULE", "lr_scheduler"),
    IS("TRAINING_NUM_PROCESSES", "num_processes"),
    IS("TRAINING_NUM_MACHINES", "num_machines"),
    { .names = "MODEL_TYPE MODEL_FAMILY QWEN_TEXT_ENCODER_MODEL_NAME_OR_PATH LORA_TYPE "
      "LYCORIS_CONFIG "
      "USE_DORA USE_EMA OUTPUT_DIR PUSH_TO_HUB PUSH_TO_HUB_BACKGROUND PUBLISHING_CONFIG "
      "MODEL_CARD_SAFE_FOR_WORK TRACKER_PROJECT_NAME TRACKER_RUN_NAME ACCELERATE_EXTRA_ARGS "
      "CHECKPOINT_STEP_INTERVAL CHECKPOINT_EPOCH_INTERVAL POST_CHECKPOINT_SCRIPT "
      "POST_UPLOAD_SCRIPT TRAIN_BATCH_SIZE GRADIENT_ACCUMULATION_STEPS "
      "GRADIENT_CHECKPOINTING_OFFLOAD_* GRADIENT_CHECKPOINTING_SEGMENT_STRIDE "
      "ENABLE_CHUNKED_FEED_FORWARD FEED_FORWARD_CHUNK_SIZE CAPTION_DROPOUT_PROBABILITY RESOLUTION "
      "RESOLUTION_TYPE ASPECT_BUCKET_ROUNDING ALLOW_TF32 MIXED_PRECISION OPTIMIZER LEARNING_RATE "
      "LR_WARMUP_STEPS LR_END BASE_MODEL_PRECISION QUANTIZE_VIA QUANTIZATION_CONFIG SDNQ_* "
      "FLUX_GUIDANCE_VALUE FLUX_LORA_TARGET METADATA_UPDATE_INTERVAL READ_BATCH_SIZE "
      "WRITE_BATCH_SIZE TEXT_ENCODER_BATCH_SIZE TEXT_CACHE_ONDEMAND TEXT_CACHE_DISABLE "
      "AWS_MAX_POOL_CONNECTIONS TORCH_NUM_THREADS IMAGE_PROCESSING_BATCH_SIZE DISABLE_BENCHMARK "
      "TRAINING_SCHEDULER_TIMESTEP_SPACING INFERENCE_SCHEDULER_TIMESTEP_SPACING VALIDATE_AFTER_* "
      "VALIDATION_* DEEPFLOYD_VALIDATION_* SDXL_VALIDATION_* PIXART_VALIDATION_* "
      "LTX2_VALIDATION_* WAN_VALIDATION_LOAD_OTHER_STAGE" },
    { 0 }
};
