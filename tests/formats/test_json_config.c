/* test_json_config.c - reading config.json by a table: defaults, accepted values, and the messages
 * with which each kind of row refuses a value. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "common/os/file.h"
#include "formats/json/config.h"
#include "tests/lib/ok.h"
#include "tests/lib/tmp_dir.h"

typedef enum space { TRAILING, LINSPACE, LEADING } space;
typedef struct config {
    int64_t width;
    int heads, patch;
    double eps, scale;
    bool bias;
    space spacing;
    int place;
    int level[4], n_levels;
    double mean[3];
    int n_mean, n_blocks;
    int kind[3], n_kinds, n_halves;
    bool halves[3];
    char end[4];
} config;

static const vf_config_row rows[] = {
    VF_INT_NEEDED(config, width, "width", 1, 0x1p52),
    VF_INT(config, heads, "heads", 30, 1, 256),
    VF_INT(config, patch, "patch", 0, 2, 16),
    VF_NUM(config, eps, "eps", 1e-5, VF_ABOVE_0, 1),
    VF_NUM(config, scale, "scale", 1, VF_ABOVE_0, INFINITY),
    VF_FLAG(config, bias, "bias", true),
    VF_WORD(config, spacing, "spacing", "leading", "trailing|linspace|leading"),
    VF_WORD(config, place, "place", "in", "in|on"),
    VF_INTS(config, level, n_levels, "levels", 2, 1, 8192),
    VF_NUMS(config, mean, n_mean, "mean", 1, -1e6, 1e6),
    VF_WORDS(config, n_blocks, "blocks", "Down|Up"),
    VF_WORD_LIST(config, kind, n_kinds, "kinds", 1, "conv|fold|none"),
    VF_FLAGS(config, halves, n_halves, "halves", 2),
    VF_ONLY_INT("frames", 4),
    VF_ONLY_NUM("dropout", 0),
    VF_ONLY_FLAG("affine", true),
    VF_ONLY("act", "silu|swish", "silu"),
    VF_ONLY("target", "v", "epsilon"),
    VF_ONLY("type", "t5", NULL),
    VF_UNSET("quantization", "use the bf16 files"),
    { 0 }
};
#define NEEDED "\"width\":64,\"target\":\"v\",\"type\":\"t5\""

static cJSON *parsed(const char *text)
{
    cJSON *o;
    vc_err err = { 0 };
    if (vf_json_parse(&o, text, strlen(text), &err))
        fail_msg("%s: %s", text, err.text);
    return o;
}

static config fresh(void)
{
    return (config){ .level = { 128, 256, 512 }, .n_levels = 3, .end = "end" };
}

static void defaults(void **state)
{
    static const char *const texts[] = {
        "{" NEEDED "}",
        "{" NEEDED ",\"heads\":null,\"patch\":0,\"eps\":null,\"bias\":null,\"spacing\":null,"
        "\"levels\":null,\"mean\":null,\"blocks\":null,\"kinds\":null,\"frames\":null,\"act\":null,"
        "\"quantization\":null,\"another\":[]}",
        "{" NEEDED ",\"quantization\":[]}",
        "{" NEEDED ",\"quantization\":false,\"frames\":4,\"dropout\":0.0,\"act\":\"swish\"}",
    };
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        cJSON *o = parsed(texts[i]);
        config c = fresh();
        vc_err err = { 0 };
        if (vf_config_read(&c, rows, o, &err))
            fail_msg("%s: %s", texts[i], err.text);
        assert_true(c.width == 64 && c.heads == 30 && c.patch == 0 && c.bias);
        assert_true(c.eps == 1e-5 && c.scale == 1);
        assert_true(c.spacing == LEADING && c.place == 0);
        assert_true(c.n_levels == 3 && c.level[0] == 128 && c.level[2] == 512 && !c.level[3]);
        assert_true(c.n_mean == 0 && c.n_blocks == 0 && c.n_kinds == 0 && c.n_halves == 0);
        assert_string_equal(c.end, "end");
        cJSON_Delete(o);
    }
}

static void values(void **state)
{
    cJSON *o = parsed("{\"width\":4503599627370496,\"target\":\"v\",\"type\":\"t5\",\"heads\":256,"
                      "\"patch\":2,\"eps\":1,\"scale\":1e300,\"bias\":false,"
                      "\"spacing\":\"linspace\",\"place\":\"on\",\"levels\":[1,2,3,8192],"
                      "\"mean\":[-0.5,1e6,7],\"blocks\":[\"Down\",\"Up\"],\"affine\":true,"
                      "\"kinds\":[\"none\",\"fold\"],\"halves\":[false,true,true]}");
    config c = fresh();
    vc_err err = { 0 };
    (void)state;
    assert_int_equal(vf_json_add_int(o, "frames", 4), 0);       /* raw digits */
    assert_ok(vf_config_read(&c, rows, o, &err), &err);
    assert_true(c.width == INT64_C(4503599627370496) && c.heads == 256 && c.patch == 2);
    assert_true(c.eps == 1 && c.scale == 1e300 && !c.bias);
    assert_true(c.spacing == LINSPACE && c.place == 1);
    assert_true(c.n_levels == 4 && c.level[0] == 1 && c.level[3] == 8192);
    assert_true(c.n_mean == 3 && c.mean[0] == -0.5 && c.mean[1] == 1e6 && c.mean[2] == 7);
    assert_int_equal(c.n_blocks, 2);
    assert_true(c.n_kinds == 2 && c.kind[0] == 2 && c.kind[1] == 1);
    assert_true(c.n_halves == 3 && !c.halves[0] && c.halves[1] && c.halves[2]);
    assert_string_equal(c.end, "end");
    cJSON_Delete(o);
}

