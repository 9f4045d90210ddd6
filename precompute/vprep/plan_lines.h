/* plan_lines.h - the lines of a plan.jsonl, and the numbers that an earlier plan gave. */
#ifndef PRECOMPUTE_VPREP_PLAN_LINES_H
#define PRECOMPUTE_VPREP_PLAN_LINES_H

#include "formats/keys/keymap.h"
#include "precompute/run/vprep.h"

/* A list of (row id, number) that is searched by id. */
typedef struct plan_ids {
    struct plan_id {
        uint64_t id;
        uint32_t number;
    } *v;
    size_t n, room;
} plan_ids;
int plan_ids_add(plan_ids *l, uint64_t id, uint32_t number, vc_err *err);
void plan_ids_sort(plan_ids *l);
/* Adds the ids of a plan's lines, and sorts; errors name the line. */
int plan_ids_read(plan_ids *l, const char *path, vc_err *err);
/* Adds the ids of lines whose paths begin with `folder`. */
int plan_ids_below(plan_ids *l, const char *path, const char *folder, vc_err *err);
bool plan_ids_find(const plan_ids *l, uint64_t id, uint32_t *number);     /* after sorting */

typedef struct plan_head {                  /* the sample of a line */
    uint64_t id;
    int64_t number, variant;
} plan_head;
/* Reads the head of a line; that of a line that vprep wrote is read without the rest. */
int plan_head_of(plan_head *h, const char *text, size_t n, vc_err *err);
int plan_head_parse(plan_head *h, const char *text, size_t n, vc_err *err);
/* Calls `each` for the lines of a plan that are not empty; an error names the line. */
int plan_each_line(const vc_map *m, const char *path,
                   int (*each)(void *arg, const char *text, size_t n, vc_err *err), void *arg,
                   vc_err *err);

/* The key of the sample and variant of a line. */
vf_key plan_line_key(uint32_t number, uint16_t variant);
/* Copies to f the lines of the plan at path whose samples stay and are not in `now`. */
int plan_keep_lines(FILE *f, const vprep *p, const char *path, const vf_keymap *now, vc_err *err);

/* The draw of the mask in a replayed line, or NULL. */
const cJSON *plan_mask_draw(const vprep_clip *clip);

/* Chooses the item's clip, sets it.drop and adds it. VC_EUSAGE: the model has no positions for the
 * clip's size. */
int plan_add_item(vprep *p, vprep_item it, vc_err *err);
/* Makes the items from --plan; reads the clip of a plan line, and checks that it can be made. */
int plan_replay(vprep *p, vc_err *err);
int plan_replayed_clip(const vprep *p, const vprep_item *it, vprep_clip *clip, vc_err *err);

#endif
