/* errors.h - rows that failed: OUT/errors.jsonl, and exit status 3. */
#ifndef PRECOMPUTE_RUN_ERRORS_H
#define PRECOMPUTE_RUN_ERRORS_H

#include <pthread.h>

#include "precompute/run/options.h"

enum { VPREP_STAGES = 6 };

typedef struct vprep_error {
    int64_t row;
    char *path, *reason;
    const char *stage;                /* metadata probe decode select encode text */
} vprep_error;

typedef struct prep_errors {
    pthread_mutex_t lock;             /* guards the list, and the writer's hints in the survey */
    vprep_error *list;
    uint32_t n;
    uint32_t n_shared;                /* the first of them, which all ranks have (share.h) */
} prep_errors;

/* Notes a failed row; with --on_error stop returns the code, else 0. Thread-safe. */
int vprep_note(vprep *p, int64_t row, const char *path, const char *stage, const vc_err *why,
               vc_err *err);
/* Names the skipped inputs, with the first reasons of each stage: those of metadata, probe and
 * select, or (encoded) of text, decode and encode. */
void vprep_say_skipped(vprep *p, bool encoded);
/* Sorts the errors by row, while no other thread notes any. */
void vprep_sort_errors(vprep *p);
/* Replaces OUT/errors.jsonl, rows in order. */
int vprep_write_errors(vprep *p, vc_err *err);

#endif
