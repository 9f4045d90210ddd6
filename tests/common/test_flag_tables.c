/* test_flag_tables.c - tables of flags that contradict themselves, and the tables of other
 * trainers' flags. */
#include "tests/common/flags_run.h"

#include "common/cli/foreign.h"
#include "common/cli/inputs.h"
#include "common/cli/peers/peers.h"
#include "tests/lib/ok.h"

/* vc_flags_check() fails for these tables with `message`, or passes if this is NULL. */
static void expect_fault(const vc_flag *rows, const vc_foreign *const *tables, const char *message)
{
    vc_program p = { .name = "p", .synopsis = "p", .flags = rows, .foreign = tables };
    vc_err err = { 0 };
    int rc = vc_flags_check(&p, &err);
    assert_ok(!message && rc, &err);
    if (!message)
        return;
    if (rc != VC_EFAIL)
        fail_msg("no error \"%s\"", message);
    has(err.text, message);
}

static void test_check(void **state)
{
    (void)state;
    const vc_flag end = { 0 };
    vc_flag rank = ROW(VC_INT, rank, "rank", "64", "1..", "lora_rank");
    expect_fault(table, foreign, NULL);
    expect_fault((vc_flag[]){ rank, end }, NULL, NULL);

    vc_flag f = rank;
    f.value = "0";
    expect_fault((vc_flag[]){ f, end }, NULL, "default of --rank: \"0\" is out of range");
    vc_flag twin = ROW(VC_INT, seed, "lora-rank", NULL, NULL, NULL);
    expect_fault((vc_flag[]){ rank, twin, end }, NULL, "also a name of --");
    vc_flag config = ROW(VC_INT, seed, "config", NULL, NULL, NULL);
    expect_fault((vc_flag[]){ config, end }, NULL, "every program has it");
    vc_flag shared = ROW(VC_INT, seed, "seed", NULL, NULL, "other_alias");
    expect_fault((vc_flag[]){ shared, end }, foreign, "--other_alias: also in a table of foreign");
    f = rank;
    f.help = NULL;
    expect_fault((vc_flag[]){ f, end }, NULL, "no help");
    vc_flag choice = ROW(VC_CHOICE, rule, "rule", NULL, NULL, NULL);
    expect_fault((vc_flag[]){ choice, end }, NULL, "a choice without values");
    f = rank;
    f.aliases = "height:0";
    expect_fault((vc_flag[]){ f, end }, NULL, "alias height:0");
}

static void test_foreign_tables(void **state)
{
    (void)state;
    static const vc_flag none[] = { { 0 } };
    const vc_program in_vprep = {
        .name = "vprep", .synopsis = "s", .flags = none, .partner = vc_vtrain_flags,
        .foreign = vc_peers, .renamed = vc_renamed_flags
    };
    const vc_program in_vtrain = {
        .name = "vtrain", .synopsis = "s", .flags = none, .partner = vc_vprep_flags,
        .foreign = vc_peers, .renamed = vc_renamed_flags
    };
    static const struct { const char *words[MOST_WORDS], *message; bool refused, both; } rows[] = {
        { { "--learning_rate", "1e-4" }, "--learning_rate: used by vtrain", false, false },
        { { "--use_gradient_checkpointing_offload" }, "vtrain", false, false },
        { { "--low_vram" }, "--low_vram: used by vtrain, not here", false, false },
        { { "--vae_mini_batch", "1" }, "has no effect here", false, true },
        { { "--preset_lora_model", "dit" }, "has no effect here", false, true },
        { { "--preset_lora_model", "text_encoder" }, "not one of dit", true, true },
        { { "--task", "sft" }, "--task: used by vtrain, not here", false, false },
        { { "--use_deepspeed" }, "mpirun", false, true },
        { { "--main_process_ip", "10.0.0.1" }, "mpirun", true, true },
        { { "--fsdp_transformer_layer_cls_to_wrap", "X" }, "by blocks", false, true },
        { { "--fsdp_offload_params", "true" }, "not one of none", true, true },
        { { "--num_machines", "2" }, "mpirun -np N -H", true, true },
        { { "--hub_model_id", "a/b" }, "give a folder", true, true },
        { { "--train_text_encoder" }, "vtrain holds no text encoder and no VAE", true, true },
        { { "--train_text_encoder" }, "sd-scripts train text encoders", true, true },
        { { "--train_vae" }, "train_autoencoderkl.py trains a VAE", true, true },
        { { "--train_text_encoder_ti" }, "vtrain holds no text encoder", true, true },
        { { "--text_encoder_lr", "1e-5" }, "vtrain holds no text encoder", true, true },
        { { "--precomputation_items", "25" }, "has no effect here", false, true },
        { { "--caption_dropout_technique", "zero" }, "not one of empty", true, true },
        { { "--network_dim", "32" }, "used by vtrain", false, false },
        { { "--network_module", "networks.lora_wan" }, "used by vtrain", false, false },
        { { "--training.dataset_path", "x" }, "--latents", false, true },
        { { "--dataset_file", "t.json" }, "--meta", true, true },
    };
    for (size_t i = 0; i < COUNT(rows); i++)
        for (int k = 0; k < (rows[i].both ? 2 : 1); k++) {
            run r = start_with(k ? &in_vtrain : &in_vprep, rows[i].words);
            assert_int_equal(r.rc, rows[i].refused ? VC_EUSAGE : 0);
            has(rows[i].refused ? r.err.text : vc_flags_note(r.set, 0), rows[i].message);
            finish(&r);
        }
    run r = start_with(&in_vtrain, (const char *const[MOST_WORDS]){
        "--train_data_meta", "m.json", "--fix_sample_size", "384", "672", "--no_enable_bucket" });
    assert_int_equal(r.rc, 0);
    assert_string_equal(vc_flags_note(r.set, 0),
                        "--train_data_meta, --fix_sample_size, --no_enable_bucket: "
                        "used by vprep, not here");
    finish(&r);
}

