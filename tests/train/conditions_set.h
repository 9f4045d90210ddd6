/* conditions_set.h - datasets with conditions, and what data and loader see of a transformer. */
#ifndef TESTS_TRAIN_CONDITIONS_SET_H
#define TESTS_TRAIN_CONDITIONS_SET_H

#include "tests/lib/train_dataset.h"
#include "train/data/loader.h"
#include "train/models/dit.h"

enum { SEED = 42, CHANNELS = 2, AREA = 24, SAMPLES = 8 };
enum { IMAGE = 1 << VC_ROLE_IMAGE, VIDEO = 1 << VC_ROLE_VIDEO,
       MASK = 1 << VC_ROLE_MASK };
#define SCALING 0.75

extern const toy_sample set_samples[SAMPLES];    /* clips of 3 and 4 frames, stills; some with a
                                                  * loss mask, some with all to be generated */
extern const toy set_i2v;                        /* image, and three noised ones */
extern const toy set_inpaint;                    /* video and mask */

/* A transformer that is only its wishes. */
typedef struct wish {
    unsigned roles;
    bool pad;                                    /* to an even number of frames */
    vtrain_scale image, video, mask;
    bool clean;                                  /* all its clips begin with a clean frame */
    bool means;                                  /* of conditions' posteriors */
    int64_t text_rows;                           /* of each prompt, with rows of zeros; 0: any */
} wish;
vtrain_fit set_fit(const wish *w);
vtrain_family set_family(const wish *w);

/* Makes the dataset below dir, opens it (or fails the test), and says how the fit went. */
int set_try(vtrain_data **d, const char *dir, const toy *t, const wish *w, double eval_split,
            char **note, vc_err *err);
/* The same; fails the test unless it fits without a note. */
vtrain_data *set_open(const char *dir, const toy *t, const wish *w, double eval_split);
/* Batches of 2 with SEED; threads 1 and ahead 2 unless given. */
vtrain_loader *set_loader(const vtrain_data *d, vtrain_loader_opts o);
const vtrain_batch *set_next(vtrain_loader *l);

#endif
