/* test_pt.c - values of .pt files that torch wrote; files that vlt writes read back; no call in a
 * file is ever executed; damaged and forged files are refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/os/file.h"
#include "formats/tensors/pt_parts.h"
#include "tests/lib/mutate.h"
#include "tests/lib/ok.h"
#include "tests/lib/tmp_dir.h"

static vf_pt *open_golden(const char *name)
{
    vc_err err = { 0 };
    vf_pt *p;
    char *path = vc_format("%s/tests/golden/%s", getenv("VLT_SOURCE"), name);
    assert_ok(vf_pt_open(&p, path, &err), &err);
    free(path);
    return p;
}

/* ---- files of torch ---- */

static float at(const vf_view *v, size_t i)
{
    float f;
    vc_to_f32(&f, (const uint8_t *)v->data + i * vc_dtype_size(v->dtype), v->dtype, 1);
    return f;
}

/* Returns an element of arange(24) after a conversion to another type; fp8 types round. */
static float as_type(float f, vc_dtype t)
{
    uint8_t b[8];
    vc_from_f32(b, t, &f, 1);
    vc_to_f32(&f, b, t, 1);
    return f;
}

static void check_tensors(const vf_pt_value *root)
{
    static const struct { const char *name; vc_dtype type; } types[] = {
        { "rows", VC_F32 }, { "parameter", VC_F32 }, { "f8e4m3", VC_F8E4M3 },
        { "f8e5m2", VC_F8E5M2 },
        { "float64", VC_F64 }, { "float16", VC_F16 }, { "bfloat16", VC_BF16 }, { "int64", VC_I64 },
        { "int32", VC_I32 }, { "int16", VC_I16 }, { "int8", VC_I8 }, { "uint8", VC_U8 },
        { "bool", VC_BOOL },
    };
    vf_view v;
    for (size_t k = 0; k < sizeof types / sizeof *types; k++) {
        assert_int_equal(vf_pt_tensor(root, types[k].name, &v, NULL), 0);
        assert_int_equal(v.dtype, types[k].type);
        assert_true(v.nd == 3 && v.dim[0] == 2 && v.dim[1] == 3 && v.dim[2] == 4);
        for (size_t i = 0; i < 24; i++) {
            float want = v.dtype == VC_BOOL ? i > 0 : as_type((float)i, v.dtype);
            assert_true(at(&v, i) == want);
        }
    }
}

static void check_views(const vf_pt_value *root)
{
    vf_view v;
    assert_int_equal(vf_pt_tensor(root, "turned", &v, NULL), 0);            /* [4,3,2] */
    assert_true(v.dim[0] == 4 && v.dim[2] == 2);
    for (size_t i = 0; i < 24; i++)
        assert_true(at(&v, i) == (float)(i % 2 * 12 + i / 2 % 3 * 4 + i / 6));
    /* [2,2,4] from row 1 on */
    assert_int_equal(vf_pt_tensor(root, "part", &v, NULL), 0);
    for (size_t i = 0; i < 16; i++)
        assert_true(at(&v, i) == (float)(i / 8 * 12 + 4 + i % 8));
    assert_int_equal(vf_pt_tensor(root, "spread", &v, NULL), 0);            /* [3,4] of one row */
    for (size_t i = 0; i < 12; i++)
        assert_true(at(&v, i) == (float)(i % 4));
    assert_int_equal(vf_pt_tensor(root, "scalar", &v, NULL), 0);
    assert_true(v.nd == 0 && at(&v, 0) == 7);
    assert_int_equal(vf_pt_tensor(root, "none", &v, NULL), 0);
    assert_true(v.nd == 2 && v.dim[0] == 0 && v.bytes == 0);
}

static void check_scalars(const vf_pt_value *root)
{
    assert_true(vf_pt_get(root, "int")->i == 3 && vf_pt_get(root, "negative")->i == -70000);
    assert_true(vf_pt_get(root, "long")->i == (int64_t)1 << 40 &&
                vf_pt_get(root, "float")->f == 1.5);
    assert_int_equal(vf_pt_get(root, "true")->kind, VF_PT_BOOL);
    assert_int_equal(vf_pt_get(root, "nothing")->kind, VF_PT_NONE);
    const vf_pt_value *s = vf_pt_get(root, "text"), *b = vf_pt_get(root, "bytes");
    assert_true(s->kind == VF_PT_STR && s->n == 2 && !memcmp(s->s, "\xc3\xbc", 2));
    assert_true(b->kind == VF_PT_BYTES && b->n == 3 && !memcmp(b->s, "\0\xff" "a", 3));
    const vf_pt_value *l = vf_pt_get(root, "list");
    assert_true(l->kind == VF_PT_LIST && l->n == 2 && l->item[1]->kind == VF_PT_TUPLE);
    assert_true(vf_pt_get(vf_pt_get(root, "ordered"), "a")->i == 1);
    const vf_pt_value *size = vf_pt_get(root, "size");
    assert_true(size->kind == VF_PT_TUPLE && size->n == 3 && size->item[2]->i == 4);
    assert_null(vf_pt_get(root, "absent"));
}