/* No name occurs twice in a program's flags and the tables of other trainers' flags. vprep and
 * vtrain share names. */
static void test_names_are_unique(void **state)
{
    (void)state;
    static const vc_foreign *const tables[][3] = {
        { vc_vprep_flags, vc_ignored_flags, vc_refused_flags },
        { vc_vtrain_flags, vc_ignored_flags, vc_refused_flags },
    };
    static const char *seen[2000];
    static size_t len[2000];
    for (size_t p = 0; p < COUNT(tables); p++) {
        size_t n = 0;
        for (size_t t = 0; t < 3; t++)
            for (const vc_foreign *f = tables[p][t]; f->name; f++)
                for (const char *s = f->name; *s; s += strspn(s, " ")) {
                    assert_true(n < COUNT(seen));
                    seen[n] = s;
                    len[n] = strcspn(s, " ");
                    for (size_t i = 0; i < n; i++)
                        if (len[i] == len[n] && !strncmp(seen[i], s, len[n]))
                            fail_msg("%.*s occurs twice", (int)len[n], s);
                    s += len[n++];
                }
        assert_true(n > 500);
    }
}

/* Parameters of DiffSynth-Studio's pipelines, of their units and of its examples' commands, as of
 * August 2026, but for the three that are trained. */
static void test_inputs(void **state)
{
    (void)state;
    static const char refused[] =
        "animate2_log_scale animate2_offload_kv animate2_prompt_ref animate2_reference_image "
        "animate2_reference_video animate2_refert_images animate_face_video "
        "animate_inpaint_video animate_mask_video animate_pose_video audio_code_string "
        "audio_cover_strength audio_embeds audio_flow_shift audio_latents audio_noise "
        "audio_sample_rate "
        "blockwise_controlnet_inputs bpm camera_control_direction camera_control_origin "
        "camera_control_speed cfg_merge clear_lora_before_state_two clip_fea_ref "
        "clip_feature clip_skip condition_latents condition_y context_image context_latents "
        "context_pre_compute context_ref "
        "controlnet_inputs denoise_mask_video denoising_strength "
        "drop_motion_frames duration edit_image_auto_resize edit_rope_interpolation "
        "eligen_enable_inpaint eligen_enable_on_negative eligen_entity_masks "
        "eligen_entity_prompts embedded_guidance eta exponential_shift_mu extra_text_embedding "
        "flex_control_image flex_control_stop flex_control_strength flex_inpaint_image "
        "flex_inpaint_mask flow_shift flux_redux_image "
        "frame_hiddens frame_rate frame_regions_to_retake framewise_decoding generator "
        "grid_sizes guidance_rescale height image2lora_images image2lora_residual "
        "image2lora_residual_highres image2lora_x in_context_downsample_factor in_context_videos "
        "infinityou_guidance infinityou_id_image initial_noise inpaint_blur_sigma "
        "inpaint_blur_size inpaint_mask input_images input_images_indexes "
        "input_images_strength input_latents_video input_video insert_anything_ref_image "
        "insert_anything_ref_mask insert_anything_source_image insert_anything_source_mask "
        "ipadapter_images ipadapter_scale keep_original_aspect keyframe_cond_anchor "
        "keyframe_indices keyframes keyscale kv_cache latent_chunks latents "
        "layer_input_image layer_num layout_bboxes longcat_video lora lora_encoder_inputs "
        "lora_encoder_scale lyrics max_audio_duration max_input_image_pixels "
        "max_input_image_side_length max_sequence_length max_vlm_input_pil_pixels "
        "max_vlm_input_pil_side_length model_type motion_bucket_id motion_latents motion_video "
        "mu negative_extra_text_embedding negative_kv_cache negative_lora negative_prompt "
        "negative_residual negative_vap_prompt nexus_gen_reference_image noise noise_scale "
        "num_frames output_type positive_only_lora progress_bar_cmd prompt "
        "ref_blocks ref_for_prompt_tokenizer ref_image_short_edge "
        "ref_video_max_pixels ref_video_short_edge reference_audios reference_image references "
        "repainting_ranges repainting_strength residual retake_audio retake_audio_regions "
        "retake_audio_sample_rate retake_video retake_video_regions s2v_pose_latents "
        "s2v_pose_video seconds_regions_to_retake seq_len_ref shift sigma_shift "
        "sigma_tail_steps sigmas sliding_window_size sliding_window_stride src_audio src_latents "
        "stage2_spatial_upsample_factor stage_2_height stage_2_width step1x_reference_image "
        "switch_DiT_boundary t5_sequence_length t_thresh task_type tea_cache_l1_thresh "
        "tea_cache_model_id template_inputs text_embedding text_ids tile_overlap "
        "tile_overlap_in_frames tile_overlap_in_pixels tile_size tile_size_in_frames "
        "tile_size_in_pixels tile_stride tiled timesignature use_distilled_pipeline "
        "use_gradient_checkpointing use_gradient_checkpointing_offload use_two_stage_pipeline "
        "use_unified_sequence_parallel vace_scale value_controller_inputs vap_prompt vap_video "
        "video_latents video_noise video_positions vlm_image vocal_language wantodance_fps "
        "wantodance_keyframes "
        "wantodance_keyframes_mask wantodance_music_path wantodance_reference_image width y "
        "zero_cond_t";
    size_t n;
    for (const char *s = refused; *s; s += n + (s[n] == ' ')) {
        const char *say = NULL;
        n = strcspn(s, " ");
        if (vc_input_of(s, n, &say) != VC_INPUT_REFUSED || !say)
            fail_msg("--extra_inputs %.*s is not refused", (int)n, s);
    }
    assert_int_equal(vc_input_of("input_image", 11, NULL), VC_INPUT_FIRST);
    assert_int_equal(vc_input_of("end_image", 9, NULL), VC_INPUT_LAST);
    assert_int_equal(vc_input_of("input_audio", 11, NULL), VC_INPUT_SOUND);
    assert_int_equal(vc_input_of("control_video", 13, NULL), VC_INPUT_CONTROL);
    assert_int_equal(vc_input_of("blockwise_controlnet_image", 26, NULL), VC_INPUT_CONTROL);
    assert_int_equal(vc_input_of("controlnet_inpaint_mask", 23, NULL), VC_INPUT_CONTROL_MASK);
    assert_int_equal(vc_input_of("controlnet_processor_id", 23, NULL), VC_INPUT_COLUMN);
    assert_int_equal(vc_input_of("controlnet_image", 16, NULL), VC_INPUT_CONTROL);
    assert_int_equal(vc_input_of("edit_image", 10, NULL), VC_INPUT_REFERENCES);
    assert_int_equal(vc_input_of("kontext_images", 14, NULL), VC_INPUT_REFERENCES);
    assert_int_equal(vc_input_of("flux_fill_image", 15, NULL), VC_INPUT_FILL);
    assert_int_equal(vc_input_of("vace_video_mask", 15, NULL), VC_INPUT_VACE);
    assert_int_equal(vc_input_of("flux_fill_mask", 14, NULL), VC_INPUT_FILL);
    assert_int_equal(vc_input_of("score", 5, NULL), VC_INPUT_COLUMN);
    assert_int_equal(vc_input_of("seeds", 5, NULL), VC_INPUT_COLUMN);
    assert_int_equal(vc_input_of("seed", 4, NULL), VC_INPUT_COLUMN);
    assert_int_equal(vc_input_of("num_inference_steps", 19, NULL), VC_INPUT_COLUMN);

    static const struct { const char *list, *columns; bool first; } rows[] = {
        { "input_image", NULL, true }, { "score", "score", false },
        { "input_image,score", "score", true }, { "score, input_image,more", "score,more", true },
        { "end_image score more", "score,more", false }, { "", NULL, false },
        { ",score,,", "score", false },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char list[64];
        snprintf(list, sizeof list, "%s", rows[i].list);
        assert_int_equal(vc_inputs_have(list, VC_INPUT_FIRST), rows[i].first);
        const char *columns = vc_inputs_columns(list);
        if (rows[i].columns)
            assert_string_equal(columns, rows[i].columns);
        else
            assert_null(columns);
    }
    assert_null(vc_inputs_columns(NULL));
    assert_false(vc_inputs_have(NULL, VC_INPUT_FIRST));
}

