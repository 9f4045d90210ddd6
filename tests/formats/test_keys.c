/* test_keys.c - content keys: their text form, and hashes of bytes, of fields and of files. */
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys),
        cmocka_unit_test(hashed_fields),
        FOLDER_TEST(hashed_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