/* ---- refused values ---- */

static const struct { const char *fields, *message; } bad[] = {
    /* kinds */
    { "\"heads\":\"30\"", "heads: expected an integer, found a string" },
    { "\"heads\":true", "heads: expected an integer, found a boolean" },
    { "\"heads\":[30]", "heads: expected an integer, found an array" },
    { "\"heads\":1.5", "heads: expected an integer, found 1.5" },
    { "\"eps\":\"1e-5\"", "eps: expected a number, found a string" },
    { "\"eps\":{}", "eps: expected a number, found an object" },
    { "\"bias\":1", "bias: expected true or false, found a number" },
    { "\"affine\":\"true\"", "affine: expected true or false, found a string" },
    { "\"spacing\":7", "spacing: expected a string, found a number" },
    { "\"act\":[\"silu\"]", "act: expected a string, found an array" },
    { "\"levels\":4", "levels: expected an array, found a number" },
    { "\"mean\":{\"0\":1}", "mean: expected an array, found an object" },
    { "\"blocks\":\"Down\"", "blocks: expected an array, found a string" },
    /* bounds */
    { "\"heads\":0", "heads: 0 is not within 1..256" },
    { "\"heads\":257", "heads: 257 is not within 1..256" },
    { "\"heads\":4294967297", "heads: 4294967297 is not within" },     /* 1 in 32 bits */
    { "\"heads\":9007199254740991", "heads: 9007199254740991 is not within" },
    { "\"heads\":1e300", "heads: integer out of range" },
    { "\"heads\":1e999", "heads: number out of range" },
    { "\"patch\":1", "patch: 1 is not within 2..16" },
    { "\"patch\":-1", "patch: -1 is not within 2..16" },
    { "\"eps\":0", "eps: 0 is not above 0 and at most 1" },
    { "\"eps\":-1e-5", "eps: -1e-05 is not above 0" },
    { "\"eps\":1.0000001", "eps: 1.0000001 is not above 0 and at most 1" },
    { "\"eps\":1e999", "eps: number out of range" },
    { "\"scale\":0", "scale: 0 is not above 0" },
    /* words */
    { "\"spacing\":\"karras\"",
      "spacing: \"karras\"; only \"trailing\", \"linspace\" or \"leading\" is supported" },
    { "\"spacing\":\"\"", "spacing: \"\"; only" },
    { "\"spacing\":\"linspace|leading\"", "spacing: \"linspace|leading\"; only" },
    { "\"place\":\"i\"", "place: \"i\"; only \"in\" or \"on\"" },
    { "\"place\":\"inn\"", "place: \"inn\"; only \"in\" or \"on\"" },
    /* one value */
    { "\"frames\":8", "frames: 8; only 4 is supported" },
    { "\"dropout\":0.1", "dropout: 0.1; only 0 is supported" },
    { "\"affine\":false", "affine: false; only true is supported" },
    { "\"act\":\"gelu\"", "act: \"gelu\"; only \"silu\" or \"swish\" is supported" },
    { "\"quantization\":{\"bits\":8}",
      "quantization: it is set; only models without quantization are supported: use the "
      "bf16 files" },
    { "\"quantization\":true", "quantization: it is set" },
    { "\"quantization\":0", "quantization: it is set" },
    { "\"quantization\":[0]", "quantization: it is set" },
    { "\"quantization\":{}", "quantization: it is set" },
    /* lists */
    { "\"levels\":[]", "levels: 0 entries; 2 to 4 are allowed" },
    { "\"levels\":[1]", "levels: 1 entries; 2 to 4 are allowed" },
    { "\"levels\":[1,2,3,4,5]", "levels: 5 entries; 2 to 4 are allowed" },
    { "\"levels\":[1,\"2\"]", "levels[1]: expected a number" },
    { "\"levels\":[1,null]", "levels[1]: expected a number" },
    { "\"levels\":[1,2,2.5]", "levels[2]: expected an integer, found 2.5" },
    { "\"levels\":[1,2,1e300]", "levels[2]: 1.0000000000000001e+300 is not within 1..8192" },
    { "\"levels\":[1,2,4294967297]", "levels[2]: 4294967297 is not within 1..8192" },
    { "\"levels\":[0,2]", "levels[0]: 0 is not within 1..8192" },
    { "\"mean\":[]", "mean: 0 entries" },
    { "\"mean\":[1,2,3,4]", "mean: 4 entries; 1 to 3 are allowed" },
    { "\"mean\":[1,true]", "mean[1]: expected a number" },
    { "\"mean\":[1,2,1e999]", "mean[2]: expected a number" },
    { "\"mean\":[1,2,-1e7]", "mean[2]: -10000000 is not within -1000000..1000000" },
    { "\"blocks\":[\"Down\",\"Cross\"]", "blocks[1]: \"Cross\"; only \"Down\" or \"Up\"" },
    { "\"blocks\":[7]", "blocks[0]: expected a string" },
    { "\"kinds\":[\"conv\",\"\"]", "kinds[1]: \"\"; only \"conv\", \"fold\" or \"none\"" },
    { "\"kinds\":[]", "kinds: 0 entries; 1 to 3 are allowed" },
    { "\"kinds\":[true]", "kinds[0]: expected a string" },
    { "\"halves\":[true]", "halves: 1 entries; 2 to 3 are allowed" },
    { "\"halves\":[true,1]", "halves[1]: expected true or false" },
    { "\"halves\":true", "halves: expected an array, found a boolean" },
};