/* Whether vprep or vtrain has the flag, or a half of it. */
static bool is_flag(const char *name, size_t len)
{
    const vc_foreign *const tables[] = { vc_vprep_flags, vc_vtrain_flags };
    for (int t = 0; t < 2; t++)
        for (const vc_foreign *f = tables[t]; f->name; f++)
            for (const char *s = f->name; *s; s += strcspn(s, " "), s += *s == ' ') {
                size_t n = strcspn(s, " ");
                n -= n > 2 && s[n - 2] == ':' ? 2 : 0;
                if (n == len && !strncmp(s, name, len))
                    return true;
            }
    return false;
}

/* Every word before '=' of a list "FLAG=VALUE FLAG|..." is a flag. */
static void expect_flags(const char *key, const char *list)
{
    while (list && *list) {
        size_t n = strcspn(list, "= |?!");
        if (n && !is_flag(list, n))
            fail_msg("%s: no flag %.*s", key, (int)n, list);
        list += strcspn(list, " |");
        list += *list != 0;
    }
}

static void expect_map(const vc_peer_row *row)
{
    for (const char *s = row->map; s && *s; s += strcspn(s, "|"), s += *s == '|') {
        char right[200];
        size_t arrow = strcspn(s, ">|"), end = strcspn(s, "|");
        if (s[arrow] != '>')
            fail_msg("%s: no '>' in the map at %s", row->key, s);
        snprintf(right, sizeof right, "%.*s", (int)(end - arrow - 1), s + arrow + 1);
        expect_flags(row->key, right);
    }
}

