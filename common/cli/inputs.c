/* inputs.c - see inputs.h */
#include "common/cli/inputs.h"

#include <string.h>

#define REFUSED(names, say) { names, VC_INPUT_REFUSED, say }
#define NOT_TRAINED(model) model " is not trained here"
#define PLAIN(model) NOT_TRAINED(model) ": leave it out to train text to video or text to image"
#define CONTROL_CLIPS "control clips of Fun-Control models are the column control_video or " \
    "control_file_path, with --train_mode control"
#define RENAME "leave it out, or rename the column to keep it"

/* A trailing '*' of a name matches any ending. */
static const struct { const char *names; vc_input_kind kind; const char *say; } rows[] = {
    { "input_image", VC_INPUT_FIRST, NULL },
    { "end_image", VC_INPUT_LAST, NULL },
    { "control_video blockwise_controlnet_image controlnet_image", VC_INPUT_CONTROL, NULL },
    { "blockwise_controlnet_inpaint_mask controlnet_inpaint_mask", VC_INPUT_CONTROL_MASK, NULL },
    { "edit_image kontext_images", VC_INPUT_REFERENCES, NULL },
    { "flux_fill_image flux_fill_mask", VC_INPUT_FILL, NULL },
    { "input_audio", VC_INPUT_SOUND, NULL },
    { "vace_video vace_video_mask vace_reference_image", VC_INPUT_VACE, NULL },
    /* the kind of a ControlNet-Union's picture: train/data/kinds.h reads it */
    { "controlnet_processor_id controlnet_mode", VC_INPUT_COLUMN, NULL },
    /* of a sample that a pipeline made: train/data/starts.h reads them */
    { "seed rand_device num_inference_steps cfg_scale", VC_INPUT_COLUMN, NULL },

    /* Wan */
    REFUSED("reference_image", NOT_TRAINED("the reference picture of Fun-Control 1.1 and 2.2")
            ": --train_mode control_ref gives a Fun-Control 1.0 model the control clip "
            "(control_video) and the clip's first frame"),
    REFUSED("vace_*", "a setting of VACE's samples, no input: of VACE vace_video, vace_video_mask "
            "and vace_reference_image are inputs"),
    REFUSED("camera_control_*", NOT_TRAINED("a model of camera poses (Fun-Control-Camera)") "; "
            CONTROL_CLIPS),
    REFUSED("animate_* animate2_* context_ref condition_y condition_latents clip_fea_ref "
            "grid_sizes seq_len_ref", NOT_TRAINED("Animate") "; " CONTROL_CLIPS),
    REFUSED("s2v_* motion_video motion_latents drop_motion_frames", PLAIN("S2V")),
    REFUSED("audio_embeds audio_sample_rate audio_code_string audio_cover_strength "
            "audio_flow_shift audio_latents audio_noise", PLAIN("a model of sound")),
    REFUSED("vap_* negative_vap_prompt", PLAIN("Video-As-Prompt")),
    REFUSED("motion_bucket_id", PLAIN("the motion controller (speed control)")),
    REFUSED("longcat_video", PLAIN("LongCat-Video")),
    REFUSED("wantodance_* framewise_decoding", PLAIN("Wan-Dancer")),

    /* Qwen-Image and FLUX */
    REFUSED("eligen_*", PLAIN("EliGen, with prompts of entities in masks,")),
    REFUSED("context_image", PLAIN("In-Context-Control")),
    REFUSED("layer_*", PLAIN("Qwen-Image-Layered")),
    REFUSED("inpaint_*", NOT_TRAINED("the inpainting of pictures") "; a mask of the loss is the "
            "column loss_mask_path, and clips of Fun-InP models have --train_mode inpaint"),
    REFUSED("controlnet_* blockwise_controlnet_* control_image", "no input of a ControlNet here: "
            "its picture is the column controlnet_image, or of blockwise ControlNets of Qwen-Image "
            "blockwise_controlnet_image; " CONTROL_CLIPS),
    REFUSED("image2lora_* lora lora_* negative_lora positive_only_lora clear_lora_*",
            PLAIN("a model that makes or reads LoRAs")),
    REFUSED("ipadapter_*", PLAIN("IP-Adapter")),
    REFUSED("infinityou_*", PLAIN("InfiniteYou")),
    REFUSED("flex_*", PLAIN("Flex.2")),
    REFUSED("value_controller_*", PLAIN("a value controller (AttriCtrl)")),
    REFUSED("step1x_*", PLAIN("Step1X-Edit")),
    REFUSED("nexus_gen_*", PLAIN("Nexus-Gen")),
    REFUSED("flux_redux_*", PLAIN("FLUX.1 Redux")),
    REFUSED("insert_anything_*", PLAIN("Insert Anything")),
    REFUSED("template_inputs extra_text_embedding negative_extra_text_embedding kv_cache "
            "negative_kv_cache", PLAIN("a template model")),

    /* other families, and settings */
    REFUSED("in_context_* retake_* input_images* input_latents_video denoise_mask_video "
            "video_latents video_noise video_positions stage2_* stage_2_* references "
            "reference_audios ref_blocks ref_for_prompt_tokenizer ref_image_short_edge "
            "ref_video_* keyframe_* keyframes frame_regions_to_retake seconds_regions_to_retake "
            "layout_bboxes lyrics bpm keyscale timesignature vocal_language src_audio src_latents "
            "duration repainting_* residual negative_residual text_ids frame_hiddens "
            "latent_chunks task_type model_type max_audio_duration context_latents",
            "an input of a model that no family here has (MiniMax, ACE-Step, ...), or one that is "
            "not trained (LTX-2's keyframes and references): " RENAME),
    REFUSED("edit_image_* edit_rope_interpolation zero_cond_t vlm_image "
            "input_video prompt negative_prompt height width num_frames "
            "frame_rate cfg_merge denoising_strength sigma_shift flow_shift "
            "shift mu eta sigmas sigma_tail_steps exponential_shift_mu "
            "embedded_guidance guidance_rescale switch_DiT_boundary t5_sequence_length "
            "max_sequence_length clip_skip clip_feature y noise initial_noise noise_scale latents "
            "text_embedding t_thresh generator tiled tile_* sliding_window_* tea_cache_* "
            "output_type progress_bar_cmd keep_original_aspect max_input_image_* max_vlm_input_* "
            "context_pre_compute use_gradient_checkpointing* use_distilled_pipeline "
            "use_two_stage_pipeline use_unified_sequence_parallel",
            "a setting of DiffSynth's pipelines, no input of a sample: " RENAME),
};

