/* cpu.c - the CPU device: memory, threads, and the backend table. See cpu.h */
#include "common/cpu/cpu.h"

#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#include "common/cpu/loops.h"
#include "common/os/limits.h"
#include "common/os/map.h"
#include "common/os/threads.h"

enum { ALIGN = 64, HUGE = 2 << 20, LARGE = 1 << 20 };   /* bytes */

static size_t round_up(size_t n, size_t to) { return (n + to - 1) / to * to; }

/* ---- open and close ---- */

int cpu_ready_team(int threads)
{
    int team = 1;

    #pragma omp parallel num_threads(threads)
    {
#if defined(__x86_64__)
        enum { FTZ = 0x8000, DAZ = 0x0040 };
        _mm_setcsr(_mm_getcsr() | FTZ | DAZ);
#endif
        vc_signal_stack();
        #pragma omp single
        team = omp_get_num_threads();
    }
    return team;
}

/* Sets d->threads to the number that OpenMP grants; if that is less than asked for, `note` gets
 * the reason. */
static int open_threads(vt_dev *d, int asked, char note[], size_t size, vc_err *err)
{
    enum { MOST = 4096 };
    bool said = !asked && getenv("OMP_NUM_THREADS");

    if (asked < 0 || asked > MOST)
        return vc_fail(err, VC_EINVAL, "%d threads: 0 (all) to %d are possible", asked, MOST);
    const int there = omp_get_num_procs(), may = vc_within_quota(there);
    int want = asked ? asked : said ? omp_get_max_threads() : may;
    want = want < MOST ? want : MOST;
    int team = cpu_team(want), rc = vc_can_thread(team, err);
    if (rc)
        return rc;
    d->threads = cpu_ready_team(team);
    if (d->threads < want)
        snprintf(note, size, " of %d (%s)", want,
                 d->threads < team ? "OpenMP grants no more"
                 : omp_in_parallel() ? "inside a parallel region" : "OMP_THREAD_LIMIT");
    else if (may < there)
        snprintf(note, size, " (the control group has time of %d of %d processors)", may, there);
    else if (want > there)
        snprintf(note, size, " on %d processor%s", there, there == 1 ? "" : "s");
    return 0;
}

static void cpu_close(vt_dev *d)
{
    if (!d)
        return;
    cpu_dnnl_close(d->dnnl);
    for (int t = 0; d->scratch && t < cpu_areas(d); t++)
        free(d->scratch[t]);
    free(d->scratch);
    free(d->scratch_bytes);
    free(d->scratch_need);
    if (d->range)
        munmap(d->range, d->range_bytes);
    free(d);
}

static int set_up(vt_dev *d, const vt_options *o, vc_err *err)
{
    char note[96] = "";
    int rc = cpu_isa_open(&d->isa, o->kernels, err);

    if (rc || (rc = open_threads(d, o->threads, note, sizeof note, err)))
        return rc;
    d->rows = cpu_rows_for(&d->isa);
    /* With AVX2 our products take 1.06 times as long as oneDNN's, and a batch saves 13 to 20 % of
     * their time; with AVX-512 they take up to 1.24 times as long. */
    d->own_products = o->batches && d->isa.avx2 && !d->isa.avx512;
    d->int8_products = o->int8_activations;
    d->scratch = calloc((size_t)cpu_areas(d), sizeof *d->scratch);
    d->scratch_bytes = calloc((size_t)cpu_areas(d), sizeof *d->scratch_bytes);
    d->scratch_need = calloc((size_t)cpu_areas(d), sizeof *d->scratch_need);
    if (!d->scratch || !d->scratch_bytes || !d->scratch_need)
        return vc_fail(err, VC_ENOMEM, "cpu: out of memory");
    if ((rc = cpu_dnnl_open(&d->dnnl, d, err)))
        return rc;
    snprintf(d->describe, sizeof d->describe, "%s, %s%s%d thread%s%s", d->isa.set,
             d->dnnl ? cpu_dnnl_version(d->dnnl) : "", d->dnnl ? ", " : "", d->threads,
             d->threads == 1 ? "" : "s", note);
    return 0;
}

