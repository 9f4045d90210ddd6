/* bench_loader.c - times vtrain's loader.
 *
 *     bench_loader DATASET BATCH MICROS THREADS mean|sample
 *
 * prints the samples a second, and the milliseconds of CPU that a sample takes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/os/progress.h"
#include "train/data/loader.h"

static int load_all(const vtrain_data *d, const vtrain_loader_opts *o, uint64_t *rows, vc_err *err)
{
    vtrain_loader *l;
    int rc = vtrain_loader_open(&l, d, o, err);
    while (!rc) {
        const vtrain_batch *b;
        double waited;
        if ((rc = vtrain_loader_next(l, &b, &waited, err)) || !b)
            break;
        *rows += (uint64_t)b->rows;
        vtrain_loader_give_back(l, b);
    }
    vtrain_loader_close(l);
    return rc;
}

int main(int argc, char **argv)
{
    if (argc != 6) {
        fprintf(stderr, "usage: bench_loader DATASET BATCH MICROS THREADS mean|sample\n");
        return 2;
    }
    vc_err err = { 0 };
    vtrain_data *d;
    char *note;
    const vtrain_data_opts data = { .paths = &(vc_list){ &argv[1], 1 }, .dataset_repeat = 1 };
    const vtrain_loader_opts o = {
        .plan.batch = (uint32_t)atoi(argv[2]), .end = strtoull(argv[3], NULL, 10),
        .threads = atoi(argv[4]), .ahead = atoi(argv[4]) + 2, .check = true,
        .latent = strcmp(argv[5], "mean") ? VTRAIN_LATENT_SAMPLE : VTRAIN_LATENT_MEAN,
    };
    uint64_t rows = 0;
    int rc = vtrain_data_open(&d, &data, &note, &err);
    double t = vc_seconds();
    clock_t cpu = clock();
    if (!rc)
        rc = load_all(d, &o, &rows, &err);
    t = vc_seconds() - t;
    if (rc)
        fprintf(stderr, "%s\n", err.text);
    else
        printf("%.1f %.2f\n", (double)rows / t,
               1000 * (double)(clock() - cpu) / CLOCKS_PER_SEC / (double)rows);
    vtrain_data_close(d);
    free(note);
    return rc ? 1 : 0;
}