static bool is_name(const char *name, size_t len, const char *word, size_t n)
{
    if (name[len - 1] == '*')
        return n >= len - 1 && !strncmp(name, word, len - 1);
    return n == len && !strncmp(name, word, n);
}

vc_input_kind vc_input_of(const char *word, size_t n, const char **say)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (const char *s = rows[i].names; *s; s += strspn(s, " ")) {
            size_t len = strcspn(s, " ");
            if (is_name(s, len, word, n)) {
                if (say)
                    *say = rows[i].say;
                return rows[i].kind;
            }
            s += len;
        }
    return VC_INPUT_COLUMN;
}

/* Finds the next word from *s on, and sets *s behind it; NULL: there is none. */
static const char *next_word(const char **s, size_t *n)
{
    const char *word = *s ? *s + strspn(*s, ", ") : "";
    *n = strcspn(word, ", ");
    *s = word + *n;
    return *n ? word : NULL;
}

bool vc_inputs_have(const char *list, vc_input_kind kind)
{
    size_t n;
    for (const char *word; (word = next_word(&list, &n));)
        if (vc_input_of(word, n, NULL) == kind)
            return true;
    return false;
}

void vc_inputs_refuse(vc_flags *set, const char *list)
{
    const char *say;
    size_t n;
    for (const char *word; (word = next_word(&list, &n));)
        if (vc_input_of(word, n, &say) == VC_INPUT_REFUSED)
            vc_flags_wrong(set, "--extra_inputs %.*s: %s", (int)n, word, say);
}

char *vc_inputs_columns(char *list)
{
    const char *s = list;
    char *to = list;
    size_t n;
    for (const char *word; (word = next_word(&s, &n));)
        if (vc_input_of(word, n, NULL) == VC_INPUT_COLUMN) {
            if (to != list)
                *to++ = ',';
            memmove(to, word, n);
            to += n;
        }
    if (to == list)
        return NULL;
    *to = 0;
    return list;
}