static int cpu_open(vt_dev **out, const vt_options *o, int index, vc_err *err)
{
    *out = NULL;
    if (index)
        return vc_fail(err, VC_EINVAL, "device \"cpu:%d\": there is one CPU device", index);
    vt_dev *d = calloc(1, sizeof *d);
    if (!d)
        return vc_fail(err, VC_ENOMEM, "cpu: out of memory");
    int rc = set_up(d, o, err);
    if (rc) {
        cpu_close(d);
        return rc;
    }
    *out = d;
    return 0;
}

static const char *cpu_describe(vt_dev *d) { return d->describe; }
static int cpu_threads(const vt_dev *d) { return cpu_team(d->threads); }

static int cpu_status(vt_dev *d, vc_err *err)
{
    int rc = d->fault;

    if (rc)
        vc_fail(err, rc, "cpu: %s", d->fault_text);
    d->fault = 0;
    return rc;
}

/* ---- memory ---- */

/* The bytes that a limit leaves a process that has `pages` of its kind. */
static size_t below_limit(const struct rlimit *r, unsigned long long pages)
{
    unsigned long long used = pages * (unsigned long long)sysconf(_SC_PAGESIZE);

    if (r->rlim_cur == RLIM_INFINITY)
        return SIZE_MAX;
    return r->rlim_cur > used ? (size_t)(r->rlim_cur - used) : 0;
}

/* Bytes that the limits of this process leave it (ulimit -v and -d, which a scheduler sets for
 * h_vmem), or SIZE_MAX. */
static size_t limits_leave(void)
{
    unsigned long long all = 0, data = 0;
    struct rlimit space = { RLIM_INFINITY, RLIM_INFINITY }, private = space;
    FILE *f = fopen("/proc/self/statm", "re");

    if (f && fscanf(f, "%llu %*u %*u %*u %*u %llu", &all, &data) < 2)
        all = data = 0;
    if (f)
        fclose(f);
    getrlimit(RLIMIT_AS, &space);
    getrlimit(RLIMIT_DATA, &private);
    size_t a = below_limit(&space, all), b = below_limit(&private, data);
    return a < b ? a : b;
}

/* The bytes of a pool without a given size. A limit of the process counts reserved memory too: half
 * is left for weights, mapped files and stacks. */
static size_t pool_size(size_t page)
{
    size_t n = (size_t)sysconf(_SC_PHYS_PAGES) * page;
    size_t group = (size_t)vc_limits_read("").memory, half = limits_leave() / 2;

    n = group < n ? group : n;
    return half < n ? half : n;
}

/* Reserves address space only: pages are allocated when they are written, and kept for the next
 * step. */
static int cpu_reserve(vt_dev *d, void **range, size_t *bytes, vc_err *err)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), n = *bytes ? *bytes : pool_size(page);

    n = round_up(n < page ? page : n, page);
    void *p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1,
                   0);
    if (p == MAP_FAILED)
        return vc_fail_errno(err, "cpu: a pool of %zu bytes", n);
    madvise(p, n, MADV_HUGEPAGE);              /* for fewer page faults; a failure is harmless */
    d->range = *range = p;
    d->range_bytes = n;
    if (!*bytes || *bytes > n)
        *bytes = n;
    return 0;
}

/* A huge page that begins below the peak and ends above it would be written whole. */
static void cpu_expect(vt_dev *d, size_t bytes)
{
    const size_t low = (uintptr_t)d->range % HUGE, page = (size_t)sysconf(_SC_PAGESIZE);
    size_t whole = (low + bytes) / HUGE * HUGE;

    whole = whole > low ? whole - low : 0;
    if (whole >= d->range_bytes)
        return;
    madvise(d->range, round_up(whole, page), MADV_HUGEPAGE);
    madvise((char *)d->range + round_up(whole, page), d->range_bytes - round_up(whole, page),
            MADV_NOHUGEPAGE);
}

/* Maps a large area as zero pages, which are allocated by the threads that first write them, and as
 * huge pages where the area covers them: the map is HUGE bytes too long and is then trimmed to an
 * aligned start. */
