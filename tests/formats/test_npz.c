/* test_npz.c - arrays of .npz files that numpy wrote; files that vlt writes read back; arrays of
 * objects are not built; damaged and forged files are refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/os/file.h"
#include "formats/tensors/npz.h"
#include "formats/tensors/pt_parts.h"
#include "tests/lib/mutate.h"
#include "tests/lib/ok.h"
#include "tests/lib/tmp_dir.h"

static vf_pt *open_golden(const char *name)
{
    vc_err err = { 0 };
    vf_pt *p;
    char *path = vc_format("%s/tests/golden/%s", getenv("VLT_SOURCE"), name);
    assert_ok(vf_npz_open(&p, path, &err), &err);
    free(path);
    return p;
}

static void test_types(void **state)
{
    static const struct { const char *name; vc_dtype type; } types[] = {
        { "float32", VC_F32 }, { "float16", VC_F16 }, { "float64", VC_F64 }, { "int64", VC_I64 },
        { "int32", VC_I32 }, { "int16", VC_I16 }, { "int8", VC_I8 }, { "uint8", VC_U8 },
        { "bool", VC_BOOL },
    };
    vf_pt *p = open_golden("numpy.npz");
    const vf_pt_value *root = vf_pt_root(p);
    vf_view v;
    float f[24];
    (void)state;
    for (size_t k = 0; k < sizeof types / sizeof *types; k++) {
        assert_int_equal(vf_pt_tensor(root, types[k].name, &v, NULL), 0);
        assert_int_equal(v.dtype, types[k].type);
        assert_true(v.nd == 3 && v.dim[0] == 2 && v.dim[1] == 3 && v.dim[2] == 4);
        assert_int_equal(v.bytes, 24 * vc_dtype_size(v.dtype));
        vc_to_f32(f, v.data, v.dtype, 24);
        for (int i = 0; i < 24; i++)
            assert_true(f[i] == (v.dtype == VC_BOOL ? (float)(i > 0) : (float)i));
    }
    assert_int_equal(vf_pt_tensor(root, "scalar", &v, NULL), 0);
    assert_true(v.nd == 0 && v.bytes == 1 && *(const uint8_t *)v.data == 1);
    assert_int_equal(vf_pt_tensor(root, "none", &v, NULL), 0);
    assert_true(v.nd == 2 && v.dim[0] == 0 && v.dim[1] == 3 && !v.bytes);
    assert_int_equal(vf_pt_tensor(root, "vector", &v, NULL), 0);
    assert_true(v.nd == 1 && v.dim[0] == 2 && ((const int64_t *)v.data)[1] == 64);
    vf_pt_close(p);
}

static void test_refused(void **state)
{
    static const char *const opaque[] = { "objects", "text", "big", "columns" };
    vf_pt *p = open_golden("numpy.npz");
    vc_err err = { 0 };
    (void)state;
    for (size_t i = 0; i < sizeof opaque / sizeof *opaque; i++)
        assert_int_equal(vf_pt_get(vf_pt_root(p), opaque[i])->kind, VF_PT_OPAQUE);
    vf_pt_close(p);
    char *path = vc_format("%s/tests/golden/numpy_packed.npz", getenv("VLT_SOURCE"));
    assert_int_equal(vf_npz_open(&p, path, &err), VC_EFORMAT);
    assert_non_null(strstr(err.text, "x.npy: compressed, but np.savez compresses nothing"));
    free(path);
}

/* Writes a zip with one member and opens it. */
static int open_member(const char *dir, const char *name, const void *data, size_t n, vf_pt **p,
                       vc_err *err)
{
    vf_pt_member m = { .name = strdup(name), .data = data, .size = n };
    char *path = vc_path_join(dir, "one.npz"), *zip;
    size_t size;
    assert_int_equal(vf_pt_zip_pack(&zip, &size, &m, 1, NULL), 0);
    assert_int_equal(vc_file_write(path, zip, size, NULL), 0);
    int rc = vf_npz_open(p, path, err);
    free(zip);
    free(path);
    free(m.name);
    return rc;
}

