/* bench_dataset.c - times writing, opening and reading of a large dataset.
 *
 *     bench_dataset FOLDER [SAMPLES [LATENT_KIB [SHARD_MIB]]]
 *                                 (by default 1000000 samples, tiny latents, shards of 4096 MiB)
 *
 * Random reads of large latents are compared with memcpy, and are timed from the disk too. The
 * program makes FOLDER and keeps this folder. */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/rng.h"
#include "common/os/file.h"
#include "common/os/progress.h"
#include "tests/lib/heap.h"
#include "tests/lib/shards_make.h"

enum { LATENTS = 64 };                       /* number of different latents; all keys differ */

static int fill(vf_writer *w, uint32_t n, size_t kib, vc_err *err)
{
    int h = kib ? (int)kib : 1, wide = kib ? 256 : 1, rc = 0;
    vf_view view = { "mean", VC_U8, 4, { 4, 1, h, wide }, NULL, 4 * (size_t)h * (size_t)wide };
    uint8_t *data = malloc(view.bytes), *st = NULL;
    size_t size = 0;
    memset(data, 7, view.bytes);
    view.data = data;
    for (uint32_t i = 0; i < n && !rc; i++) {
        if (i % (n / LATENTS + 1) == 0) {
            free(st);
            data[0] = (uint8_t)i;
            rc = vf_safetensors_pack(&st, &size, &view, 1, NULL, 0, 1, err);
        }
        if (!rc)
            rc = vf_writer_put_latent(w, make_latent_key(i, 1, h, wide), st, size, err);
        if (!rc)
            rc = make_sample(w, i, "a caption of the usual length, say, or a little longer", 1, h,
                             wide, err);
    }
    free(data);
    free(st);
    return rc;
}

static int write_dataset(const char *dir, uint32_t n, size_t kib, size_t mib, vc_err *err)
{
    cJSON *head = make_head(0);
    vf_writer_opts o = { .head = head, .shard_size = (int64_t)mib << 20, .overwrite = true };
    vf_writer *w;
    double t = vc_seconds();
    int rc = vf_writer_open(&w, dir, &o, err);
    if (!rc)
        rc = fill(w, n, kib, err);
    if (!rc)
        rc = vf_writer_finish(w, err);
    vf_writer_close(w);
    cJSON_Delete(head);
    printf("write          %8.2f s  %u samples\n", vc_seconds() - t, n);
    return rc;
}

/* Returns the rate of memcpy in GB/s: random pieces of `bytes` are copied from a source as large as
 * the shards, so that reads of both miss the cache alike. */
static double memcpy_rate(size_t bytes, uint32_t pieces)
{
    char *from = malloc(bytes * pieces), *to = malloc(bytes);
    uint32_t s = 1, reads = 4 * pieces;
    memset(from, 1, bytes * pieces);
    memset(to, 2, bytes);
    double t = vc_seconds();
    for (uint32_t i = 0; i < reads; i++) {
        s = s * 1664525 + 1013904223;
        memcpy(to, from + bytes * ((uint64_t)s * pieces >> 32), bytes);
        volatile char keep = to[bytes / 2];
        (void)keep;
    }
    t = vc_seconds() - t;
    free(from);
    free(to);
    return (double)reads * (double)bytes / t / 1e9;
}

/* Reads random latents and copies their values; *rate is in GB/s. */
static int read_randomly(const vf_dataset *d, uint32_t reads, bool check, double *rate, vc_err *err)
{
    size_t bytes = 0;
    uint32_t s = 1, n = vf_dataset_count(d);
    char *copy = NULL;
    double t = vc_seconds();
    for (uint32_t i = 0; i < reads; i++) {
        s = s * 1664525 + 1013904223;
        vf_safetensors *st;
        vf_view v;
        uint32_t at = (uint32_t)((uint64_t)s * n >> 32);
        int rc = vf_dataset_latent_of(d, at, vf_dataset_entry(d, at)->latent, check, &st, err);
        if (!rc)
            rc = vf_safetensors_get(st, "mean", &v, err);
        if (rc)
            return rc;
        if (!copy)
            copy = malloc(v.bytes);
        memcpy(copy, v.data, v.bytes);
        bytes += v.bytes;
        vf_safetensors_close(st);
    }
    free(copy);
    t = vc_seconds() - t;
    *rate = (double)bytes / t / 1e9;
    printf("random reads   %8.1f us each, %.3f GB/s%s\n", t / reads * 1e6, *rate,
           check ? ", checked" : "");
    return 0;
}

/* Removes the shards' pages from the page cache, so that later reads come from the disk. Mapped
 * pages stay. */