static void *alloc_pages(size_t bytes)
{
    size_t all = round_up(bytes, 4096) + HUGE;
    char *p = mmap(NULL, all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (p == MAP_FAILED)
        return NULL;
    char *start = (char *)round_up((uintptr_t)p, HUGE), *end = start + round_up(bytes, 4096);
    if (start > p)
        munmap(p, (size_t)(start - p));
    if (p + all > end)
        munmap(end, (size_t)(p + all - end));
    madvise(start, (size_t)(end - start), MADV_HUGEPAGE);
    return start;
}

static void *cpu_alloc(vt_dev *d, size_t bytes)
{
    if (bytes >= LARGE)
        return alloc_pages(bytes);
    void *p = aligned_alloc(ALIGN, round_up(bytes, ALIGN));
    if (!p)
        return NULL;
    d->on_heap += round_up(bytes, ALIGN);
    return memset(p, 0, bytes);
}

static size_t cpu_on_heap(const vt_dev *d) { return d->on_heap; }

static void cpu_free(vt_dev *d, void *p, size_t bytes)
{
    if (p && bytes >= LARGE) {
        munmap(p, round_up(bytes, 4096));
    } else if (p) {
        d->on_heap -= round_up(bytes, ALIGN);
        free(p);
    }
}

static void cpu_move(vt_dev *d, void *dst, const void *src, size_t bytes)
{
    (void)d;
    if (bytes)
        memcpy(dst, src, bytes);
}

/* ---- products, with GELU or a bias gradient ---- */

void cpu_matmul(vt_dev *d, vt_tensor *c, const vt_tensor *a, bool ta, const vt_tensor *b, bool tb,
                const vt_tensor *bias, float alpha, float beta)
{
    if (!cpu_matmul_int8(d, c, a, ta, b, tb, bias, alpha, beta))
        cpu_product(d, c, a, ta, b, tb, bias, alpha, beta);
}

/* GELU is not fused: one more pass over the result costs little beside thousands of products per
 * element, and f32 products could not use oneDNN with a fused GELU. */
void cpu_matmul_gelu(vt_dev *d, vt_tensor *y, vt_tensor *pre, const vt_tensor *a,
                     const vt_tensor *b, bool tb, const vt_tensor *bias, float alpha, float beta)
{
    if (d->dry)
        cpu_matmul(d, y, a, false, b, tb, bias, alpha, beta);
    else
        vt_gelu_after(&vt_cpu, d, y, pre, a, b, tb, bias, alpha, beta);
}

void cpu_matmul_gelu_grad(vt_dev *d, vt_tensor *dx, const vt_tensor *a, const vt_tensor *b, bool tb,
                          const vt_tensor *pre, float alpha, float beta)
{
    if (d->dry)
        cpu_matmul(d, dx, a, false, b, tb, NULL, alpha, beta);
    else
        vt_gelu_grad_after(&vt_cpu, d, dx, a, b, tb, pre, alpha, beta);
}

void cpu_matmul_bias_grad(vt_dev *d, vt_tensor *dw, vt_tensor *db, const vt_tensor *dy,
                          const vt_tensor *x, float beta)
{
    if (d->dry)
        cpu_matmul(d, dw, dy, true, x, false, NULL, 1.0f, beta);
    else
        vt_bias_grad_after(&vt_cpu, d, dw, db, dy, x, beta);
}

/* ---- the table ---- */

const vt_backend vt_cpu = {
    .name = "cpu",
    .open = cpu_open,
    .close = cpu_close,
    .describe = cpu_describe,
    .threads = cpu_threads,
    .batch_keeps_bits = cpu_batch_keeps_bits,
    .status = cpu_status,
    .reserve = cpu_reserve,
    .expect = cpu_expect,
    .alloc = cpu_alloc,
    .free = cpu_free,
    .on_heap = cpu_on_heap,
    .host_memory = true,
    .upload = cpu_move,
    .download = cpu_move,
    .dry = cpu_dry,
#define VT_KERNEL(result, name, args) .name = cpu_##name,
#include "common/tensor/kernel_list.h"
};
