/* plan_ranks.c - takes the first epoch of a dataset as each rank of a job does, one rank after the
 * other, and checks that together they visit every sample as often as the epoch demands.
 *
 *     plan_ranks RANKS HANDLES BATCH plan|load DATASET
 *
 * The ranks are divided among HANDLES handles of the dataset. With as many handles as ranks each
 * rank opens the dataset and orders its samples itself, as a process of a job does; with fewer a
 * dataset of millions of samples needs less time. `plan` asks for the samples of the rank's
 * micro-batches only; `load` gets the batches from the loader, with their values. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/lib/heap.h"
#include "train/data/loader.h"

typedef struct job {
    char *path;
    uint32_t ranks, handles, batch;
    bool load;
    uint32_t *visits;                        /* [entries of the dataset] by all ranks so far */
    uint32_t entries, samples;
    uint64_t micros;                         /* of the epoch */
    size_t bytes;                            /* of the largest handle */
    double seconds;                          /* CPU of all handles and ranks */
} job;

static int count_key(job *j, const vtrain_data *d, const char *key, vc_err *err)
{
    uint32_t i;
    int rc = vf_dataset_find(vtrain_data_set(d, 0), key, &i, err);
    if (!rc)
        j->visits[i]++;
    return rc;
}

static int load_rank(job *j, const vtrain_data *d, uint32_t rank, vc_err *err)
{
    const vtrain_loader_opts o = {
        .plan = { .batch = j->batch, .seed = 1 }, .threads = 1, .ahead = 1, .end = j->micros,
        .first = rank < j->micros ? rank : j->micros, .stride = j->ranks, .check = true,
    };
    vtrain_loader *l;
    int rc = vtrain_loader_open(&l, d, &o, err);
    while (!rc) {
        const vtrain_batch *b;
        double waited;
        if ((rc = vtrain_loader_next(l, &b, &waited, err)) || !b)
            break;
        for (int i = 0; i < b->rows && !rc; i++)
            rc = count_key(j, d, b->key[i], err);
        vtrain_loader_give_back(l, b);
    }
    vtrain_loader_close(l);
    return rc;
}

static int plan_rank(job *j, const vtrain_data *d, vtrain_order *order, uint32_t rank, vc_err *err)
{
    uint32_t *rows = malloc(j->batch * sizeof *rows), n;
    int rc = rows ? 0 : vc_no_memory(err);
    for (uint64_t m = rank; m < j->micros && !rc; m += j->ranks) {
        rc = vtrain_order_get(order, m, rows, &n, err);
        for (uint32_t i = 0; i < n && !rc; i++)
            j->visits[vtrain_data_sample(d, rows[i])->index]++;
    }
    free(rows);
    return rc;
}

static int take_ranks(job *j, const vtrain_data *d, uint32_t first, uint32_t end, size_t before,
                      vc_err *err)
{
    vtrain_order *order = NULL;
    const vtrain_order_plan plan = { .batch = j->batch, .seed = 1 };
    int rc = vtrain_order_open(&order, d, &plan, err);
    j->micros = rc ? 0 : vtrain_order_count(order, 1, UINT64_MAX);
    if (j->load) {
        vtrain_order_close(order);
        order = NULL;
    }
    for (uint32_t r = first; r < end && !rc; r++)
        rc = j->load ? load_rank(j, d, r, err) : plan_rank(j, d, order, r, err);
    size_t bytes = heap_bytes() - before;
    if (bytes > j->bytes)
        j->bytes = bytes;
    vtrain_order_close(order);
    return rc;
}

/* Compares the visits with those of the epoch, and the sum over a number's variants with the
 * number's weight. */
