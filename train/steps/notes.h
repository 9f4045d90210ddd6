/* notes.h - what each rank notes of its micro-batches, gathered into the record of a step. */
#ifndef TRAIN_STEPS_NOTES_H
#define TRAIN_STEPS_NOTES_H

#include "train/vtrain.h"

enum { VTRAIN_BUCKETS_TEXT = 512 };

/* One rank's note of a micro-batch. */
typedef struct vtrain_micro_note {
    double loss, waited;
    double device_waits, graph_replays;       /* as vtrain_record's */
    vtrain_part_loss level[VTRAIN_NOISE_LEVELS];  /* as vtrain_micro's */
    vtrain_part_loss kind[VTRAIN_KINDS_OF_LOSS];
    uint64_t tokens;
    uint32_t rows, dropped, zeroed, paired, alone;
    bool low;                                 /* as vtrain_micro's */
    char bucket[80];                          /* name, since data may grow within a step */
    char key[][VTRAIN_KEY];                   /* [train_batch_size] */
} vtrain_micro_note;

/* Counts of the steps of this process. */
typedef struct vtrain_counts {
    int64_t begun;                            /* step that the process began at */
    uint64_t rows, zeroed;                    /* rows trained on; those with zeroed conditions */
    uint64_t paired, alone;                   /* those that have references; left without them */
    int64_t waits;                            /* of the device for data, after the first step */
    double wait_s;                            /* seconds of these waits */
} vtrain_counts;

/* The notes of a step. The record of a step borrows its samples and buckets from them, until the
 * next vtrain_notes_gather. */
typedef struct vtrain_notes {
    char *note;                               /* [ranks, accumulation] of `size` bytes each */
    size_t size;
    const char **keys;                        /* of the step's rows, in order */
    char bucket[VTRAIN_BUCKETS_TEXT];         /* names of the step's buckets, each once */
    vtrain_bucket_loss *of_bucket;            /* their losses */
} vtrain_notes;

int vtrain_notes_open(vtrain_notes *s, const vtrain *t, vc_err *err);
void vtrain_notes_close(vtrain_notes *s);

/* Begins the note of this rank's i-th micro-batch: the facts of its batch, and the seconds that the
 * rank has waited for it. The caller adds the loss and the device's numbers. */
vtrain_micro_note *vtrain_notes_batch(vtrain_notes *s, const vtrain *t, int64_t i,
                                      const vtrain_batch *b, double waited);
/* Gathers the notes of all ranks into r, in the order of the micro-batches' numbers, so that r is
 * the same on all ranks; *tokens is the sum of theirs. Adds the rows to those of t and *count.
 * Collective. */
int vtrain_notes_gather(vtrain_notes *s, vtrain *t, vtrain_record *r, vtrain_counts *count,
                        uint64_t *tokens, vc_err *err);

#endif
