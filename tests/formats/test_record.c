/* test_record.c - a record that is read from its text is the record that a tree of JSON gives, for
 * thousands of damaged texts, and what only a tree can read is left to the tree. */
#include "formats/dataset/record.h"
#include "tests/formats/shards_test.h"
#include "tests/lib/mutate.h"

static const char KEY[] = "000000000007/002";
static const char TEXT[] =
    "{\"sample\":7,\"id\":\"00000123456789ab\",\"variant\":2,\"path\":\"clips/\\u00e9 7.mp4\","
    "\"type\":\"video\",\"captions\":[{\"text\":\"a \\\"red\\\" ball \xc3\xa9\",\"keys\":["
    "\"00112233445566778899aabbccddeeff\",\"10112233445566778899aabbccddeeff\"]},{\"text\":\"\","
    "\"keys\":[]}],\"empty\":[\"50112233445566778899aabbccddeeff\"],\"source\":{\"w\":640,"
    "\"h\":360,\"fps\":29.97},\"draws\":{\"a\":[0.5,-1e-3],\"b\":{}},\"key\":\"0.57\","
    "\"target\":[8,16],\"flip\":false,\"frames\":[0,2,4,6],\"fps\":29.97,"
    "\"latent\":[3,4,5],\"tokens\":60,\"latent_key\":\"20112233445566778899aabbccddeeff\","
    "\"conditions\":{\"image\":\"30112233445566778899aabbccddeeff\","
    "\"mask\":\"40112233445566778899aabbccddeeff\"},"
    "\"weight\":0.25,\"extra\":{\"note\":\"x\"}}";

static const vf_bytes key = { (const uint8_t *)KEY, sizeof KEY - 1 };
static unsigned without_tree, with_tree;

static void same_refs(const vf_refs *a, const cJSON *list)
{
    vf_refs b = { 0 };
    assert_int_equal(vf_refs_of(&b, list, false, NULL), 0);
    assert_int_equal(a->n, b.n);
    for (int i = 0; i < b.n; i++) {
        assert_int_equal(a->item[i].valid, b.item[i].valid);
        assert_memory_equal(&a->item[i].key, &b.item[i].key, sizeof b.item[i].key);
        assert_int_equal(a->item[i].role.n, b.item[i].role.n);
        assert_memory_equal(a->item[i].role.p, b.item[i].role.p, b.item[i].role.n);
    }
    free(b.item);
}

/* Compares the two ways to read a text. */
static int compare(const uint8_t *data, size_t size)
{
    vf_parsed p = { 0 };
    vf_record r;
    cJSON *json;
    vc_err a = { 0 }, b = { 0 };
    const vf_bytes text = { data, size };
    int rc = vf_parsed_read(&p, key, text, &a);
    assert_int_equal(rc, vf_record_read(&r, &json, key, text, &b));
    assert_string_equal(a.text, b.text);
    if (!rc) {
        without_tree += !p.json;
        with_tree += !!p.json;
        assert_memory_equal(&p.r.entry, &r.entry, sizeof r.entry);
        assert_memory_equal(&p.r.hash, &r.hash, sizeof r.hash);
        assert_int_equal(p.r.id, r.id);
        assert_string_equal(p.r.bucket, r.bucket);
        if (!p.json && cJSON_IsObject(json)) {
            const cJSON *caption;
            int i = 0;
            same_refs(&p.conditions, cJSON_GetObjectItemCaseSensitive(json, "conditions"));
            cJSON_ArrayForEach(caption, cJSON_GetObjectItemCaseSensitive(json, "captions")) {
                const cJSON *keys = cJSON_GetObjectItemCaseSensitive(caption, "keys");
                assert_int_equal(p.caption[i++],
                                 cJSON_IsArray(keys) ? cJSON_GetArraySize(keys) : -1);
            }
            const cJSON *empty = cJSON_GetObjectItemCaseSensitive(json, "empty");
            if (empty)                           /* counts as a caption behind the others */
                assert_int_equal(p.caption[i++], cJSON_GetArraySize(empty));
            assert_int_equal(p.captions, i);
        }
    }
    cJSON_Delete(json);
    vf_parsed_free(&p);
    return 0;
}