static void refused(const cJSON *o, int code, const char *text, const char *message)
{
    config c = fresh();
    vc_err err = { 0 };
    int rc = vf_config_read(&c, rows, o, &err);
    if (rc != code || !strstr(err.text, message))
        fail_msg("%s: %d, \"%s\"; expected %d, \"%s\"", text, rc, err.text, code, message);
    assert_null(strstr(err.text, "inf"));
    assert_string_equal(c.end, "end");
}

static void values_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char text[300];
        snprintf(text, sizeof text, "{" NEEDED ",%s}", bad[i].fields);
        cJSON *o = parsed(text);
        refused(o, VC_EFORMAT, text, bad[i].message);
        cJSON_Delete(o);
    }
}

static void missing_refused(void **state)
{
    static const struct { const char *text; int code; const char *message; } all[] = {
        { "{\"target\":\"v\",\"type\":\"t5\"}", VC_ENOENT, "width: missing" },
        { "{\"width\":null,\"target\":\"v\",\"type\":\"t5\"}", VC_ENOENT, "width: missing" },
        { "{\"width\":0,\"target\":\"v\",\"type\":\"t5\"}", VC_EFORMAT, "width: 0 is not within" },
        { "{\"width\":1,\"target\":\"v\"}", VC_ENOENT, "type: missing" },
        { "{\"width\":1,\"type\":\"t5\"}", VC_EFORMAT,
          "target: missing, which means \"epsilon\"; only \"v\" is supported" },
        { "[]", VC_EFORMAT, "no JSON object" },
        { "null", VC_EFORMAT, "no JSON object" },
    };
    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        cJSON *o = parsed(all[i].text);
        refused(o, all[i].code, all[i].text, all[i].message);
        cJSON_Delete(o);
    }
    refused(NULL, VC_EFORMAT, "NULL", "no JSON object");
}

