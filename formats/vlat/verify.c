/* verify.c - vlat verify prints a line for each finding, then the sums; --repair copies the
 * undamaged samples into a new dataset. */
#include "formats/vlat/vlat.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/os/file.h"
#include "common/os/lines.h"
#include "formats/dataset/copy.h"

enum { MAX_LINE = 4 << 20 };

static void print_finding(void *arg, const char *where, const char *what)
{
    FILE *f = arg;
    vlat_print(f, where, 0);
    fputs(": ", f);
    vlat_print(f, what, 0);
    fputc('\n', f);
}

/* ---- repair ----
 *
 * Undamaged samples are copied to NAME.repair, which takes the dataset's place; the damaged dataset
 * becomes NAME.damaged. All of this happens under the dataset's lock. After a kill the next repair
 * finds one of these states:
 *
 *     NAME damaged            NAME.repair a part of the copy    NAME.repair is removed, repair
 *                                                               starts anew
 *     NAME the copy, with     NAME.repair the damaged dataset   NAME.repair becomes NAME.damaged
 *     repair.pending */

#define LIST "repair.jsonl"
#define PENDING "repair.pending"

typedef struct repair {
    const vlat *v;
    vf_dataset *d;
    vf_copy *c;
    char *made;                              /* folder of the copy, beside the dataset */
    const char *path;                        /* the dataset's folder */
    FILE *list;                              /* repair.jsonl in made */
    uint64_t saved, lost;
    int64_t unlisted;                          /* lost samples without a line in the list */
} repair;

static void report_shard(void *arg, const char *what)
{
    const repair *r = arg;
    vc_warn(r->v->progress, "left out: %s", what);
}

/* Turns a record into the plan line that it was made from, whose captions are texts. */
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
    int rc = text ? 0 : vc_no_memory(err);
    if (!rc && fprintf(r->list, "%s\n", text) < 0)
        rc = vc_fail(err, VC_EIO, "%s/" LIST ": %s", r->made, strerror(errno));
    free(text);
    r->lost += !rc;
    return rc;
}

/* Lists a damaged sample by its plan line; plan.jsonl has the line if the record is unreadable. */
static int list_one(repair *r, uint32_t i, vc_err *err)
{
    cJSON *record;
    int rc = vf_dataset_sample(r->d, i, &record, err);
    r->unlisted += rc == VC_EFORMAT;
    if (rc)
        return rc == VC_EFORMAT ? 0 : rc;
    cJSON *line = line_of(record);
    cJSON_Delete(record);
    rc = line ? write_line(r, line, err) : vc_no_memory(err);
    cJSON_Delete(line);
    return rc;
}

static int save_one(repair *r, uint32_t i, vc_err *err)
{
    vc_err e = { 0 };
    int rc = vf_copy_sample(r->c, r->d, i, vf_dataset_entry(r->d, i)->number, &e);
    r->saved += !rc;
    if (!rc)
        return 0;
    if (!vf_copy_met_damage(r->c))
        return vc_fail(err, rc, "%s", e.text);
    vc_warn(r->v->progress, "lost: %s", e.text);
    return list_one(r, i, err);
}

/* Whether the index has the sample of a plan line, and whether its record is readable. */
static int look_for(repair *r, const cJSON *line, bool *there, bool *known, vc_err *err)
{
    char key[24];
    uint32_t i;
    cJSON *record;
    vf_sample_key(key, (uint32_t)vlat_num(line, "sample"), (uint32_t)vlat_num(line, "variant"));
    *there = !vf_dataset_find(r->d, key, &i, NULL);
    *known = false;
    int rc = *there ? vf_dataset_sample(r->d, i, &record, err) : VC_ENOENT;
    if (rc)
        return rc == VC_EFORMAT || rc == VC_ENOENT ? 0 : rc;
    *known = true;
    cJSON_Delete(record);
    return 0;
}

/* Lists the lines of plan.jsonl whose sample is in no index of a shard that opens, or whose record
 * is unreadable. */
