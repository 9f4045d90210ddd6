/* musubi.c - see peers.h: musubi-tuner's TOML, of a run and of its datasets (kohya-ss/musubi-tuner
 * 30c658c, 2026-06-24: src/musubi_tuner/dataset/config_utils.py, docs/dataset_config.md,
 * docs/advanced_config.md). A run's keys are its flags, in any section; it names the file of its
 * datasets, which is read with it. Paths start from the current folder. */
#include <stddef.h>

#include "common/cli/peers/peers.h"

#define CONTROL "the column control_file_path of vprep's --meta LIST has control clips, for "      \
    "--train_mode control"

static const vc_peer_row rows[] = {
    FOLLOW("dataset_config", ""),
    AREA("general.resolution datasets.resolution", "enable_bucket", "false"),
    MAP("general.enable_bucket datasets.enable_bucket",
        "true>enable_bucket=true|false>enable_bucket=false", ""),
    MAP("general.bucket_no_upscale datasets.bucket_no_upscale", "true>max_upscale=1|false>", ""),
    ONLY(".txt|txt|.caption|caption", "general.caption_extension datasets.caption_extension",
         "captions are read from .txt and .caption files, or from a list: --meta LIST"),
    FLAG("general.batch_size datasets.batch_size", "train_batch_size"),
    FLAG("general.num_repeats datasets.num_repeats", "dataset_repeat"),
    FLAG("datasets.video_directory datasets.image_directory datasets.video_jsonl_file "
         "datasets.image_jsonl_file", "meta"),
    NOTE("general.cache_directory datasets.cache_directory general.debug_dataset "
         "datasets.debug_dataset", "vprep's --out DATASET has what is encoded"),
    DATASETS("datasets.target_frames", "video_sample_n_frames"),
    MAP("datasets.frame_extraction", "head>start_rule=first|full>start_rule=first",
        "a run of vprep takes one clip of each video: head or full here, or --start_rule whole for "
        "a clip anywhere in it; for several clips cut the video"),
    BY("datasets.max_frames", "frame_extraction", "head", "full>video_sample_n_frames|*>", ""),
    NOTE("datasets.frame_stride datasets.frame_sample", "it belongs to an extraction that is off"),
    INSTEAD("sample_fps", "datasets.source_fps", "write vprep's --sample_fps X, the model's frames "
            "a second (16 of Wan, 24 of HunyuanVideo): frames are picked by time"),
    FLAG("datasets.control_directory", "control_directory"),
    FLAG("datasets.no_resize_control", "reference_as_is"),
    REFUSED("datasets.control_resolution datasets.multiple_target", CONTROL),
    REFUSED("datasets.fp_*", "FramePack is " FAMILIES),
    EACH("network_args", "network_args"),
    PAIRS("optimizer_args"),
    OPTIMIZER_ARGS,
    FLAG("optimizer_type", "optimizer"),
    { 0 }
};

const vc_peer_file vc_musubi_file = {
    .name = "musubi-tuner",
    .signs = "dit network_module=networks.*|dit network_module=lycoris*|dit dataset_config|"
             "dataset_config task|"
             "dataset_config network_module=networks.lora_wan|"
             "datasets.video_directory|datasets.image_directory|datasets.video_jsonl_file|"
             "datasets.image_jsonl_file",
    .root = "", .like = "musubi", .is_flags = true, .rows = rows
};