/* JSON text has no NaN, but a tree that a program built may contain one. */
static void nan_refused(void **state)
{
    static const struct { const char *field, *message; } all[] = {
        { "heads", "heads: number out of range" }, { "eps", "eps: number out of range" },
        { "dropout", "dropout: number out of range" },
    };
    const double odd[] = { NAN, INFINITY, -INFINITY };

    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        for (int k = 0; k < 3; k++) {
            cJSON *o = parsed("{" NEEDED "}"), *list = cJSON_AddArrayToObject(o, "mean");
            cJSON_AddItemToArray(list, cJSON_CreateNumber(odd[k]));
            refused(o, VC_EFORMAT, "mean", "mean[0]: expected a number");
            cJSON_DeleteItemFromObject(o, "mean");
            cJSON_AddNumberToObject(o, all[i].field, odd[k]);
            refused(o, VC_EFORMAT, all[i].field, all[i].message);
            cJSON_Delete(o);
        }
}

/* ---- the file of a folder ---- */

static void folders(void **state)
{
    const char *dir = *state;
    char *path = vc_path_join(dir, "config.json");
    cJSON *o = NULL;
    vc_err err = { 0 };
    assert_int_equal(vf_json_read_in_opt(&o, dir, "config.json", 1 << 20, &err), 0);
    assert_null(o);
    assert_fails(vf_json_read_in(&o, dir, "config.json", 1 << 20, &err), VC_ENOENT, &err, path);
    assert_null(o);
    assert_int_equal(vc_file_write(path, "{", 1, &err), 0);
    int (*const read[])(cJSON **, const char *, const char *, size_t, vc_err *) = {
        vf_json_read_in, vf_json_read_in_opt
    };
    for (int i = 0; i < 2; i++) {
        err = (vc_err){ 0 };
        assert_fails(read[i](&o, dir, "config.json", 1 << 20, &err), VC_EFORMAT, &err, path);
        assert_null(o);
    }
    assert_int_equal(vc_file_write(path, "{\"a\":1}", 7, &err), 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(read[i](&o, dir, "config.json", 1 << 20, &err), 0);
        assert_true(cJSON_HasObjectItem(o, "a"));
        cJSON_Delete(o);
    }
    free(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults),        cmocka_unit_test(values),
        cmocka_unit_test(values_refused),  cmocka_unit_test(missing_refused),
        cmocka_unit_test(nan_refused),
        cmocka_unit_test_setup_teardown(folders, tmp_dir_setup, tmp_dir_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
