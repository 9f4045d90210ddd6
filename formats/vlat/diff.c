/* diff.c - vlat diff: the differences of two datasets, by the ids of rows. */
#include "formats/vlat/vlat.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "formats/dataset/parts.h"
#include "formats/keys/keymap.h"

enum { RELEASE_EVERY = 1 << 18 };            /* samples before the datasets' pages are released */

typedef struct sides {
    const vlat *v;
    vf_dataset *d[2];
    uint32_t next;                           /* place in B where the next sample of A is expected */
    bool listed;                             /* place has the samples of B */
    vf_keymap place;                         /* id and variant of a sample of B -> its place in B */
    uint64_t only[2], changed, same;
} sides;

/* The name of a sample in both datasets: its row's id, and its variant. */
static vf_key name_of(const vf_index_item *item)
{
    const uint32_t variant = item->entry.variant;
    return vf_hash2(&item->id, sizeof item->id, &variant, sizeof variant);
}

static void tell(const sides *s, char sign, const vf_entry *e, const cJSON *record,
                 const char *what)
{
    char key[24];
    fprintf(s->v->out, "%c %s  ", sign, vf_sample_key(key, e->number, e->variant));
    vlat_print(s->v->out, vlat_str(record, "path"), 80);
    fprintf(s->v->out, "%s%s\n", *what ? "  " : "", what);
}

/* Fields that are compared, and the word that names a difference in each. */
static const struct { const char *field, *word; } fields[] = {
    { "latent_key", "latent" }, { "captions", "captions" }, { "preserved", "preserved captions" },
    { "source_hash", "source" },
    { "key", "bucket" }, { "target", "size" }, { "crop", "crop" }, { "frames", "frames" },
    { "conditions", "conditions" }, { "tags", "tags" }, { "weight", "weight" },
    { "held", "kind" },
    { "extra", "extra columns" },
};

static void differences(const cJSON *a, const cJSON *b, char what[160])
{
    *what = 0;
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        const cJSON *x = cJSON_GetObjectItemCaseSensitive(a, fields[i].field);
        const cJSON *y = cJSON_GetObjectItemCaseSensitive(b, fields[i].field);
        if ((!x && !y) || (x && y && cJSON_Compare(x, y, true)))
            continue;
        size_t at = strlen(what);
        snprintf(what + at, 160 - at, "%s%s", at ? ", " : "", fields[i].word);
    }
}

static int list_b(sides *s, vc_err *err)
{
    int rc = 0;
    for (uint32_t i = 0; !rc && i < vf_dataset_count(s->d[1]); i++) {
        vf_index_item item;
        vf_dataset_indexed(s->d[1], i, &item);
        rc = vf_keymap_put(&s->place, name_of(&item), i, err);
    }
    s->listed = true;
    return rc;
}

/* Finds the sample of B with the name of a. Most samples are in the order of A, so that B is listed
 * only if one is not where it is expected. */
static int find_in_b(sides *s, const vf_index_item *a, bool *found, uint32_t *at, vc_err *err)
{
    vf_index_item b;
    uint64_t place = *at = s->next;
    if (*at < vf_dataset_count(s->d[1])) {
        vf_dataset_indexed(s->d[1], *at, &b);
        *found = b.id == a->id && b.entry.variant == a->entry.variant;
        if (*found)
            return 0;
    }
    int rc = s->listed ? 0 : list_b(s, err);
    *found = !rc && vf_keymap_get(&s->place, name_of(a), &place);
    *at = (uint32_t)place;
    return rc;
}

/* Compares the fields of two records that are not equal. */
static int compare_fields(sides *s, uint32_t i, uint32_t at, vc_err *err)
{
    cJSON *a, *b = NULL;
    char what[160];
    int rc = vf_dataset_sample(s->d[0], i, &a, err);
    if (!rc)
        rc = vf_dataset_sample(s->d[1], at, &b, err);
    if (!rc)
        differences(a, b, what);
    if (!rc && *what)
        tell(s, '~', vf_dataset_entry(s->d[0], i), a, what);
    s->changed += !rc && *what;
    s->same += !rc && !*what;
    cJSON_Delete(a);
    cJSON_Delete(b);
    return rc;
}

static int report_only(sides *s, int of, char sign, uint32_t i, vc_err *err)
{
    cJSON *record;
    int rc = vf_dataset_sample(s->d[of], i, &record, err);
    if (!rc)
        tell(s, sign, vf_dataset_entry(s->d[of], i), record, "");
    s->only[of] += !rc;
    cJSON_Delete(record);
    return rc;
}

/* Records of equal hashes are equal, and most are: only the others are parsed. */
static int compare_one(sides *s, uint32_t i, bool *met, vc_err *err)
{
    uint32_t at;
    bool found;
    vf_index_item a, b;
    int rc = vf_dataset_item(s->d[0], i, &a, err);
    if (!rc)
        rc = find_in_b(s, &a, &found, &at, err);
    if (rc)
        return rc;
    if (!found)
        return report_only(s, 0, '-', i, err);
    met[at] = true;
    s->next = at + 1;
    rc = vf_dataset_item(s->d[1], at, &b, err);
    if (rc || memcmp(&a.hash, &b.hash, sizeof a.hash))
        return rc ? rc : compare_fields(s, i, at, err);
    s->same++;
    return 0;
}

static int report_new(sides *s, const bool *met, vc_err *err)
{
    int rc = 0;
    for (uint32_t i = 0; !rc && i < vf_dataset_count(s->d[1]); i++)
        if (!met[i])
            rc = report_only(s, 1, '+', i, err);
    return rc;
}

static int compare_all(sides *s, vc_err *err)
{
    bool *met = calloc((size_t)vf_dataset_count(s->d[1]) + 1, sizeof *met);
    int rc = met ? 0 : vc_no_memory(err);
    for (uint32_t i = 0; !rc && i < vf_dataset_count(s->d[0]); i++) {
        rc = compare_one(s, i, met, err);
        if (i % RELEASE_EVERY == RELEASE_EVERY - 1)
            for (int k = 0; k < 2; k++)
                vf_dataset_release(s->d[k]);
        if (!rc && *vc_stop_flag())
            rc = vc_fail(err, VC_ESTOP, "stopped");
    }
    if (!rc)
        rc = report_new(s, met, err);
    free(met);
    return rc;
}

int vlat_diff(const vlat *v, vc_err *err)
{
    sides s = { .v = v };
    char n[4][32];
    int rc = 0;
    for (int i = 0; !rc && i < 2; i++)
        rc = vf_dataset_open(&s.d[i], v->words->item[i], true, err);
    if (!rc)
        rc = compare_all(&s, err);
    if (!rc)
        fprintf(v->out, "%s the same, %s changed, %s only in the first, %s only in the second\n",
                vc_human_count(n[0], s.same), vc_human_count(n[1], s.changed),
                vc_human_count(n[2], s.only[0]), vc_human_count(n[3], s.only[1]));
    vf_keymap_free(&s.place);
    vf_dataset_close(s.d[0]);
    vf_dataset_close(s.d[1]);
    if (rc)
        return rc;
    return s.changed || s.only[0] || s.only[1] ? vc_fail(err, VC_EFAIL, "the datasets differ") : 0;
}
