/* loader_parts.h - the loader's state: slots that hold a batch each, and the rules by which threads
 * use them. Internal to train/data. */
#ifndef TRAIN_DATA_LOADER_PARTS_H
#define TRAIN_DATA_LOADER_PARTS_H

#include <pthread.h>
#include <stdatomic.h>

#include "train/data/loader.h"
#include "train/data/parts.h"
#include "train/data/starts.h"

typedef enum { FREE, FILLING, READY, LENT } vtrain_slot_state;

typedef struct vtrain_loader_slot {
    vtrain_batch b;              /* first, so that a batch's address is its slot's */
    vtrain_slot_state state;
    int rc;                      /* of filling the slot */
    vc_err err;
    uint32_t *row;               /* [batch] samples of its rows */
    vtrain_text_value *value;    /* [batch, n_slots] while texts are copied */
    vtrain_conditions *cond;     /* [batch] of the rows' records */
    float *scale;                /* [batch] b.loss_scale */
    bool *held;                  /* [batch] b.held */
    vtrain_start *start;         /* [batch] of the rows' records, where noise is asked for */
    int *segments;               /* [batch] of the rows' texts, as the records have them */
    size_t text_room[VTRAIN_TEXTS];          /* numbers that b.text[i].embeds has room for */
    float *first;                /* [C,h,w] an image on its way to the front of a clip, or NULL */
} vtrain_loader_slot;

typedef struct vtrain_pass {            /* held-out samples, batch by batch */
    uint32_t *sample;            /* by group, in list order */
    uint32_t *start;             /* [n + 1] into sample */
    uint64_t n;                  /* batches */
} vtrain_pass;

struct vtrain_loader {
    const vtrain_data *d;
    vtrain_loader_opts o;
    vtrain_order *order;         /* of training samples, or NULL */
    vtrain_pass pass;            /* of held-out samples */
    vtrain_loader_slot *slot;
    int n_slots, lent;           /* slots; batches lent to the caller */
    size_t bytes;

    pthread_mutex_t lock;        /* guards all fields below, the order and the slots' states */
    pthread_cond_t room, ready;  /* a slot became free; a batch became ready */
    uint64_t next_in, next_out;  /* parts to be started and to be delivered next */
    atomic_bool stop;
    pthread_t *thread;
    int n_threads;               /* started */
    _Atomic uint32_t *checked;   /* a bit a sample: its checksums were compared; NULL: off */
};

/* loader_latents.c. Makes x0, conditions and loss weights of one row whose record was read. */
int vtrain_loader_row(const vtrain_loader *l, vtrain_loader_slot *s, int row, vc_err *err);
/* The role whose value a sample of the dataset has for `role`: `role`, or another in its place. */
vc_role vtrain_loader_entry(const vtrain_loader *l, int set, vc_role role);

/* loader_fill.c. Fills the slot's batch with the texts and latents of its rows, which are chosen
 * already. Called, without the lock, by the worker that holds the slot. */
int vtrain_loader_fill(vtrain_loader *l, vtrain_loader_slot *s);

#endif