static int forget_pages(const char *dir, vc_err *err)
{
    DIR *folder = opendir(dir);
    if (!folder)
        return vc_fail_errno(err, "%s", dir);
    for (struct dirent *e; (e = readdir(folder));) {
        char *path = vc_path_join(dir, e->d_name);
        int fd = strncmp(e->d_name, "shard-", 6) ? -1 : open(path, O_RDONLY);
        if (fd >= 0) {
            fsync(fd);
            posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
            close(fd);
        }
        free(path);
    }
    closedir(folder);
    return 0;
}

/* Times opening and one read of each latent from the disk, in random order. As in training, `ahead`
 * latents are prefetched. */
static int read_cold(const char *dir, int ahead, vc_err *err)
{
    vf_dataset *d;
    int rc = forget_pages(dir, err);
    double t = vc_seconds(), opened;
    if (!rc)
        rc = vf_dataset_open(&d, dir, false, err);
    if (rc)
        return rc;
    opened = vc_seconds() - t;
    uint32_t n = vf_dataset_count(d), reads = n < 2000 ? n : 2000, sum = 0, *order;
    size_t bytes = 0;
    order = malloc(n * sizeof *order);
    vc_permutation(order, n, 1, (uint64_t)ahead);
    t = vc_seconds();
    for (uint32_t i = 0; i < reads && !rc; i++) {
        vf_safetensors *st;
        vf_view v;
        if (ahead && i + (uint32_t)ahead < n) {
            uint32_t later = order[i + (uint32_t)ahead];
            vf_dataset_prefetch(d, later, vf_dataset_entry(d, later)->latent);
        }
        rc = vf_dataset_latent_of(d, order[i], vf_dataset_entry(d, order[i])->latent, false, &st,
                                  err);
        if (!rc)
            rc = vf_safetensors_get(st, "mean", &v, err);
        for (size_t k = 0; !rc && k < v.bytes; k += 64)
            sum += ((const uint8_t *)v.data)[k];
        bytes += rc ? 0 : v.bytes;
        vf_safetensors_close(st);
    }
    t = vc_seconds() - t;
    printf("from the disk  %8.3f s to open, %.1f us a read, %.3f GB/s, %d ahead%s\n", opened,
           t / reads * 1e6, (double)bytes / t / 1e9, ahead, sum == 1 ? "." : "");
    free(order);
    vf_dataset_close(d);
    return rc;
}

/* Times opening and random reads; *rate is that of the faster of two runs of unchecked reads. */
static int read_dataset(const char *dir, uint32_t reads, double *rate, vc_err *err)
{
    vf_dataset *d;
    size_t before = heap_resident_bytes();
    double t = vc_seconds();
    int rc = vf_dataset_open(&d, dir, false, err);
    if (rc)
        return rc;
    printf("open           %8.6f s  %u samples\n", vc_seconds() - t, vf_dataset_count(d));
    printf("memory         %8.1f bytes a sample resident\n",
           (double)(heap_resident_bytes() - before) / vf_dataset_count(d));
    for (int i = 0; i < 3 && !rc; i++) {             /* the first one warms the page cache */
        double run;
        rc = read_randomly(d, reads, i == 2, &run, err);
        if (!rc && i < 2 && run > *rate)
            *rate = run;
    }
    vf_dataset_close(d);
    return rc;
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        fprintf(stderr, "usage: bench_dataset FOLDER [SAMPLES [LATENT_KIB [SHARD_MIB]]]\n");
        return 2;
    }
    vc_err err = { 0 };
    uint32_t n = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 10) : 1000000;
    size_t kib = argc > 3 ? strtoul(argv[3], NULL, 10) : 0;
    size_t mib = argc > 4 ? strtoul(argv[4], NULL, 10) : 4096;
    double rate = 0;
    int rc = 0, status = 0;
    fflush(stdout);
    pid_t child = fork();                    /* the writer's memory is not counted below */
    if (!child) {
        rc = write_dataset(argv[1], n, kib, mib, &err);
        if (rc)
            fprintf(stderr, "%s\n", err.text);
        exit(rc ? 1 : 0);
    }
    if (child < 0 || waitpid(child, &status, 0) < 0 || status)
        return 1;
    if (!rc)
        rc = read_dataset(argv[1], kib ? 4 * n : 100000, &rate, &err);
    for (int ahead = 0; ahead <= 8 && !rc; ahead += 8)
        rc = read_cold(argv[1], ahead, &err);
    if (rc)
        fprintf(stderr, "%s\n", err.text);
    if (!rc && kib) {
        double plain = memcpy_rate(kib << 10, n);
        printf("memcpy         %8.3f GB/s: a read is %.2fx\n", plain, rate / plain);
    }
    return rc ? 1 : 0;
}
