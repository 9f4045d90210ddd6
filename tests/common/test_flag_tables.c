/* test_flag_tables.c - tables of flags that contradict themselves, and the tables of other
 * trainers' flags. */
#include "tests/common/flags_run.h"

#include "common/cli/foreign.h"
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
        { { "--lora_base_model", "dit" }, "has no effect here", false, true },
        { { "--lora_base_model", "text_encoder" }, "not one of dit", true, true },
        { { "--task", "sft" }, "has no effect here", false, true },
        { { "--task", "direct_distill" }, "not one of sft", true, true },
        { { "--use_deepspeed" }, "mpirun", false, true },
        { { "--main_process_ip", "10.0.0.1" }, "mpirun", true, true },
        { { "--fsdp_transformer_layer_cls_to_wrap", "X" }, "by blocks", false, true },
        { { "--fsdp_offload_params", "true" }, "not one of none", true, true },
        { { "--num_machines", "2" }, "mpirun -np N -H", true, true },
        { { "--hub_model_id", "a/b" }, "give a folder", true, true },
        { { "--train_text_encoder" }, "only the transformer", true, true },
        { { "--precomputation_items", "25" }, "has no effect here", false, true },
        { { "--caption_dropout_technique", "zero" }, "not one of empty", true, true },
        { { "--network_dim", "32" }, "write --rank", true, true },
        { { "--dataset_config", "t.json" }, "--meta", true, true },
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_check),
        cmocka_unit_test(test_foreign_tables),
        cmocka_unit_test(test_names_are_unique),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