static void test_reads_torch(void **state)
{
    static const char *const files[] = { "pt_kinds.pt", "pt_protocol5.pt", "pt_zip64.pt" };
    (void)state;
    for (int i = 0; i < 3; i++) {
        vf_pt *p = open_golden(files[i]);
        check_tensors(vf_pt_root(p));
        check_views(vf_pt_root(p));
        check_scalars(vf_pt_root(p));
        vf_pt_close(p);
    }
}

/* Objects and calls become their names, and the values beside them are read. */
static void test_builds_nothing(void **state)
{
    (void)state;
    vf_pt *p = open_golden("pt_objects.pt");
    const vf_pt_value *root = vf_pt_root(p);
    vf_view v;
    assert_int_equal(vf_pt_tensor(root, "x", &v, NULL), 0);
    assert_int_equal(vf_pt_get(root, "called")->kind, VF_PT_OPAQUE);
    assert_string_equal(vf_pt_get(root, "called")->s, "posix.getcwd");
    assert_int_equal(vf_pt_get(root, "device")->kind, VF_PT_OPAQUE);
    assert_int_equal(vf_pt_get(root, "huge")->kind, VF_PT_OPAQUE);
    assert_int_equal(vf_pt_get(root, "complex")->kind, VF_PT_OPAQUE);
    vc_err err = { 0 };
    assert_int_equal(vf_pt_tensor(root, "called", &v, &err), VC_EFORMAT);
    assert_int_equal(vf_pt_tensor(root, "absent", &v, &err), VC_ENOENT);
    char *data;
    size_t n;
    assert_int_equal(vf_pt_pack(&data, &n, root, &err), VC_EINVAL);
    assert_null(data);
    vf_pt_close(p);
}

/* ---- writing ---- */

/* The values of a file of torch are packed again: they read back the same, and a second pack has
 * the same bytes. */
static void test_writes_back(void **state)
{
    vc_err err = { 0 };
    char *a, *b;
    size_t na, nb;
    (void)state;
    vf_pt *p = open_golden("pt_kinds.pt"), *again;
    assert_int_equal(vf_pt_pack(&a, &na, vf_pt_root(p), &err), 0);
    assert_int_equal(vf_pt_parse(&again, a, na, &err), 0);
    check_tensors(vf_pt_root(again));
    check_views(vf_pt_root(again));
    check_scalars(vf_pt_root(again));
    assert_int_equal(vf_pt_pack(&b, &nb, vf_pt_root(again), &err), 0);
    assert_true(na == nb && !memcmp(a, b, na));
    vf_pt_close(again);
    vf_pt_close(p);
    free(a);
    free(b);
}

/* ---- forged pickles ---- */

#define PICKLE(s) s, sizeof s - 1
#define REBUILD "\x80\x02" "ctorch._utils\n_rebuild_tensor_v2\n"
#define FLOATS REBUILD "((U\7storagectorch\nFloatStorage\nU\1"
#define TENSOR(key, offset, size, stride) \
    FLOATS key "U\3cpuK\x18tQ" \
    "K" offset "K" size "\x85K" stride "\x85\x89}t" "R."

static const struct { const char *text; size_t n; const char *message; } forged[] = {
    { PICKLE("\x80\x02."), "missing" },
    { PICKLE("\x80\x02K\1"), "no end" },
    { PICKLE("X\xff\xff\xff\xffzz."), "cut short" },
    { PICKLE("\x8d\xff\xff\xff\xff\xff\xff\xff\xff."), "cut short" },
    { PICKLE("h\5."), "never put" },
    { PICKLE("Nr\xff\xff\xff\x7f."), "bounds" },
    { PICKLE("(t(."), "missing" },
    { PICKLE("t."), "mark" },
    { PICKLE("\x87."), "missing" },
    { PICKLE("}(K\1u."), "without value" },
    { PICKLE("K\1R."), "missing" },
    { PICKLE("cos\n."), "does not end" },
    { PICKLE("K\1Q."), "persistent" },
    { PICKLE("\xff."), "opcode 0xff" },
    { PICKLE("I12\n."), "opcode" },
    { PICKLE(TENSOR("1", "\0", "\1", "\1")), "data/1" },
    { PICKLE(TENSOR("0", "\0", "\x19", "\1")), "storage of 24" },
    { PICKLE(TENSOR("0", "\x18", "\1", "\1")), "storage of 24" },
    { PICKLE(TENSOR("0", "\0", "\3", "\x0c")), "storage of 24" },
    { PICKLE(FLOATS "0U\3cpuK\x18tQ"
             "K\0\x8a\x08\0\0\0\0\0\0\0\x7f\x8a\x08\0\0\0\0\0\0\0\x7f\x86K\0K\0\x86\x89}tR."),
             "impossible" },
    { PICKLE(FLOATS "0U\3cpuK\x18tQ"
             "K\0J\0\0\0\x40\x85K\0\x85\x89}tR."), "larger than the file" },
    { PICKLE(REBUILD "(NK\0K\1\x85K\1\x85\x89}tR."),
      "storage" },
    { PICKLE(FLOATS "0U\3cpuK\x18tQ"
             "J\xff\xff\xff\xffK\1\x85K\1\x85\x89}tR."), "offset" },
};

