/* test_ptx.c - the kernels of common/cuda/kernels.cu as nvcc compiled them, run by an interpreter
 * (ptx.h) and compared with their bodies as gcc compiled them: what no other test without a GPU
 * reaches is the code of shuffles, barriers and 16-byte accesses. Each row (ptx_rows.c) runs
 * entries of the CUDA backend three times on the same operands: with the bodies, with the
 * interpreter, and with the interpreter in the reverse order of warps and blocks, which must give
 * the same bits. A kernel that no row runs fails the test, and so does a 16-byte access that no row
 * reaches.
 *
 * The argument is a file that nvcc made of kernels.cu (--ptx); without one the test is skipped. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/device/device_host.h"
#include "tests/device/ptx.h"
#include "tests/device/ptx_rows.h"
#include "tests/lib/ok.h"

static ptx *kernels;
static vt_dev *host;
static bool backwards;
static vc_err fault;

static int interpret(const char *name, const void *args, size_t bytes, uint64_t blocks)
{
    return ptx_run(kernels, name, args, bytes, 0, blocks, backwards, &fault);
}

/* ---- rows ---- */

/* What is wrong with a row, "" if nothing is. */
typedef struct verdict {
    char text[400];
} verdict;

#define WRONG(v, ...) snprintf((v)->text, sizeof (v)->text, __VA_ARGS__)

static void drop(set *s)
{
    for (int i = 0; i < s->n; i++)
        free(s->x[i].all);
    s->n = 0;
}

/* Compares tensor `number` with the bytes around it; tol is relative to the largest value. */
static void compare(verdict *v, int number, const own_tensor *have,
                    const own_tensor *want, double tol)
{
    size_t size = vc_dtype_size(want->t.dtype), n = want->bytes / size;
    double most = 1e-30;
    float a, b;

    if (memcmp(have->all, want->all, have->offset) ||
        memcmp(have->all + have->offset + have->bytes, want->all + want->offset + want->bytes,
               MARGIN)) {
        WRONG(v, "a kernel writes outside of tensor %d", number);
        return;
    }
    if (!memcmp(have->t.data, want->t.data, want->bytes))
        return;
    if (want->t.dtype > VC_F8E5M2)
        WRONG(v, "tensor %d has other bytes", number);
    for (int pass = 0; pass < 2 && !*v->text; pass++)
        for (size_t i = 0; i < n; i++) {
            vc_to_f32(&a, (const char *)have->t.data + i * size, want->t.dtype, 1);
            vc_to_f32(&b, (const char *)want->t.data + i * size, want->t.dtype, 1);
            double difference = fabs((double)a - (double)b);
            if (isnan(b) || isinf(b))
                difference = (isnan(a) && isnan(b)) || a == b ? 0 : INFINITY;
            else if (pass == 0 && fabs((double)b) > most)
                most = fabs((double)b);
            if (pass == 1 && !(difference <= tol * most)) {
                WRONG(v, "element %zu of tensor %d is %.9g, should be %.9g", i, number, (double)a,
                      (double)b);
                return;
            }
        }
}

static void run_row(const row *r, int variant, set *s, bool interpreted, bool back, verdict *v)
{
    vc_err err = { 0 };

    host_interpret = interpreted ? interpret : NULL;
    backwards = back;
    fault = (vc_err){ 0 };
    r->run(host, s, variant);
    host_interpret = NULL;
    if (host_backend.status(host, &err) && !*v->text)
        WRONG(v, "%.100s; %.250s", err.text, fault.text);
}

static verdict check(const row *r, int variant)
{
    set s[3] = { 0 };
    verdict v = { "" };

    for (int k = 0; k < 3; k++)
        run_row(r, variant, &s[k], k > 0, k == 2, &v);
    for (int i = 0; i < s->n && !*v.text; i++) {
        compare(&v, i, &s[1].x[i], &s[0].x[i], s->x[i].t.dtype == VC_F32 ? r->tol : r->tol_bf16);
        if (!*v.text && memcmp(s[2].x[i].t.data, s[1].x[i].t.data, s->x[i].bytes))
            WRONG(&v, "tensor %d depends on the order of warps or blocks", i);
    }
    for (int k = 0; k < 3; k++)
        drop(&s[k]);
    return v;
}

/* ---- tests ---- */

static void test_rows(void **state)
{
    const char *only = getenv("VLT_PTX_ROW");

    (void)state;
    for (const row *r = ptx_rows; r->name; r++)
        for (int k = 0; k < r->variants && (!only || !strcmp(only, r->name)); k++) {
            verdict v = check(r, k);
            if (*v.text)
                fail_msg("%s, variant %d: %s", r->name, k, v.text);
        }
}

/* Every kernel of the file was run, and every access of 16 bytes to memory in its code. */
static void test_coverage(void **state)
{
    int missing = 0;

    (void)state;
    for (int i = 0; i < ptx_kernels(kernels); i++) {
        ptx_kernel k = ptx_kernel_at(kernels, i);
        if (!k.runs)
            printf("no row runs the kernel vk_%s\n", k.name);
        else if (k.wide_run < k.wide)
            printf("vk_%s: no row reaches %d of %d accesses of 16 bytes: line %d\n", k.name,
                   k.wide - k.wide_run, k.wide, k.wide_line);
        missing += !k.runs || k.wide_run < k.wide;
    }
    assert_int_equal(missing, 0);
}

