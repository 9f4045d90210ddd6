/* plan_lines.h - reading plan.jsonl back: its lines, and the numbers an earlier plan gave. */
#ifndef PRECOMPUTE_VPREP_PLAN_LINES_H
#define PRECOMPUTE_VPREP_PLAN_LINES_H

#include "formats/keys/keymap.h"
#include "precompute/run/vprep.h"

/* A list of (row id, number), found by id. */
typedef struct plan_ids {
    struct plan_id {
        uint64_t id;
        uint32_t number;
    } *v;
    size_t n, room;
} plan_ids;
int plan_ids_add(plan_ids *l, uint64_t id, uint32_t number, vc_err *err);
void plan_ids_sort(plan_ids *l);
/* Those of a plan's lines, sorted; errors name the line. */
int plan_ids_read(plan_ids *l, const char *path, vc_err *err);
/* Adds those whose paths begin with `folder`. */
int plan_ids_below(plan_ids *l, const char *path, const char *folder, vc_err *err);
bool plan_ids_find(const plan_ids *l, uint64_t id, uint32_t *number);     /* after sorting */

/* What a line is about, as a key. */
vf_key plan_line_key(uint32_t number, uint16_t variant);
/* Lines of the plan at path that are about none of `now`, but about samples that stay, to f as they are. */
int plan_keep_lines(FILE *f, const vprep *p, const char *path, const vf_keymap *now, vc_err *err);

/* The draw of a replayed line that tells the mask, or NULL. */
const cJSON *plan_told_mask(const vprep_clip *clip);

int plan_add_item(vprep *p, vprep_item it, vc_err *err);
/* Items from --plan; the clip that a plan line tells, checked against what must hold. */
int plan_replay(vprep *p, vc_err *err);
int plan_replayed_clip(const vprep *p, const vprep_item *it, vprep_clip *clip, vc_err *err);

#endif
