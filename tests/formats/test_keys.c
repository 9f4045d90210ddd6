/* test_keys.c - content keys: their text form, and hashes of bytes, of fields and of files; and the
 * table of places. */
#include "formats/keys/indexmap.h"
#include "tests/formats/shards_test.h"

static void keys(void **state)
{
    static const struct { const char *hex; bool good;
    } cases[] = {
        { "00112233445566778899aabbccddeeff", true },
        { "", false },
        { "00112233445566778899aabbccddeef", false },
        { "00112233445566778899aabbccddeeff0", false },
        { "00112233445566778899AABBCCDDEEFF", false },
        { "00112233445566778899aabbccddeefg", false },
    };
    char hex[VF_KEY_HEX];
    vf_key k;
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(vf_key_parse(&k, cases[i].hex), cases[i].good);
        if (cases[i].good)
            assert_string_equal(vf_key_hex(hex, k), cases[i].hex);
    }
    /* The reference implementation's xxhsum -H2 computed XXH3-128 of no bytes and of "abc". */
    assert_string_equal(vf_key_hex(hex, vf_hash("", 0)), "99aa06d3014798d86001c324468d497f");
    assert_string_equal(vf_key_hex(hex, vf_hash("abc", 3)), "06b05ab6733a618578af5f94892f3950");
    assert_string_equal(vf_key_hex(hex, vf_hash2("a", 1, "bc", 2)),
                        "06b05ab6733a618578af5f94892f3950");
}

static vf_key hash_fields(const char *kind, const char *a, const char *b)
{
    vf_hasher h;
    vf_hasher_begin(&h, kind);
    vf_hasher_str(&h, "a", a);
    vf_hasher_str(&h, "b", b);
    vf_hasher_int(&h, "n", -1);
    return vf_hasher_end(&h);
}

/* The key of several fields is the hash of the bytes that docs/format.md describes. */
static void hashed_fields(void **state)
{
    static const char bytes[] = "text\0a\0\2\0\0\0\0\0\0\0xyb\0\1\0\0\0\0\0\0\0z"
                                "n\0\10\0\0\0\0\0\0\0\377\377\377\377\377\377\377\377";
    vf_key plain = vf_hash(bytes, sizeof bytes - 1), k = hash_fields("text", "xy", "z");
    (void)state;
    assert_memory_equal(&plain, &k, sizeof k);
    k = hash_fields("text", "x", "yz");
    assert_memory_not_equal(&plain, &k, sizeof k);
    k = hash_fields("latent", "xy", "z");
    assert_memory_not_equal(&plain, &k, sizeof k);
}

static void hashed_file(void **state)
{
    char *path = vc_path_join(*state, "file");
    size_t n = 3 << 20 | 17;
    char *data = malloc(n);
    vf_key k, plain;
    atomic_int stop = 1;
    for (size_t i = 0; i < n; i++)
        data[i] = (char)(i * 2654435761u >> 13);
    OK(vc_file_write(path, data, n, &err));
    OK(vf_hash_file(&k, path, NULL, &err));
    plain = vf_hash(data, n);
    assert_memory_equal(&plain, &k, sizeof k);
    FAILS(VC_ESTOP, "stopped", vf_hash_file(&k, path, &stop, &err));
    FAILS(VC_EFORMAT, "regular", vf_hash_file(&k, *state, NULL, &err));
    FAILS(VC_ENOENT, "nothing", vf_hash_file(&k, "/nothing", NULL, &err));
    free(data);
    free(path);
}

static uint64_t key_of(const void *items, uint32_t i)
{
    return ((const uint64_t *)items)[i];
}

/* The map finds items by their keys of now, also after it has grown over items whose keys changed,
 * and the last of several with one key. */
static void places(void **state)
{
    enum { ITEMS = 1000, CHANGED = 100 };
    uint64_t item[ITEMS] = { 0 };
    uint32_t at;
    vf_indexmap m = { 0 };
    (void)state;
    assert_false(vf_indexmap_get(&m, item, key_of, 7, &at));
    for (uint32_t i = 0; i < ITEMS; i++) {
        item[i] = i % 2 ? i : (uint64_t)i << 32;
        OK(vf_indexmap_put(&m, item, key_of, i, &err));
        if (i == CHANGED)
            for (uint32_t k = 0; k < CHANGED; k++) {
                item[k] += (uint64_t)1 << 60;
                OK(vf_indexmap_put(&m, item, key_of, k, &err));
            }
    }
    for (uint32_t i = 0; i < ITEMS; i++) {
        assert_true(vf_indexmap_get(&m, item, key_of, item[i], &at));
        assert_int_equal(at, i);
    }
    assert_false(vf_indexmap_get(&m, item, key_of, 1, &at));
    assert_int_equal(m.n, ITEMS);
    item[3] = item[5];
    OK(vf_indexmap_put(&m, item, key_of, 3, &err));
    assert_true(vf_indexmap_get(&m, item, key_of, item[5], &at));
    assert_int_equal(at, 3);
    vf_indexmap_free(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys),
        cmocka_unit_test(hashed_fields),
        FOLDER_TEST(hashed_file),
        cmocka_unit_test(places),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