#define HEAD(length, text) "\x93NUMPY\1\0" length "\0" text
static void test_forged(void **state)
{
    static const struct { const char *data; size_t n; const char *message; } rows[] = {
#define ROW(d, m) { d, sizeof d - 1, m }
        ROW("NUMPY", "a.npy: no array of numpy"),
        ROW("\x93NUMPY\4\0\0\0\0\0", "a.npy: no array of numpy"),
        ROW(HEAD("\x7f", "{}"), "a.npy: cut short"),
        ROW(HEAD("\x3f", "{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }     \n1234567"),
            "its shape does not fit its 7 bytes"),
        ROW(HEAD("\x3e", "{'descr': '<f4', 'fortran_order': False, 'shape': (9999999999)\n1234567"),
            "its shape does not fit its 8 bytes"),
        ROW(HEAD("\x3f", "{'descr': '<f4', 'fortran_order': False, 'shape': (-1,), }    \n1234567"),
            "its shape does not fit its 7 bytes"),
#undef ROW
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        vc_err err = { 0 };
        vf_pt *p;
        int rc = open_member(*state, "a.npy", rows[i].data, rows[i].n, &p, &err);
        if (rc != VC_EFORMAT || !strstr(err.text, rows[i].message))
            fail_msg("row %zu: %s", i, err.text);
    }
}

static void test_damaged(void **state)
{
    vf_pt *whole = open_golden("kohya_te.npz"), *p;
    for (size_t k = 0; k < whole->n_members; k++)
        for (uint32_t round = 0; round < 40; round++) {
            const vf_pt_member *m = &whole->member[k];
            uint8_t *bytes = malloc(2 * m->size);
            memcpy(bytes, m->data, m->size);
            size_t n = mutate(bytes, m->size, 2 * m->size, 4, round);
            if (!open_member(*state, "a.npy", bytes, n, &p, NULL)) {
                const vf_pt_value *v = vf_pt_get(vf_pt_root(p), "a");
                if (v->kind == VF_PT_TENSOR)
                    mutate_touch(v->tensor->data, v->tensor->bytes);
                vf_pt_close(p);
            }
            free(bytes);
        }
    vf_pt_close(whole);
}

/* A file that is written from what was read has the same arrays. */
static void test_written(void **state)
{
    vf_pt *p = open_golden("kohya_te.npz"), *q;
    char *data, *path = vc_path_join(*state, "back.npz");
    size_t size;
    vf_view a, b;
    assert_int_equal(vf_npz_pack(&data, &size, vf_pt_root(p), NULL), 0);
    assert_int_equal(vc_file_write(path, data, size, NULL), 0);
    assert_int_equal(vf_npz_open(&q, path, NULL), 0);
    assert_int_equal(vf_pt_root(q)->n, 5);
    for (size_t i = 0; i < 5; i++) {
        char *key = strndup(vf_pt_root(p)->item[2 * i]->s, vf_pt_root(p)->item[2 * i]->n);
        assert_int_equal(vf_pt_tensor(vf_pt_root(p), key, &a, NULL), 0);
        assert_int_equal(vf_pt_tensor(vf_pt_root(q), key, &b, NULL), 0);
        assert_true(a.dtype == b.dtype && a.nd == b.nd && a.bytes == b.bytes);
        assert_memory_equal(a.dim, b.dim, (size_t)a.nd * sizeof *a.dim);
        assert_memory_equal(a.data, b.data, a.bytes);
        free(key);
    }
    vf_pt_close(q);
    vf_pt_close(p);
    free(data);
    free(path);
    const vf_view bf16 = { "x", VC_BF16, 1, { 1 }, "ab", 2 };
    const vf_pt_value key = { .kind = VF_PT_STR, .s = "x", .n = 1 };
    const vf_pt_value value = { .kind = VF_PT_TENSOR, .tensor = &bf16 };
    const vf_pt_value *item[2] = { &key, &value };
    const vf_pt_value d = { .kind = VF_PT_DICT, .item = item, .n = 1 };
    assert_int_equal(vf_npz_pack(&data, &size, &d, NULL), VC_EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_types),
        cmocka_unit_test(test_refused),
        cmocka_unit_test_setup_teardown(test_forged, tmp_dir_setup, tmp_dir_teardown),
        cmocka_unit_test_setup_teardown(test_damaged, tmp_dir_setup, tmp_dir_teardown),
        cmocka_unit_test_setup_teardown(test_written, tmp_dir_setup, tmp_dir_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