/* ---- damaged kernels ---- */

/* Faults that only a GPU would have: in a kernel's code, `find` is replaced by `by`. "#" in `find`
 * stands for a register, which "#" in `by` repeats. */
static const struct mutant {
    const char *kernel, *find, *by, *row;
} mutants[] = {
    /* a shuffle from the wrong lane, a barrier less, a store and a load 16 bytes off, a pack of
     * which one half is wrong, a comparison that takes one element more */
    { "norm", "shfl.sync.bfly.b32 \t#, #, #,", "shfl.sync.bfly.b32 \t#, #, 3,", "ragged norms" },
    { "norm_whole", "shfl.sync.bfly.b32 \t#, #, #,", "shfl.sync.bfly.b32 \t#, #, 3,", "norms" },
    { "norm_whole", "bar.sync \t0;", "", "norms" },
    { "norm_dx_whole", "shfl.sync.bfly.b32 \t#, #, #,", "shfl.sync.bfly.b32 \t#, #, 3,", "norms" },
    { "map_ADD", "st.global.v4.u32 \t[#],", "st.global.v4.u32 \t[#+16],", "maps" },
    { "map_ADD", "st.global.v4.u32 \t[#],", "st.global.v4.u32 \t[#+8],", "maps" },
    { "rope", "ld.global.v4.u32 \t{#, #, #, #}", "ld.global.v4.u32 \t{#, #, #, %r1}", "rope" },
};

/* Matches find at s; *end becomes the end of the match, reg[] the starts of its registers. */
static bool match(const char *s, const char *find, const char **end, const char *reg[8])
{
    int n = 0;

    for (; *find; find++)
        if (*find == '#') {
            reg[n++] = s;
            s += strcspn(s, ",]};");
        } else if (*s++ != *find) {
            return false;
        }
    *end = s;
    return true;
}

/* Returns the file's text with the mutant's fault at the first place of its kernel, or NULL. */
static char *mutate(const char *text, const struct mutant *x)
{
    const char *reg[8], *end, *at, *from;
    char name[80], *to = malloc(strlen(text) + 200);
    size_t n = 0;
    int regs = 0;

    snprintf(name, sizeof name, "vk_%s_kernel", x->kernel);
    for (at = text; (at = strstr(at, ".entry ")); at++)
        if ((from = strstr(at, name)) && from < strchr(at, '('))
            break;
    const char *last = at ? strstr(at, "\n}") : NULL;
    while (at && at < last && !match(at, x->find, &end, reg))
        at++;
    if (!at || at >= last) {
        free(to);
        return NULL;
    }
    memcpy(to, text, n = (size_t)(at - text));
    for (const char *by = x->by; *by; by++)
        if (*by == '#') {
            size_t k = strcspn(reg[regs], ",]};");
            memcpy(to + n, reg[regs++], k);
            n += k;
        } else {
            to[n++] = *by;
        }
    strcpy(to + n, end);
    return to;
}

static char *text_of(const char *path)
{
    FILE *f = fopen(path, "rb");
    size_t n = 0, room = 1 << 24;
    char *text = malloc(room + 1);

    assert_non_null(f);
    n = fread(text, 1, room, f);
    assert_true(n < room);
    fclose(f);
    text[n] = 0;
    return text;
}

/* Each damaged kernel fails its row. */
static void test_mutants(void **state)
{
    char *text = text_of(*state);
    ptx *whole = kernels;

    for (size_t i = 0; i < sizeof mutants / sizeof *mutants; i++) {
        const struct mutant *x = &mutants[i];
        char *damaged = mutate(text, x);
        vc_err err = { 0 };
        if (!damaged)
            fail_msg("%s has no \"%s\"", x->kernel, x->find);
        kernels = ptx_read(damaged, "damaged", &err);
        if (!kernels)
            fail_msg("%s", err.text);
        const row *r = ptx_rows;
        while (strcmp(r->name, x->row))
            r++;
        verdict v = { "" };
        for (int k = 0; k < r->variants && !*v.text; k++)
            v = check(r, k);
        printf("vk_%s without \"%s\": %s\n", x->kernel, x->find, v.text);
        ptx_close(kernels);
        kernels = whole;
        free(damaged);
        if (!*v.text)
            fail_msg("%s do not see the damaged vk_%s", x->row, x->kernel);
    }
    free(text);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_coverage),
        cmocka_unit_test_prestate(test_mutants, argc > 1 ? argv[1] : NULL),
    };
    vt_options o = { .threads = 1, .kernels = "plain", .compute = VC_F32 };
    vc_err err = { 0 };

    if (argc < 2) {
        printf("SKIPPED: no nvcc was found, which compiles the kernels for this test\n");
        return 77;
    }
    kernels = ptx_open(argv[1], &err);
    if (!kernels || host_backend.open(&host, &o, 0, &err)) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    int rc = cmocka_run_group_tests(tests, NULL, NULL);
    host_backend.close(host);
    ptx_close(kernels);
    return rc;
}
