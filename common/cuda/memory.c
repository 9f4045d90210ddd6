/* memory.c - the pool's range, parameters, scratch; see device.h */
#include <string.h>

#include "common/cuda/device.h"

static const size_t CHUNK = 64 << 20;          /* the pool grows by multiples of this */
static const size_t SPARE = (size_t)1 << 30;   /* reserved for libraries, graphs, the driver */

static size_t round_up(size_t n, size_t to) { return (n + to - 1) / to * to; }

/* ---- open and close ---- */

static int look_up(const char *name, void *fn, vc_err *err)
{
    enum cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
    void *p = NULL;

#if CUDART_VERSION >= 12050
    cudaError_t rc = cudaGetDriverEntryPointByVersion(name, &p, 12000, cudaEnableDefault, &found);
#else
    cudaError_t rc = cudaGetDriverEntryPoint(name, &p, cudaEnableDefault, &found);
#endif
    if (rc != cudaSuccess || found != cudaDriverEntryPointSuccess || !p)
        return vc_fail(err, VC_EINVAL, "cuda: the driver has no %s: install a newer driver", name);
    memcpy(fn, &p, sizeof p);
    return 0;
}

static int open_driver(cuda_driver *v, vc_err *err)
{
    const struct { const char *name; void *fn; } calls[] = {
        { "cuMemGetAllocationGranularity", &v->granularity },
        { "cuMemAddressReserve", &v->reserve }, { "cuMemAddressFree", &v->give_back },
        { "cuMemCreate", &v->create },          { "cuMemRelease", &v->release },
        { "cuMemMap", &v->map },                { "cuMemUnmap", &v->unmap },
        { "cuMemSetAccess", &v->access },       { "cuDeviceGet", &v->device },
        { "cuDevicePrimaryCtxGetState", &v->in_use },
    };
    int rc = 0;

    for (size_t i = 0; i < sizeof calls / sizeof *calls && !rc; i++)
        rc = look_up(calls[i].name, calls[i].fn, err);
    return rc;
}

/* The entries of the backend call CUDA for the thread's current GPU, so a process uses one. Refuses
 * to open a GPU while the process uses another. */
static int check_alone(const cuda_runtime *r, vc_err *err)
{
    int count = 0;

    cudaGetDeviceCount(&count);
    for (int i = 0; i < count; i++) {
        CUdevice other;
        unsigned flags;
        int active = 0;
        if (i == r->index || r->driver.device(&other, i) ||
            r->driver.in_use(other, &flags, &active) || !active)
            continue;
        return vc_fail(err, VC_EINVAL, "cuda:%d: this process uses cuda:%d already, and a process "
                       "uses one GPU; start a rank for each GPU (mpirun)", r->index, i);
    }
    return 0;
}

int cuda_memory_open(vt_dev *d, vc_err *err)
{
    cuda_runtime *r = d->runtime;
    int rc = open_driver(&r->driver, err);

    if (!rc)
        rc = check_alone(r, err);
    if (rc)
        return rc;
    cudaError_t e = cudaMalloc((void **)&d->bad_id, sizeof *d->bad_id);
    if (!e)
        e = cudaMemset(d->bad_id, 0xff, sizeof *d->bad_id);
    return e ? vc_fail(err, VC_ENOMEM, "cuda: %s", cudaGetErrorString(e)) : 0;
}

void cuda_memory_close(vt_dev *d)
{
    cuda_runtime *r = d->runtime;

    for (int i = 0; i < CUDA_AREAS; i++)
        cudaFree(d->area[i]);
    cudaFree(d->bad_id);
    if (r->mapped)
        r->driver.unmap(r->range, r->mapped);
    if (r->range)
        r->driver.give_back(r->range, r->range_bytes);
}

/* ---- the pool ---- */

static CUmemAllocationProp on_device(const cuda_runtime *r)
{
    return (CUmemAllocationProp){ .type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                  .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE,
                                                .id = r->index } };
}

int cuda_reserve(vt_dev *d, void **range, size_t *bytes, vc_err *err)
{
    cuda_runtime *r = d->runtime;
    CUmemAllocationProp prop = on_device(r);
    size_t n = *bytes ? *bytes : r->about.totalGlobalMem;

    *range = NULL;
    CUresult rc = r->driver.granularity(&r->granule, &prop, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED);
    if (!rc) {
        r->granule = round_up(CHUNK, r->granule);
        n = round_up(n, r->granule);
        rc = r->driver.reserve(&r->range, n, 0, 0, 0);
    }
    if (rc)
        return vc_fail(err, VC_ENOMEM, "cuda: no range of %zu bytes for the pool: driver error %d",
                       n, (int)rc);
    r->range_bytes = n;
    *range = (void *)(uintptr_t)r->range;
    if (!*bytes || *bytes > n)
        *bytes = n;
    return 0;
}

