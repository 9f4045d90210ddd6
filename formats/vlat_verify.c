/* vlat_verify.c - vlat verify: every finding a line, then the sums; --repair keeps what is good. */
#include "formats/vlat.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/file.h"
#include "formats/copy.h"

enum { MAX_LINE = 4 << 20 };

static void print_finding(void *arg, const char *where, const char *what)
{
    FILE *f = arg;
    vlat_print(f, where, 0);
    fputs(": ", f);
    vlat_print(f, what, 0);
    fputc('\n', f);
}

/* ---- repair ---- */

typedef struct repair {
    const vlat *v;
    vf_dataset *d;
    vf_copy *c;
    char *made;                              /* what could be saved, beside the dataset */
    FILE *list;                              /* repair.jsonl in it */
    uint64_t saved, lost;
} repair;

static void tell_shard(void *arg, const char *what)
{
    const repair *r = arg;
    vc_warn(r->v->progress, "left out: %s", what);
}

/* A record as the plan line that it came from: captions are texts. */
static cJSON *line_of(const cJSON *record)
{
    cJSON *o = cJSON_Duplicate(record, true);
    cJSON *captions = cJSON_GetObjectItemCaseSensitive(o, "captions"), *texts = cJSON_CreateArray();
    for (const cJSON *c = captions ? captions->child : NULL; c; c = c->next)
        cJSON_AddItemToArray(texts, cJSON_CreateString(vlat_str(c, "text")));
    cJSON_DeleteItemFromObjectCaseSensitive(o, "captions");
    cJSON_AddItemToObject(o, "captions", texts);
    cJSON_DeleteItemFromObjectCaseSensitive(o, "status");
    cJSON_AddStringToObject(o, "status", "ok");
    return o;
}

static int write_line(repair *r, const cJSON *line, vc_err *err)
{
    char *text = vf_json_line(line);
    int rc = text ? 0 : vc_fail(err, VC_ENOMEM, "out of memory");
    if (!rc && fprintf(r->list, "%s\n", text) < 0)
        rc = vc_fail(err, VC_EIO, "%s/repair.jsonl: %s", r->made, strerror(errno));
    free(text);
    r->lost += !rc;
    return rc;
}

/* Sample i, or its plan line where it is damaged. */
static int save_one(repair *r, uint32_t i, vc_err *err)
{
    vc_err e = { 0 };
    cJSON *record;
    int rc = vf_copy_sample(r->c, r->d, i, vf_dataset_entry(r->d, i)->number, &e);
    r->saved += !rc;
    if (!rc)
        return 0;
    if (rc != VC_EFORMAT && rc != VC_ENOENT && rc != VC_EINVAL && rc != VC_ETORN)
        return vc_fail(err, rc, "%s", e.text);
    vc_warn(r->v->progress, "lost: %s", e.text);
    vc_maps_reported();                      /* what was copied had its checksums compared */
    if (vf_dataset_sample(r->d, i, &record, NULL))
        return 0;                            /* the plan has its line, if anything has */
    cJSON *line = line_of(record);
    cJSON_Delete(record);
    rc = line ? write_line(r, line, err) : vc_fail(err, VC_ENOMEM, "out of memory");
    cJSON_Delete(line);
    return rc;
}

/* Lines of plan.jsonl whose sample is not even in the index of a shard that opens, or whose record is
 * unreadable. */
static int plan_line(repair *r, const char *text, size_t n, vc_err *err)
{
    cJSON *line, *record;
    char key[24];
    uint32_t i;
    if (vf_json_parse(&line, text, n, NULL))
        return 0;
    vf_sample_key(key, (uint32_t)vlat_num(line, "sample"), (uint32_t)vlat_num(line, "variant"));
    bool known = !vf_dataset_find(r->d, key, &i, NULL) && !vf_dataset_sample(r->d, i, &record, NULL);
    if (known)
        cJSON_Delete(record);
    int rc = known || strcmp(vlat_str(line, "status"), "ok") ? 0 : write_line(r, line, err);
    cJSON_Delete(line);
    return rc;
}

static int plan_lines(repair *r, vc_err *err)
{
    char *path = vc_path_join(r->v->path, "plan.jsonl");
    vc_map m;
    if (!path)
        return vc_fail(err, VC_ENOMEM, "out of memory");
    int rc = vc_file_exists(path) ? vc_map_open(&m, path, err) : VC_ENOENT;
    free(path);
    if (rc)
        return rc == VC_ENOENT ? 0 : rc;
    const char *at = (const char *)m.data, *end = at + m.size;
    while (!rc && at < end) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        size_t n = (size_t)((stop ? stop : end) - at);
        if (n && n < MAX_LINE)
            rc = plan_line(r, at, n, err);
        at += n + 1;
    }
    vc_map_close(&m);
    return rc;
}

static int save_all(repair *r, vc_err *err)
{
    char *list = vc_path_join(r->made, "repair.jsonl");
    int rc = vf_copy_open(&r->c, r->made, &r->d, 1, r->v->o->shard_size, err);
    if (!rc && !(r->list = list ? fopen(list, "w") : NULL))
        rc = vc_fail_errno(err, "%s", list ? list : "repair.jsonl");
    free(list);
    vc_err e = { 0 };
    if (!rc && vf_copy_prompts(r->c, r->d, &e))
        vc_warn(r->v->progress, "lost: validation prompts: %s", e.text);
    vc_progress_begin(r->v->progress, "saving", "samples", vf_dataset_count(r->d));
    for (uint32_t i = 0; !rc && i < vf_dataset_count(r->d); i++) {
        rc = save_one(r, i, err);
        vc_progress_at(r->v->progress, i + 1, NULL);
        if (!rc && *vc_stop_flag())
            rc = vc_fail(err, VC_ESTOP, "stopped; the same command goes on");
    }
    vc_progress_end(r->v->progress);
    if (!rc) rc = plan_lines(r, err);
    if (r->list && fclose(r->list) && !rc)
        rc = vc_fail_errno(err, "%s/repair.jsonl", r->made);
    if (!rc) rc = vf_copy_finish(r->c, err);
    vf_copy_close(r->c);
    return rc;
}