/* A row of another trainer's files names flags that there are, and says why where it has none; no
 * two rows have one key. */
static void test_settings_of_peers(void **state)
{
    (void)state;
    int files = 0;
    for (const vc_peer_file *const *p = vc_peer_files; *p; p++, files++)
        for (const vc_peer_row *row = (*p)->rows; row->key; row++) {
            bool has_value = row->kind != VC_SETTING_NOTE && row->kind != VC_SETTING_REFUSED;
            if (row->kind != VC_SETTING_FILE)
                expect_flags(row->key, row->flag);
            expect_map(row);
            if (!has_value && (!row->say || !*row->say))
                fail_msg("%s: neither a flag nor a reason", row->key);
            if (row->by && !row->otherwise)
                fail_msg("%s: no value where %s is missing", row->key, row->by);
            for (const vc_peer_row *other = row + 1; other->key; other++)
                if (!strcmp(row->key, other->key))
                    fail_msg("%s: two rows", row->key);
        }
    assert_true(files > 1);
    for (const vc_peer_file *const *p = vc_peer_files; *p; p++)
        for (const char *s = (*p)->defaults; s && *s; s += strcspn(s, " "), s += *s == ' ')
            if (!is_flag(s, strcspn(s, "=")))
                fail_msg("%s: no flag %s", (*p)->name, s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_check),
        cmocka_unit_test(test_foreign_tables),
        cmocka_unit_test(test_names_are_unique),
        cmocka_unit_test(test_inputs),
        cmocka_unit_test(test_settings_of_peers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