static void damaged_texts(void **state)
{
    (void)state;
    compare((const uint8_t *)TEXT, sizeof TEXT - 1);
    assert_int_equal(without_tree, 1);
    mutate_run(TEXT, sizeof TEXT - 1, 11, 30000, compare);
    assert_true(without_tree > 100);
    assert_true(with_tree > 10);
}

/* Texts that a reader without a tree could take for another record, or refuse wrongly. */
static void odd_texts(void **state)
{
    static const struct { const char *from, *to; } odd[] = {
        { "\"weight\":0.25", "\"tokens\":61" },                     /* a key twice */
        { "\"note\":\"x\"", "\"note\":\"x\",\"note\":\"x\"" },
        { "\"b\":{}", "\"b\":{\"c\":1,\"\\u0063\":2}" },            /* twice, spelt differently */
        { "\"tokens\":60", "\"tokens\":6e1" }, { "\"tokens\":60", "\"tokens\":060" },
        { "\"tokens\":60", "\"tokens\":4294967296" }, { "\"weight\":0.25", "\"weight\":-1" },
        { "\"weight\":0.25", "\"weight\":null" }, { "\"weight\":0.25", "\"dropped\":true" },
        { "\"type\":\"video\"", "\"type\":\"\\u0076ideo\"" },
        { "\"sample\":7", "\"sample\":8" }, { "\"sample\":7", "\"sample\": 7" },
        { "\"sample\":7,", "" }, { "\"frames\":[0,2,4,6]", "\"frames\":null" },
        { "[3,4,5]", "[3,4,0]" }, { "[3,4,5]", "[3,4]" }, { "[3,4,5]", "[3,4,5,6]" },
        { "40112233445566778899aabbccddeeff", "40112233445566778899aabbccddeef" },
        { "\"key\":\"0.57\"", "\"key\":\"0.57 and more than sixty-three bytes, which is longer "
          "than any bucket has\"" },
        { "\"empty\":[", "\"empty\":null,\"other\":[" }, { "\"empty\":[", "\"empty\":[1," },
        { "\"sample\":7,", "\"sample\":7,\"empty\":[]," },
        { "0.25", "00.25" }, { "0.25", "0.25.1" }, { "0.25", "1e9" }, { "0.25", "1.5e9" },
    };
    char text[2048];
    (void)state;
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        const char *at = strstr(TEXT, odd[i].from);
        assert_non_null(at);
        int n = snprintf(text, sizeof text, "%.*s%s%s", (int)(at - TEXT), TEXT, odd[i].to,
                         at + strlen(odd[i].from));
        compare((const uint8_t *)text, (size_t)n);
    }
}

/* A field that later programs may add is passed over, and no tree is made for it. */
static void other_fields(void **state)
{
    static const struct { const char *to; bool tree; } other[] = {
        { "\"hint\":1,\"weight\":0.25", false },
        { "\"hint\":{\"a\":[1,{\"b\":null}]},\"weight\":0.25", false },
        { "\"hint\":1,\"more\":\"x\",\"weight\":0.25,\"last\":[]", false },
        { "\"hint\":1,\"hint\":1", true }, { "\"hint\":1,\"tokens\":61", true },
        { "\"hint\":1,\"dropped\":true", true }, { "\"hint\":1,\"dropped\":false", true },
        { "\"h\\u0069nt\":1", true }, { "\"hint\": 1", true },
        { "\"held\":\"reg\"", false }, { "\"held\":\"prior\",\"extra\":{}", true },
    };
    char text[2048];
    (void)state;
    for (size_t i = 0; i < sizeof other / sizeof *other; i++) {
        const char *at = strstr(TEXT, "\"weight\":0.25");
        int n = snprintf(text, sizeof text, "%.*s%s%s", (int)(at - TEXT), TEXT, other[i].to,
                         at + strlen("\"weight\":0.25"));
        const unsigned before = without_tree;
        compare((const uint8_t *)text, (size_t)n);
        if ((without_tree == before) != other[i].tree)
            fail_msg("%s: a tree was %s", other[i].to, other[i].tree ? "expected" : "made");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(damaged_texts),
        cmocka_unit_test(odd_texts),
        cmocka_unit_test(other_fields),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
