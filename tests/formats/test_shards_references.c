/* test_shards_references.c - vf_verify() compares the reference pictures of a sample with the sizes
 * that its record has: how many they are, and the rows and columns of each. */
#include "tests/formats/shards_test.h"

enum { FIRST = 100, SECOND = 101 };          /* numbers of the references' latents */

static void put_latent(vf_writer *w, uint32_t number, int h, int wd)
{
    size_t n;
    uint8_t *st = make_latent(number, 1, h, wd, &n);
    OK(vf_writer_put_latent(w, make_latent_key(number, 1, h, wd), st, n, &err));
    free(st);
}

/* Writes a sample of 8x4 with references of 5x7 and 3x9. */
static void make_edit(const char *dir)
{
    static const uint8_t jpeg[] = { 0xff, 0xd8, 0xff, 0xd9 };
    char hex[VF_KEY_HEX];
    vf_writer *w;
    cJSON *head = make_head(0), *record = make_record(0, 0, "a cat", 1, 8, 4);
    vf_writer_opts o = { .head = head, .shard_size = BIG };
    OK(vf_writer_open(&w, dir, &o, &err));
    OK(make_sample(w, 0, "a cat", 1, 8, 4, &err));
    put_latent(w, FIRST, 5, 7);
    put_latent(w, SECOND, 3, 9);
    cJSON *conditions = cJSON_AddObjectToObject(record, "conditions");
    vf_key_hex(hex, make_latent_key(FIRST, 1, 5, 7));
    cJSON_AddStringToObject(conditions, "reference_1", hex);
    vf_key_hex(hex, make_latent_key(SECOND, 1, 3, 9));
    cJSON_AddStringToObject(conditions, "reference_2", hex);
    cJSON_AddItemToObject(record, "references", cJSON_Parse(
        "[{\"path\":\"a.png\",\"source\":[40,56],\"target\":[40,56],\"latent\":[1,5,7]},"
        "{\"path\":\"b.png\",\"source\":[24,72],\"target\":[24,72],\"latent\":[1,3,9]}]"));
    OK(vf_writer_put_sample(w, 0, 0, record, jpeg, sizeof jpeg, &err));
    OK(vf_writer_finish(w, &err));
    vf_writer_close(w);
    cJSON_Delete(record);
    cJSON_Delete(head);
}

static void whole(void **state)
{
    make_edit(*state);
    assert_whole(*state);
}

/* Each case is one change, and a part of the message about this change: in a record that is read
 * from its text, and in one that needs a tree of JSON, since it has a blank. */
static void reported(void **state)
{
    static const struct { const char *from, *to, *message; } cases[] = {
        { "[1,5,7]", "[1,5,8]", ": latent [1,5,7], the record says [1,5,8]" },
        { "[1,5,7]", "[1,7,5]", "reference_1 " },
        { "[1,3,9]", "[1,9,3]", "reference_2 " },
        { "[1,3,9]", "[2,3,9]", "references[1]: latent: [1,h,w] of 1..65535 expected" },
        { "[1,3,9]", "[1,0,9]", "references[1]: latent: [1,h,w] of 1..65535 expected" },
        { "[1,3,9]", "[1,3.9]", "references[1]: latent: [1,h,w] of 1..65535 expected" },
        { ",\"latent\":[1,3,9]", ",\"patent\":[1,3,9]", "references[1]: latent: missing" },
        { "\"references\":", "\"referencez\":",
          "references: the record has sizes of 0, and its conditions are of 2" },
        { "\"reference_2\"", "\"xeference_2\"",
          "references: the record has sizes of 2, and its conditions are of 1" },
        { "\"reference_1\"", "\"reference_4\"", "conditions: reference_1: missing" },
    };
    for (size_t i = 0; i < 2 * sizeof cases / sizeof *cases; i++) {
        const size_t k = i / 2;
        vc_remove_tree(*state, NULL);
        make_edit(*state);
        patch(*state, "shard-00000.lmdb", cases[k].from, cases[k].to);
        if (i % 2)
            patch(*state, "shard-00000.lmdb", "\"fps\":24", "\"fps\": 4");
        findings f = verify(*state);
        if (!strstr(f.text, cases[k].message))
            fail_msg("%s -> %s: %s", cases[k].from, cases[k].to, f.text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FOLDER_TEST(whole),
        FOLDER_TEST(reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