static int plan_line(repair *r, const char *text, size_t n, vc_err *err)
{
    cJSON *line;
    bool there, known;
    int rc = vf_json_parse(&line, text, n, err);
    if (rc)
        return rc == VC_EFORMAT ? 0 : rc;
    rc = look_for(r, line, &there, &known, err);
    if (!rc && !known && !strcmp(vlat_str(line, "status"), "ok")) {
        rc = write_line(r, line, err);
        r->unlisted -= there;
    }
    cJSON_Delete(line);
    return rc;
}

static int plan_lines(repair *r, vc_err *err)
{
    char *path = vc_path_join(r->path, "plan.jsonl");
    vc_map m;
    if (!path)
        return vc_no_memory(err);
    int rc = vc_map_open(&m, path, err);
    free(path);
    if (rc)
        return rc == VC_ENOENT ? 0 : rc;
    vc_lines l = vc_lines_of(m.data, m.size, MAX_LINE);
    const char *line;
    size_t n;
    while (!(rc = vc_lines_next(&l, &line, &n, err)) && line)
        if (n && (rc = plan_line(r, line, n, err)))
            break;
    vc_map_close(&m);
    if (rc == VC_EFORMAT && !line) {             /* the rest of the list is damaged */
        vc_warn(r->v->progress, "plan.jsonl: line %" PRId64 " and what follows is unreadable",
                l.number);
        rc = 0;
    }
    return vc_context(err, rc, "plan.jsonl");
}

static int open_list(repair *r, vc_err *err)
{
    char *list = vc_path_join(r->made, LIST);
    int rc = list ? 0 : vc_no_memory(err);
    if (!rc && !(r->list = fopen(list, "we")))
        rc = vc_fail_errno(err, "%s", list);
    free(list);
    return rc;
}

/* The list is durable before the exchange, as nothing else records the lost samples. */
static int close_list(repair *r, int rc, vc_err *err)
{
    if (!rc && (fflush(r->list) || fsync(fileno(r->list))))
        rc = vc_fail_errno(err, "%s/" LIST, r->made);
    if (r->list && fclose(r->list) && !rc)
        rc = vc_fail_errno(err, "%s/" LIST, r->made);
    return rc ? rc : vc_sync_dir(r->made, err);
}

static int save_prompts(repair *r, vc_err *err)
{
    vc_err e = { 0 };
    int rc = vf_copy_prompts(r->c, r->d, &e);
    if (rc && !vf_copy_met_damage(r->c))
        return vc_fail(err, rc, "%s", e.text);
    if (rc)
        vc_warn(r->v->progress, "lost: validation prompts: %s", e.text);
    return 0;
}

static int save_all(repair *r, vc_err *err)
{
    int rc = vf_copy_open(&r->c, r->made, &r->d, 1, r->v->o->shard_size, err);
    if (!rc)
        rc = open_list(r, err);
    if (!rc)
        rc = save_prompts(r, err);
    vc_progress_begin(r->v->progress, "saving", "samples", vf_dataset_count(r->d));
    for (uint32_t i = 0; !rc && i < vf_dataset_count(r->d); i++) {
        rc = save_one(r, i, err);
        vc_progress_at(r->v->progress, i + 1, NULL);
        if (!rc && *vc_stop_flag())
            rc = vc_fail(err, VC_ESTOP, "stopped; the same command continues");
    }
    vc_progress_end(r->v->progress);
    if (!rc)
        rc = plan_lines(r, err);
    rc = close_list(r, rc, err);
    if (!rc)
        rc = vf_copy_finish(r->c, err);
    vf_copy_close(r->c);
    return rc;
}

static int forget(const char *folder, const char *name, vc_err *err)
{
    char *path = vc_path_join(folder, name);
    int rc = path ? 0 : vc_no_memory(err);
    if (!rc && unlink(path) && errno != ENOENT && errno != ENOTDIR)
        rc = vc_fail_errno(err, "%s", path);
    free(path);
    return rc;
}