/* Maps n more bytes of memory at the end of the mapped range. */
static CUresult map_more(cuda_runtime *r, size_t n)
{
    CUmemAllocationProp prop = on_device(r);
    CUmemAccessDesc access = { .location = prop.location,
                               .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE };
    CUmemGenericAllocationHandle memory;
    CUdeviceptr at = r->range + r->mapped;

    CUresult rc = r->driver.create(&memory, n, &prop, 0);
    if (rc)
        return rc;
    rc = r->driver.map(at, n, 0, memory, 0);
    r->driver.release(memory);                 /* the mapping keeps the memory alive */
    if (rc)
        return rc;
    rc = r->driver.access(at, n, &access, 1);
    if (rc)
        r->driver.unmap(at, n);
    else
        r->mapped += n;
    return rc;
}

size_t cuda_room(vt_dev *d)
{
    size_t left = 0, all = 0;

    cudaMemGetInfo(&left, &all);
    left += d->runtime->mapped;
    for (int i = 0; i < CUDA_AREAS; i++)
        left += d->area_bytes[i];
    return left > SPARE ? left - SPARE : 1;
}

int cuda_grow(vt_dev *d, size_t bytes, vc_err *err)
{
    cuda_runtime *r = d->runtime;
    size_t left = 0, all = 0;

    if (bytes <= r->mapped)
        return 0;
    size_t n = round_up(bytes - r->mapped, r->granule);
    cudaMemGetInfo(&left, &all);
    if (r->mapped + n <= r->range_bytes && n + SPARE <= left && map_more(r, n) == CUDA_SUCCESS)
        return 0;
    return vc_fail(err, VC_ENOMEM, "the step needs %zu MiB of GPU memory, the pool has %zu MiB and "
                   "%zu MiB are free", bytes >> 20, r->mapped >> 20, left >> 20);
}

void cuda_shrink(vt_dev *d)
{
    cuda_runtime *r = d->runtime;

    if (r->mapped && r->driver.unmap(r->range, r->mapped))
        cuda_fault(d, VC_EFAIL, "the pool's memory cannot be given back");
    else
        r->mapped = 0;
}

/* ---- parameters, scratch ---- */

void *cuda_alloc(vt_dev *d, size_t bytes)
{
    void *p = NULL;

    if (cudaMalloc(&p, bytes ? bytes : 1)) {
        cudaGetLastError();                    /* clears the error, which the caller reports */
        return NULL;
    }
    cuda_ok(d, (int)cudaMemsetAsync(p, 0, bytes, d->stream), "alloc");
    return p;
}

void cuda_free(vt_dev *d, void *p, size_t bytes)
{
    (void)d, (void)bytes;
    cudaFree(p);                               /* waits for the kernels that use p */
}

static size_t scratch_size(size_t bytes) { return round_up(bytes, (size_t)2 << 20); }

/* Returns the scratch of all areas: for each the bytes allocated or, if larger, those that kernels
 * have asked for since the dry step began. */
size_t cuda_dry(vt_dev *d, bool dry)
{
    size_t sum = 0;

    for (int i = 0; i < CUDA_AREAS; i++) {
        if (!dry || !d->dry)
            d->area_need[i] = 0;
        sum += d->area_need[i] > d->area_bytes[i] ? d->area_need[i] : d->area_bytes[i];
    }
    d->dry = dry;
    return sum;
}

void *cuda_scratch(vt_dev *d, cuda_area area, size_t bytes)
{
    if (d->dry) {
        if (scratch_size(bytes) > d->area_need[area])
            d->area_need[area] = scratch_size(bytes);
        return NULL;
    }
    if (d->area_bytes[area] >= bytes && d->area[area])
        return d->area[area];
    if (cuda_in_capture(d, "scratch that grows"))
        return NULL;
    d->moves++;
    cudaFree(d->area[area]);
    d->area[area] = NULL;
    d->area_bytes[area] = 0;
    bytes = scratch_size(bytes);
    cudaError_t rc = cudaMalloc(&d->area[area], bytes);
    if (rc) {
        cudaGetLastError();
        d->area[area] = NULL;
        cuda_fault(d, VC_ENOMEM, "no memory for %zu MiB of scratch: %s", bytes >> 20,
                   cudaGetErrorString(rc));
        return NULL;
    }
    d->area_bytes[area] = bytes;
    return d->area[area];
}