/* A list that an earlier repair left: the new one has what that had. */
static int forget_list(const char *folder, vc_err *err)
{
    char *list = vc_path_join(folder, "repair.jsonl");
    int rc = list ? 0 : vc_fail(err, VC_ENOMEM, "out of memory");
    if (!rc && unlink(list) && errno != ENOENT)
        rc = vc_fail_errno(err, "%s", list);
    free(list);
    return rc;
}

/* The damaged dataset, where the saved part was made, gives back others' files and goes aside. */
static int put_aside(const char *made, const char *path, const char *aside, vc_err *err)
{
    int rc = forget_list(made, err);
    if (!rc) rc = vlat_move_others(made, path, err);
    if (!rc && rename(made, aside))
        rc = vc_fail_errno(err, "%s", aside);
    return rc;
}

static int room_for(const char *aside, vc_err *err)
{
    return vc_file_exists(aside) ? vc_fail(err, VC_EINVAL, "%s is there already: remove it, and "
                                           "repair again", aside) : 0;
}

/* The saved part takes the dataset's place; the damaged one stays beside it. */
static int put_in_place(repair *r, vc_err *err)
{
    char *aside = vc_format("%s.damaged", r->v->path);
    int rc = aside ? room_for(aside, err) : vc_fail(err, VC_ENOMEM, "out of memory");
    if (!rc) rc = vlat_exchange(r->v->path, r->made, err);
    if (!rc) rc = put_aside(r->made, r->v->path, aside, err);
    if (!rc)
        fprintf(r->v->out, "%" PRIu64 " samples saved, %" PRIu64 " to be encoded again: vprep --out %s --plan "
                "%s/repair.jsonl --append, with the flags it was made with; the damaged files are in %s\n",
                r->saved, r->lost, r->v->path, r->v->path, aside);
    free(aside);
    return rc;
}

static int run_repair(const vlat *v, vc_err *err)
{
    repair r = { .v = v, .made = vc_format("%s.repair", v->path) };
    int rc = r.made ? forget_list(r.made, err) : vc_fail(err, VC_ENOMEM, "out of memory");
    if (!rc) rc = vlat_remove_left(r.made, v->path, err);
    if (!rc) rc = vf_dataset_salvage(&r.d, v->path, tell_shard, &r, err);
    if (!rc) rc = save_all(&r, err);
    vf_dataset_close(r.d);
    vc_maps_reported();                      /* what was saved was checked and is finished */
    if (!rc) rc = vlat_carry_files(v->path, r.made, err);
    if (!rc) rc = put_in_place(&r, err);
    free(r.made);
    return rc;
}

/* A dataset without damage, beside which a repair that was stopped as it ended left the damaged
 * one. */
static int end_repair(const vlat *v, vc_err *err)
{
    char *made = vc_format("%s.repair", v->path), *aside = vc_format("%s.damaged", v->path);
    int rc = made && aside ? 0 : vc_fail(err, VC_ENOMEM, "out of memory");
    if (!rc && vc_file_exists(made)) {
        rc = room_for(aside, err);
        if (!rc) rc = put_aside(made, v->path, aside, err);
        if (!rc)
            fprintf(v->out, "an earlier repair was stopped as it ended: the damaged files are in %s\n",
                    aside);
    }
    free(made);
    free(aside);
    return rc;
}

/* ---- verify ---- */

static void print_range(FILE *f, const char *what, float min, float max)
{
    if (min <= max)
        fprintf(f, "%s from %.4g to %.4g; ", what, (double)min, (double)max);
}

int vlat_verify(const vlat *v, vc_err *err)
{
    vf_verify_report r;
    char a[32], b[32], c[32], d[32], bytes[32], time[32], rate[32];
    double t = vc_seconds();
    if (vlat_is_run(v->path))
        return vlat_verify_run(v, err);
    int rc = vf_verify(v->path, print_finding, v->out, vc_stop_flag(), &r, err);
    if (rc)
        return rc;
    t = vc_seconds() - t;
    fprintf(v->out, "%s samples, %s latents, %s texts, %s thumbnails; ", vc_human_count(a, r.samples),
            vc_human_count(b, r.latents), vc_human_count(c, r.texts), vc_human_count(d, r.thumbs));
    print_range(v->out, "latents", r.latent.min, r.latent.max);
    print_range(v->out, "texts", r.text.min, r.text.max);
    fprintf(v->out, "%s in %s (%s/s): ", vc_human_bytes(bytes, (double)r.bytes),
            vc_human_time(time, t), vc_human_bytes(rate, t > 0 ? (double)r.bytes / t : 0));
    if (!r.damaged) {
        fputs("no damage\n", v->out);
        return v->o->repair ? end_repair(v, err) : 0;
    }
    fprintf(v->out, "%s findings\n", vc_human_count(b, r.damaged));
    if (v->o->repair)
        return run_repair(v, err);
    return vc_fail(err, VC_EFORMAT, "%s is damaged: --repair keeps what is good and lists what vprep is to "
                   "encode again; or copy the dataset anew", v->path);
}