static int room_for(const char *aside, vc_err *err)
{
    struct stat st;
    if (lstat(aside, &st))
        return errno == ENOENT ? 0 : vc_fail_errno(err, "%s", aside);
    return vc_fail(err, VC_EINVAL, "%s exists already, from an earlier repair: when you need "
                                   "nothing "
                   "more from it, remove it or move it away, and repair again", aside);
}

/* Moves files that do not belong to the damaged dataset back into the copy, and the damaged
 * dataset, which now has the copy's old name, to NAME.damaged. */
static int put_aside(const char *made, const char *path, const char *aside, vc_err *err)
{
    int rc = forget(made, LIST, err);        /* of an earlier repair, which the new list includes */
    if (!rc)
        rc = vlat_move_others(made, path, err);
    if (!rc && rename(made, aside))
        rc = vc_fail_errno(err, "%s", aside);
    return rc ? rc : forget(path, PENDING, err);
}

/* Puts the copy in the dataset's place; the damaged dataset stays beside it. */
static int put_in_place(repair *r, const char *aside, vc_err *err)
{
    static const char text[] = "A repair was stopped here: vlat verify --repair completes it.\n";
    char *pending = vc_path_join(r->made, PENDING);
    int lock = -1;
    int rc = pending ? vc_file_write(pending, text, strlen(text), err)
                     : vc_no_memory(err);
    free(pending);
    if (!rc)
        rc = vlat_exchange(r->path, r->made, &lock, err);
    if (!rc)
        rc = put_aside(r->made, r->path, aside, err);
    if (!rc)
        fprintf(r->v->out, "%" PRIu64 " samples saved, %" PRIu64 " to be encoded again by vprep "
                                                                 "--out "
                "%s --plan %s/" LIST " --append and the flags of the first run; the damaged files "
                "are in %s\n",
                r->saved, r->lost, r->path, r->path, aside);
    if (!rc && r->unlisted > 0)
        vc_warn(r->v->progress, "%" PRId64 " lost samples are in no list: their records are "
                "unreadable, and plan.jsonl does not have them", r->unlisted);
    if (lock >= 0)
        close(lock);
    return rc;
}

/* Refuses a dataset that vprep has not finished: shards with samples are missing in its
 * manifest. */
static int need_finished(const char *path, vc_err *err)
{
    int shards;
    bool complete;
    int rc = vf_dataset_progress(path, &shards, &complete, err);
    if (!rc && !complete)
        rc = vc_fail(err, VC_EINVAL, "%s: vprep has not finished it: run vprep again with the same "
                     "command, which continues there or names the file that it cannot read; then "
                     "repair", path);
    return rc;
}

static int run_repair(repair *r, const char *aside, vc_err *err)
{
    int rc = room_for(aside, err);
    if (!rc)
        rc = need_finished(r->path, err);
    if (!rc)
        rc = forget(r->made, LIST, err);
    if (!rc)
        rc = forget(r->made, PENDING, err);
    if (!rc)
        rc = forget(r->made, PENDING ".tmp-vlt", err);
    if (!rc)
        rc = vlat_remove_left(r->made, r->path, err);
    if (!rc)
        rc = vf_dataset_salvage(&r->d, r->path, report_shard, r, err);
    if (!rc)
        rc = save_all(r, err);
    vf_dataset_close(r->d);
    if (!rc)
        rc = vlat_carry_files(r->path, r->made, err);
    if (rc == VC_EIO || rc == VC_ENOMEM)
        vc_context(err, rc, "%s: nothing was changed, as this error is not about the data",
                   r->path);
    return rc ? rc : put_in_place(r, aside, err);
}

/* Completes a repair that was stopped after the exchange: the damaged dataset has the copy's
 * name. */
static int end_repair(const repair *r, const char *aside, vc_err *err)
{
    struct stat st;
    int rc = 0;
    if (lstat(r->made, &st))
        return errno == ENOENT ? forget(r->path, PENDING, err) : vc_fail_errno(err, "%s", r->made);
    rc = room_for(aside, err);
    if (!rc)
        rc = put_aside(r->made, r->path, aside, err);
    if (!rc)
        fprintf(r->v->out, "an earlier repair was stopped near its end and is complete now: the "
                           "damaged "
                "files are in %s\n",
                aside);
    return rc;
}

