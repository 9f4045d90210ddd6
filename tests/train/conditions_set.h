/* conditions_set.h - makes datasets with conditions, and opens them for a transformer that consists
 * of its vtrain_fit alone. */
#ifndef TESTS_TRAIN_CONDITIONS_SET_H
#define TESTS_TRAIN_CONDITIONS_SET_H

#include "tests/lib/train_batches.h"
#include "tests/lib/train_dataset.h"
#include "train/data/loader.h"
#include "train/models/dit.h"

enum { SEED = 42, CHANNELS = 2, AREA = 24, SAMPLES = 8 };
enum { IMAGE = 1 << VC_ROLE_IMAGE, VIDEO = 1 << VC_ROLE_VIDEO,
       MASK = 1 << VC_ROLE_MASK };
#define SCALING 0.75

extern const toy_sample set_samples[SAMPLES];    /* clips of 3 and 4 frames, and stills; some have a
                                                  * loss mask, some are fully masked */
extern const toy set_i2v;                        /* has an image and three noised images */
extern const toy set_inpaint;                    /* has a video and its mask */

/* The fields of the transformer's vtrain_fit. */
typedef struct wish {
    unsigned roles;
    bool pad;                                    /* pad_front to an even number of frames */
    vtrain_scale image, video, mask;
    bool clean;                                  /* all its clips begin with a clean frame */
    bool means;                                  /* of conditions' posteriors */
    int64_t text_rows;                           /* of each prompt, with rows of zeros; 0: any */
} wish;
vtrain_fit set_fit(const wish *w);
vtrain_family set_family(const wish *w);

/* Makes the dataset below dir, opens it (a failure ends the test), and returns the result of the
 * fit. */
int set_try(vtrain_data **d, const char *dir, const toy *t, const wish *w, double eval_split,
            char **note, vc_err *err);
/* set_try; a fit that fails or makes a note ends the test. */
vtrain_data *set_open(const char *dir, const toy *t, const wish *w, double eval_split);
/* batches_open with SEED. */
vtrain_loader *set_loader(const vtrain_data *d, vtrain_loader_opts o);

#endif
