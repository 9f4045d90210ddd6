/* fuzz_plan.c - any bytes are replayed as a plan: an error, or clips that keep every rule. */
#include <stdlib.h>
#include <string.h>

#include "precompute/vprep/plan_lines.h"
#include "precompute/vprep/record.h"
#include "tests/fuzz/fuzz_file.h"
#include "tests/lib/mutate.h"

static char *captions[] = { (char *)"a cat" };
static vf_row rows[2] = {
    { .row = 1, .path = (char *)"a.mp4", .file = (char *)"a.mp4", .type = VF_TYPE_VIDEO,
      .captions = captions,
      .n_captions = 1, .id = 0x1111111111111111 },
    { .row = 2, .path = (char *)"b.png", .file = (char *)"b.png", .type = VF_TYPE_IMAGE,
      .captions = captions,
      .n_captions = 1, .id = 0x2222222222222222 },
};
static vprep_source sources[2] = {
    { .ok = true, .is_video = true, .w = 640, .h = 360, .frames = 100, .fps = 25 },
    { .ok = true, .w = 300, .h = 500, .frames = 1 },
};

/* Aborts unless the item has the properties that the encoding relies on. */
static void must_hold(const vprep *p, const vprep_item *it)
{
    vprep_clip clip;
    vc_err err;
    if (vprep_clip_of(p, it, &clip, &err))
        abort();
    const vb_choice *c = &clip.choice;
    if (!c->drop) {
        if (c->target_h < 16 || c->target_w < 16 || c->target_h % 16 || c->target_w % 16 ||
            c->top < 0 ||
            c->left < 0 || c->top + c->target_h > c->resize_h ||
            c->left + c->target_w > c->resize_w)
            abort();
        for (int i = 0; i < c->frames; i++)
            if (clip.frames[i] < 0 || clip.frames[i] >= sources[it->row].frames ||
                (i && clip.frames[i] < clip.frames[i - 1]))
                abort();
        vc_buf line = { 0 };
        vprep_plan_line(&line, p, it, &clip);
        vc_buf_free(&line);
    }
    vprep_clip_free(&clip);
}

/* Reads the samples of the lines alone, as a run does of the plan of the dataset before it. */
static void read_ids(const char *plan)
{
    plan_ids ids = { 0 };
    uint32_t number;
    vc_err err = { 0 };
    int rc = plan_ids_read(&ids, plan, &err);
    if (rc && (!*err.text || err.code != rc))
        abort();                             /* a failure without a message */
    if (ids.n && !plan_ids_find(&ids, ids.v[ids.n - 1].id, &number))
        abort();
    plan_ids_below(&ids, plan, "a", &err);
    free(ids.v);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    vprep p = { .list = { .meta = { .rows = rows, .n = 2 }, .sources = sources } };
    vc_err err = { 0 };

    p.c.plan = (char *)fuzz_file("plan.jsonl", data, size);
    vb_rules_default(&p.rules, vc_family_find("builtin"));
    if (!plan_replay(&p, &err))
        for (uint32_t i = 0; i < p.plan.n_items; i++)
            must_hold(&p, &p.plan.items[i]);
    vc_map_close(&p.plan.file);
    free(p.plan.items);
    read_ids(p.c.plan);
    return 0;
}