static void test_forged(void **state)
{
    static const uint8_t storage[96];
    (void)state;
    for (size_t i = 0; i < sizeof forged / sizeof *forged; i++) {
        vc_err err = { 0 };
        vf_pt *p = calloc(1, sizeof *p);
        p->member = calloc(1, sizeof *p->member);
        p->n_members = 1;
        *p->member = (vf_pt_member){ strdup("data/0"), storage, 96 };
        p->may_pack = 1 << 20;
        int rc = vf_pt_unpickle(p, (const uint8_t *)forged[i].text, forged[i].n, &err);
        if (rc != VC_EFORMAT || !strstr(err.text, forged[i].message))
            fail_msg("%zu: %d \"%s\", \"%s\" expected", i, rc, err.text, forged[i].message);
        vf_pt_close(p);
    }
}

/* A list that contains itself can be read, but not written. */
static void test_cycles(void **state)
{
    static const uint8_t text[] = "]q\0h\0ah\0h\0\x86.";
    (void)state;
    vc_err err = { 0 };
    vf_pt *p = calloc(1, sizeof *p);
    assert_int_equal(vf_pt_unpickle(p, text, sizeof text - 1, &err), 0);
    assert_ptr_equal(p->root->item[0]->item[0], p->root->item[0]);
    char *data;
    size_t n;
    assert_int_equal(vf_pt_pack(&data, &n, p->root, &err), VC_EINVAL);
    vf_pt_close(p);
}

static void test_no_zip(void **state)
{
    (void)state;
    vc_err err = { 0 };
    vf_pt *p;
    assert_fails(vf_pt_parse(&p, "\x80\x02}.", 4, &err), VC_EFORMAT, &err, "1.6");
    assert_int_equal(vf_pt_parse(&p, "PK\3\4", 4, &err), VC_EFORMAT);
    assert_int_equal(vf_pt_open(&p, "/tmp/no/such.pt", &err), VC_ENOENT);
}

/* ---- damage ---- */

/* One bit of a tensor changes. A file of weights is opened without reading its tensors. */
static void test_checksum(void **state)
{
    char *from = vc_format("%s/tests/golden/pt_kinds.pt", getenv("VLT_SOURCE")), *data;
    char *path = vc_path_join(*state, "damaged.pt");
    vc_err err = { 0 };
    vf_pt *p = open_golden("pt_kinds.pt");
    size_t n, at = (size_t)(vf_pt_find(p, "data/0")->data - p->map.data);
    vf_pt_close(p);
    assert_ok(vc_file_read(&data, &n, from, 1 << 20, &err), &err);
    data[at] ^= 1;
    assert_ok(vc_file_write(path, data, n, &err), &err);
    assert_fails(vf_pt_open(&p, path, &err), VC_EFORMAT, &err, "data/0: its checksum differs");
    assert_fails(vf_pt_parse(&p, data, n, &err), VC_EFORMAT, &err, "checksum");
    assert_ok(vf_pt_open_weights(&p, path, &err), &err);
    vf_pt_release(p);
    check_scalars(vf_pt_root(p));
    vf_pt_close(p);
    free(data);
    free(path);
    free(from);
}

static void test_damaged(void **state)
{
    char *path = vc_format("%s/tests/golden/pt_kinds.pt", getenv("VLT_SOURCE"));
    vc_map m;
    (void)state;
    assert_int_equal(vc_map_open(&m, path, NULL), 0);
    mutate_run(m.data, m.size, 1, 600, LLVMFuzzerTestOneInput);
    vf_pt *p = open_golden("pt_kinds.pt");
    const vf_pt_member *pickle = vf_pt_find(p, "data.pkl");
    mutate_run(pickle->data, pickle->size, 2, 6000, LLVMFuzzerTestOneInput);
    for (size_t n = 0; n < pickle->size; n += 7)                     /* cut short */
        LLVMFuzzerTestOneInput(pickle->data, n);
    for (size_t i = 0; i < sizeof forged / sizeof *forged; i++)
        mutate_run(forged[i].text, forged[i].n, 3, 100, LLVMFuzzerTestOneInput);
    vf_pt_close(p);
    vc_map_close(&m);
    free(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reads_torch), cmocka_unit_test(test_builds_nothing),
        cmocka_unit_test(test_writes_back), cmocka_unit_test(test_forged),
        cmocka_unit_test(test_cycles), cmocka_unit_test(test_no_zip),
        cmocka_unit_test_setup_teardown(test_checksum, tmp_dir_setup, tmp_dir_teardown),
        cmocka_unit_test(test_damaged),
    };
    return cmocka_run_group_tests_name("pt", tests, NULL, NULL);
}
