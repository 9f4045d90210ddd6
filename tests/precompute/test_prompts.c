/* test_prompts.c - validation prompts are read from all supported forms of files. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "precompute/run/vprep.h"

typedef struct row {
    const char *ending, *text;
    int n;                               /* prompts; negative: an error with the text `says` */
    const char *says;
    const char *first;                   /* the first prompt as one JSON line */
} row;

static const row rows[] = {
    { ".json", "[{\"prompt\":\"a\",\"num_frames\":9},{\"caption\":\"b\"}]", 2, NULL,
      "{\"prompt\":\"a\",\"num_frames\":9}" },
    { ".json", "{\"data\":[{\"caption\":\"a\",\"height\":480,\"width\":720}]}", 1, NULL,
      "{\"prompt\":\"a\",\"height\":480,\"width\":720}" },
    { ".jsonl", "{\"text\":\"a\"}\n\n{\"prompt\":\"b\"}\n", 2, NULL, "{\"prompt\":\"a\"}" },
    { ".csv", "caption,height,image_path\n\"a, \"\"b\"\"\",64,\nc,,x.png\n", 2, NULL,
      "{\"prompt\":\"a, \\\"b\\\"\",\"height\":64}" },
    { ".json",
      "{\"data\":[{\"text\":\"a\",\"num_inference_steps\":25,\"guidance_scale\":\"6.5\"}]}", 1,
      NULL, "{\"prompt\":\"a\",\"num_inference_steps\":25,\"guidance_scale\":6.5}" },
    { ".csv", "caption,num_inference_steps,guidance_scale\na,,\n", 1, NULL, "{\"prompt\":\"a\"}" },
    { ".csv", "prompt,num_inference_steps\na,50\nb,1001\n", -1,
      "row 2: num_inference_steps: 1001 is no whole number in 0..1000", NULL },
    { ".csv", "prompt,num_inference_steps\na,2.5\n", -1, "num_inference_steps: 2.5 is no", NULL },
    { ".jsonl", "{\"prompt\":\"a\",\"guidance_scale\":-1}\n", -1,
      "row 1: guidance_scale: -1 is no number in 0..100", NULL },
    { ".csv", "caption,height\na,tall\n", -1, "row 1: height: \"tall\" is no number", NULL },
    { ".jsonl", "{\"prompt\":\"a\",\"height\":-64}\n", -1,
      "row 1: height: -64 is no whole number in 0..65536", NULL },
    { ".csv", "caption,seed\na,1e300\n", -1, "row 1: seed: 1e+300 is no whole number", NULL },
    { ".jsonl", "{\"prompt\":\"a\",\"num_frames\":9.5}\n", -1, "num_frames: 9.5 is no", NULL },
    { ".jsonl", "{\"prompt\":\"a\",\"width\":[64]}\n", -1, "width: \"?\" is no number", NULL },
    { ".csv", "title\na\n", -1, "row 1: no prompt", NULL },
    { ".jsonl", "{\"text_chunks\":[\"a\",\"b\"],\"negative_prompt\":[\"x\",\"y\"]}\n", 1, NULL,
      "{\"negative_prompt\":\"x\\ny\",\"negative_segments\":[\"x\",\"y\"],"
      "\"prompt\":\"a\\nb\",\"segments\":[\"a\",\"b\"],\"text_chunks\":2,\"num_frames\":97}" },
    { ".jsonl", "{\"text_chunks\":[\"a\",\"b\"],\"negative_prompt\":\"x\"}\n", 1, NULL,
      "{\"negative_prompt\":\"x\",\"prompt\":\"a\\nb\",\"segments\":[\"a\",\"b\"],"
      "\"text_chunks\":2,\"num_frames\":97}" },
    { ".jsonl", "{\"text_chunks\":[\"a\",\"b\"],\"negative_prompt\":[\"x\"]}\n", -1,
      "row 1: negative_prompt: a list of 1 texts, but the prompt has 2 segments", NULL },
    { ".jsonl", "{\"prompt\":\"a\",\"negative_prompt\":[\"x\"]}\n", -1,
      "row 1: negative_prompt: a list of 1 texts, but the prompt has 0 segments", NULL },
    { ".jsonl", "{\"text_chunks\":[\"a\",\"b\"],\"negative_prompt\":[\"x\",7]}\n", -1,
      "row 1: negative_prompt: expected a text, or a list of strings", NULL },
    { ".txt", "\xef\xbb\xbf# mine\r\n\r\na b --w 96 --H 64 --f 9 --d 4 --s 20 --l 6.5 "
      "--n mud, c--d \r\n  \r\nb\r\n", 2, NULL,
      "{\"prompt\":\"a b\",\"width\":96,\"height\":64,\"num_frames\":9,\"seed\":4,"
      "\"num_inference_steps\":20,\"negative_prompt\":\"mud, c--d\",\"guidance_scale\":6.5}" },
    { ".txt", "a --i x y.png --ei z.png --cn c.mp4 --ci 1.png --ci 2.png --g 4 --l 1.0", 1, NULL,
      "{\"prompt\":\"a\",\"image_path\":\"x y.png\",\"last_image_path\":\"z.png\","
      "\"control_file_path\":\"c.mp4\",\"edit_image\":[\"1.png\",\"2.png\"],"
      "\"guidance_scale\":4}" },
    { ".txt", "a\n\nb --w wide\n", -1, "line 3: row 2: width: \"wide\" is no number", NULL },
    { ".txt", "a --fs 5\n", -1, "line 1: --fs: options of a prompt are --w,", NULL },
    { ".txt", "a -- b\n", -1, "line 1: --: options of a prompt are --w,", NULL },
    { ".txt", "a --w\n", -1, "line 1: --w: no value behind it", NULL },
    { ".txt", "a --g 4 --l 5\n", -1, "line 1: --g and --l: a prompt has one guidance_scale", NULL },
    { ".txt", "a --g 1 --l 5\n", 1, NULL, "{\"prompt\":\"a\",\"guidance_scale\":5}" },
    { ".txt", "a\nb\xff\n", -1, "line 2: ", NULL },
    { ".txt", "\n# none\n", -1, "no prompts: one is expected a line", NULL },
    { ".json", "[{\"prompt\":\"a\",\"sample_steps\":20,\"frame_count\":9,\"scale\":7,"
      "\"control_image_path\":[\"1.png\"],\"end_image_path\":\"e.png\"}]", 1, NULL,
      "{\"prompt\":\"a\",\"num_inference_steps\":20,\"num_frames\":9,"
      "\"edit_image\":[\"1.png\"],\"last_image_path\":\"e.png\",\"guidance_scale\":7}" },
    { ".json", "[{\"prompt\":\"a\",\"guidance_scale\":3.5,\"cfg_scale\":1.0}]", 1, NULL,
      "{\"prompt\":\"a\",\"guidance_scale\":3.5}" },
    { ".json", "[{\"prompt\":\"a\",\"guidance_scale\":3.5,\"cfg_scale\":4}]", -1,
      "row 1: --g and --l: a prompt has one guidance_scale", NULL },
    { ".json", "[{\"prompt\":\"a\",\"sample_steps\":2,\"num_inference_steps\":3}]", -1,
      "row 1: sample_steps: the row has num_inference_steps too", NULL },
    { ".json", "[{\"prompt\":\"a\",\"discrete_flow_shift\":2}]", -1,
      "row 1: discrete_flow_shift: all prompts of a run have the same", NULL },
    { ".json", "[{\"prompt\":\"a\",\"discrete_flow_shift\":null,\"cfg_scale\":null,"
      "\"sample_steps\":\"\",\"num_inference_steps\":3,\"guidance_scale\":4}]", 1, NULL,
      "{\"prompt\":\"a\",\"num_inference_steps\":3,\"guidance_scale\":4}" },
    { ".csv", "prompt,cfg_scale,guidance_scale\na,,2\n", 1, NULL,
      "{\"prompt\":\"a\",\"guidance_scale\":2}" },
    { ".json", "[\"a --w 64 --l 2\",{\"prompt\":\"b\"}]", 2, NULL,
      "{\"prompt\":\"a\",\"width\":64,\"guidance_scale\":2}" },
    { ".json", "[\"a\",\"b --x 1\"]", -1, "--x: options of a prompt are --w,", NULL },
    { ".json", "[\"a\",[]]", -1, "row 2: expected an object or a prompt", NULL },
    { ".toml", "[prompt]\nwidth = 640\nsample_steps = 30\n[[prompt.subset]]\nprompt = \"a\"\n"
      "seed = 7\nscale = 6.5\n[[prompt.subset]]\nprompt = \"b\"\nwidth = 32\n", 2, NULL,
      "{\"prompt\":\"a\",\"seed\":7,\"width\":640,\"num_inference_steps\":30,"
      "\"guidance_scale\":6.5}" },
    { ".toml", "[[prompt.subset]]\nprompt = \"a\"\ncontrol_image_path = [\"1.png\", \"2.png\"]\n",
      1, NULL, "{\"prompt\":\"a\",\"edit_image\":[\"1.png\",\"2.png\"]}" },
    { ".toml", "[[prompt.subset]]\nprompt = \"a\"\nwidth = \"wide\"\n", -1,
      "line 1: row 1: width: \"wide\" is no number", NULL },
    { ".toml", "[[prompt.subset]]\nprompt = [1, [2]]\n", -1, "a list of texts is expected", NULL },
    { ".toml", "prompt = \"a\"\n", -1, "no prompts: each is a table [[prompt.subset]]", NULL },
    { ".toml", "[prompt\n", -1, "line 1", NULL },
    { ".json", "[]", -1, "no prompts: leave the flag out", NULL },
    { ".json", "{\"data\":[]}", -1, "no prompts: leave the flag out", NULL },
    { ".csv", "prompt,seed\n", -1, "no prompts: leave the flag out", NULL },
    { ".toml", "[prompt]\nsubset = []\n", -1, "no prompts: leave the flag out", NULL },
    { ".json", "[{\"prompt\":\"a\"},7]", -1, "row 2", NULL },
    { ".json", "[{\"prompt\":\"a\"}", -1, "line 1", NULL },
    { ".json", "{\"rows\":[]}", -1, "data: missing", NULL },
};

static void forms(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char path[64];
        vprep_prompts v;
        vc_err err = { 0 };
        snprintf(path, sizeof path, "/tmp/vlt-prompts-%d-%zu%s", (int)getpid(), i, rows[i].ending);
        assert_int_equal(vc_file_write(path, rows[i].text, strlen(rows[i].text), &err), 0);
        int rc = vprep_prompts_read(&v, path, &err);
        unlink(path);
        if (rows[i].n < 0) {
            if (!rc || !strstr(err.text, rows[i].says))
                fail_msg("row %zu: \"%s\" does not say \"%s\"", i, err.text, rows[i].says);
            continue;
        }
        if (rc)
            fail_msg("row %zu: %s", i, err.text);
        assert_int_equal(v.n, rows[i].n);
        char *line = vf_json_line(v.row[0]);
        assert_string_equal(line, rows[i].first);
        free(line);
        vprep_prompts_free(&v);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(forms) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
