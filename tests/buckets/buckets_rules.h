/* buckets_rules.h - the common part of the tests of buckets/: rules, and the draws of a choice. */
#ifndef TESTS_BUCKETS_BUCKETS_RULES_H
#define TESTS_BUCKETS_BUCKETS_RULES_H

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "buckets/choose.h"
#include "tests/lib/ok.h"

#define COUNT(a) (sizeof (a) / sizeof *(a))

static inline vb_rules rules_of(const char *family, int64_t v, int64_t i, int64_t t, int64_t n,
                                int64_t s)
{
    vb_rules r;
    const vc_family *f = vc_family_find(family);
    assert_non_null(f);
    vb_rules_default(&r, f);
    r.video_sample_size = v;
    r.image_sample_size = i;
    r.token_sample_size = t;
    r.n_frames = n;
    r.stride = s;
    return r;
}

static inline void check(vb_rules *r)
{
    vc_err err;
    assert_ok(vb_rules_check(r, NULL, &err), &err);
}

static inline const vb_draw *find_draw(const vb_choice *c, const char *purpose)
{
    for (int i = 0; i < c->n_draws; i++)
        if (!strcmp(c->draws[i].purpose, purpose))
            return &c->draws[i];
    return NULL;
}

#endif