static int check_visits(const job *j, const vtrain_data *d, vc_err *err)
{
    const vf_dataset *set = vtrain_data_set(d, 0);
    uint32_t *row = malloc(vtrain_data_visits(d) * sizeof *row);
    uint32_t *want = calloc(j->entries, sizeof *want);
    int rc = row && want ? 0 : vc_no_memory(err);
    if (!rc)
        vtrain_data_epoch(d, 0, row, NULL);
    for (uint32_t i = 0; i < vtrain_data_visits(d) && !rc; i++)
        want[vtrain_data_sample(d, row[i])->index]++;
    for (uint32_t i = 0, next; i < vtrain_data_samples(d) && !rc; i = next) {
        const vf_entry *e = vf_dataset_entry(set, vtrain_data_sample(d, i)->index);
        const double least = fmax(floor((double)e->weight), 1), most = ceil((double)e->weight);
        double sum = 0;
        for (next = i; next < vtrain_data_samples(d) && !rc; next++) {
            uint32_t at = vtrain_data_sample(d, next)->index;
            if (vf_dataset_entry(set, at)->number != e->number)
                break;
            sum += j->visits[at];
            if (j->visits[at] != want[at])
                rc = vc_fail(err, VC_EFAIL, "sample %" PRIu32 " was visited %" PRIu32 " times, "
                             "but the epoch demands %" PRIu32, at, j->visits[at], want[at]);
        }
        if (!rc && (sum < least || sum > fmax(most, 1)))
            rc = vc_fail(err, VC_EFAIL, "number %" PRIu32 " of weight %g was visited %g times",
                         e->number, (double)e->weight, sum);
    }
    free(row);
    free(want);
    return rc;
}

/* Opens the dataset as a process does and takes the part of ranks [first,end). */
static int take_part(job *j, uint32_t first, uint32_t end, vc_err *err)
{
    const vtrain_data_opts o = { .paths = &(vc_list){ &j->path, 1 }, .dataset_repeat = 1,
                                 .seed = 1 };
    size_t before = heap_bytes();
    const clock_t cpu = clock();
    vtrain_data *d;
    char *note;
    int rc = vtrain_data_open(&d, &o, &note, err);
    if (!rc && !j->visits) {
        j->entries = vf_dataset_count(vtrain_data_set(d, 0));
        j->samples = vtrain_data_samples(d);
        j->visits = calloc(j->entries, sizeof *j->visits);
        rc = j->visits ? 0 : vc_no_memory(err);
        before += j->entries * sizeof *j->visits;
    }
    if (!rc)
        rc = take_ranks(j, d, first, end, before, err);
    j->seconds += (double)(clock() - cpu) / CLOCKS_PER_SEC;
    if (!rc && end == j->ranks)
        rc = check_visits(j, d, err);
    vtrain_data_close(d);
    free(note);
    return rc;
}

int main(int argc, char **argv)
{
    job j = { .ranks = argc == 6 ? (uint32_t)atoi(argv[1]) : 0 };
    if (!j.ranks || !(j.handles = (uint32_t)atoi(argv[2])) || j.ranks % j.handles) {
        fprintf(stderr, "plan_ranks RANKS HANDLES BATCH plan|load DATASET; HANDLES divides "
                        "RANKS\n");
        return 2;
    }
    j.batch = (uint32_t)atoi(argv[3]);
    j.load = !strcmp(argv[4], "load");
    j.path = argv[5];
    vc_err err = { 0 };
    const uint32_t each = j.ranks / j.handles;
    int rc = 0;
    for (uint32_t r = 0; r < j.ranks && !rc; r += each)
        rc = take_part(&j, r, r + each, &err);
    if (rc)
        fprintf(stderr, "plan_ranks: %s\n", err.text);
    else
        printf("%" PRIu32 " ranks visited %" PRIu32 " samples in %" PRIu64 " micro-batches, each "
               "sample as often as the epoch demands; a handle takes %.1f bytes a sample; %.3f s "
               "of CPU a handle\n", j.ranks, j.samples, j.micros,
               (double)j.bytes / j.samples, j.seconds / j.handles);
    free(j.visits);
    return rc ? 1 : 0;
}