/* ---- verify ---- */

static void print_range(FILE *f, const char *what, float min, float max)
{
    if (min <= max)
        fprintf(f, "%s from %.4g to %.4g; ", what, (double)min, (double)max);
}

static int say_result(const vlat *v, const vf_verify_report *r, double seconds, vc_err *err)
{
    char a[32], b[32], c[32], d[32], bytes[32], time[32], rate[32];
    fprintf(v->out, "%s sample%s, %s latent%s, %s text%s, %s thumbnail%s; ",
            vc_human_count(a, r->samples), vc_s((double)r->samples),
            vc_human_count(b, r->latents), vc_s((double)r->latents),
            vc_human_count(c, r->texts), vc_s((double)r->texts),
            vc_human_count(d, r->thumbs), vc_s((double)r->thumbs));
    print_range(v->out, "latents", r->latent.min, r->latent.max);
    print_range(v->out, "texts", r->text.min, r->text.max);
    fprintf(v->out, "%s in %s (%s/s): ", vc_human_bytes(bytes, (double)r->bytes),
            vc_human_time(time, seconds),
            vc_human_bytes(rate, seconds > 0 ? (double)r->bytes / seconds : 0));
    if (!r->damaged && !r->unreadable)
        fputs("no damage\n", v->out);
    else
        fprintf(v->out, "%s findings%s\n", vc_human_count(b, r->damaged + r->unreadable),
                v->o->repair || r->unreadable ? "" : "; --repair keeps what is good");
    if (!r->unreadable)
        return 0;
    return vc_fail(err, VC_EIO, "%s: %" PRIu64 " of the findings are files that could not be read, "
                   "so their content is unknown%s: remove the cause and verify again. If a disk no "
                   "longer reads a file, move the file away: --repair then lists its samples",
                   v->path, r->unreadable, v->o->repair ? "; nothing was repaired" : "");
}

static int check(const vlat *v, const char *path, bool *damaged, vc_err *err)
{
    vf_verify_report r;
    double t = vc_seconds();
    int rc = vf_verify(path, print_finding, v->out, vc_stop_flag(), &r, err);
    *damaged = !rc && r.damaged;
    return rc ? rc : say_result(v, &r, vc_seconds() - t, err);
}

/* The caller took the lock before it opened anything. */
static int check_and_repair(repair *r, const char *aside, vc_err *err)
{
    bool damaged = false;
    char *pending = vc_path_join(r->path, PENDING);
    int rc = pending ? 0 : vc_no_memory(err);
    if (!rc && vc_file_exists(pending))
        rc = end_repair(r, aside, err);
    free(pending);
    if (!rc)
        rc = check(r->v, r->path, &damaged, err);
    return rc || !damaged ? rc : run_repair(r, aside, err);
}

static int verify_and_repair(const vlat *v, vc_err *err)
{
    repair r = { .v = v };
    char *path = NULL, *aside = NULL;
    int lock = -1, rc = vlat_folder(&path, v->path, err);
    if (!rc && (!(r.made = vc_format("%s.repair", path)) ||
                !(aside = vc_format("%s.damaged", path))))
        rc = vc_no_memory(err);
    r.path = path;
    if (!rc)
        rc = vf_dataset_lock(&lock, path, err);
    if (!rc)
        rc = check_and_repair(&r, aside, err);
    if (lock >= 0)
        close(lock);
    free(r.made);
    free(aside);
    free(path);
    return rc;
}

int vlat_verify(const vlat *v, vc_err *err)
{
    bool damaged;
    if (vlat_is_run(v->path))
        return vlat_verify_run(v, err);
    if (v->o->repair)
        return verify_and_repair(v, err);
    int rc = check(v, v->path, &damaged, err);
    if (!rc && damaged)
        rc = vc_fail(err, VC_EFORMAT, "%s is damaged: --repair keeps the undamaged samples and "
                                      "lists those "
                     "that vprep must encode again; or copy the dataset again", v->path);
    return rc;
}
