/* ckpt_check.c - vtrain_ckpt_read of ckpt.h: compares a checkpoint with its checksums. */
#include <stdlib.h>
#include <string.h>

#include "common/os/file.h"
#include "train/output/ckpt.h"

/* Files that a resumed run reads. */
static const char *const read_back[] = { "trainer.json", "optimizer.safetensors", NULL };

typedef struct look {
    const char *dir;
    vc_progress *ui;
    vc_err *bad;                              /* the first damage to a file of read_back */
} look;

static void found(void *arg, const char *file, const char *damage)
{
    look *l = arg;
    bool counts = !strcmp(file, VF_SUMS_FILE);
    for (const char *const *p = read_back; *p; p++)
        counts |= !strcmp(file, *p);
    if (!counts)
        vc_warn(l->ui, "%s/%s %s; the run continues, as it does not need this file", l->dir, file,
                damage);
    else if (!l->bad->code)
        vc_fail(l->bad, VC_EFORMAT, "%s %s", file, damage);
}

/* Checks and reads a checkpoint. Returns 0 also for a damaged one: *bad then describes the damage
 * and *s is empty. */
static int look_at(vtrain_state *s, const char *dir, vc_progress *ui, const atomic_int *stop,
                   vc_err *bad, vc_err *err)
{
    look l = { dir, ui, bad };
    vf_sums_report r;
    *s = (vtrain_state){ 0 };
    int rc = vf_sums_check(dir, read_back, found, &l, stop, &r, err);
    if (rc || bad->code)
        return rc;
    rc = vtrain_state_read(s, dir, bad);
    if (rc == VC_ENOMEM)
        return vc_fail(err, rc, "%s", bad->text);
    if (rc)
        return 0;
    if (r.none && s->checksums) {
        vtrain_state_free(s);
        vc_fail(bad, VC_EFORMAT, VF_SUMS_FILE " is missing, although the checkpoint was written "
                "with one");
    } else if (r.none) {
        vc_say(ui, "%s was made by an earlier version, without checksums: its files cannot be "
               "checked", dir);
    }
    return 0;
}

/* The same for a checkpoint of out by its step; a folder without trainer.json is damaged. */
static int look_at_step(char **path, vtrain_state *s, const char *out, int64_t step,
                        vc_progress *ui, const atomic_int *stop, vc_err *bad, vc_err *err)
{
    char *name = vtrain_ckpt_name(step);
    *s = (vtrain_state){ 0 };
    *path = name ? vc_path_join(out, name) : NULL;
    free(name);
    if (!*path)
        return vc_no_memory(err);
    if (vc_file_exists_in(*path, "trainer.json"))
        return look_at(s, *path, ui, stop, bad, err);
    vc_fail(bad, VC_EFORMAT, "trainer.json is missing");
    return 0;
}

/* Finds and reads the newest whole checkpoint of out before step `before`; *path is NULL if none
 * exists. With ui, warns of each damaged one. *first describes the newest damage, if any. */
static int find_whole(char **path, vtrain_state *s, const char *out, int64_t before,
                      vc_progress *ui, const atomic_int *stop, vc_err *first, vc_err *err)
{
    int64_t *steps;
    int n, rc = vtrain_ckpt_steps(&steps, &n, out, err);
    *path = NULL;
    *s = (vtrain_state){ 0 };
    while (!rc && n-- > 0 && !*path) {
        vc_err bad = { 0 };
        if (steps[n] >= before)
            continue;
        rc = look_at_step(path, s, out, steps[n], ui, stop, &bad, err);
        if (!rc && !bad.code)
            break;
        if (!rc && ui)
            vc_warn(ui, "%s is damaged and is passed over: %s", *path, bad.text);
        if (!rc && !first->code)
            vc_fail(first, VC_EFORMAT, "%s: %s", *path, bad.text);
        free(*path);
        *path = NULL;
    }
    free(steps);
    return rc;
}

/* Fails and names the newest whole checkpoint before dir: a checkpoint that was named is used or
 * refused. */
static int damaged(const char *dir, const vc_err *bad, const atomic_int *stop, vc_err *err)
{
    char *older = NULL, *out = vc_format("%.*s", (int)(vc_path_base(dir) - dir), dir);
    int64_t step;
    vc_err first = { 0 };
    vtrain_state s = { 0 };
    int rc = out ? 0 : vc_no_memory(err);
    if (!rc && vtrain_ckpt_step(dir, &step))
        rc = find_whole(&older, &s, *out ? out : ".", step, NULL, stop, &first, err);
    vtrain_state_free(&s);
    free(out);
    if (rc)
        return rc;
    rc = older ? vc_fail(err, bad->code, "%s: restore the checkpoint, or continue from the newest "
                         "whole one before, --resume_from_checkpoint %s", bad->text, older)
               : vc_fail(err, bad->code, "%s: restore the checkpoint, or begin anew in another "
                         "--output_dir: there is no whole checkpoint before", bad->text);
    free(older);
    return rc;
}

int vtrain_ckpt_read(vtrain_state *s, const char *dir, vc_progress *ui, const atomic_int *stop,
                     vc_err *err)
{
    vc_err bad = { 0 };
    int rc = look_at(s, dir, ui, stop, &bad, err);
    return rc || !bad.code ? rc : damaged(dir, &bad, stop, err);
}

int vtrain_ckpt_read_latest(char **path, vtrain_state *s, const char *out, vc_progress *ui,
                            const atomic_int *stop, vc_err *err)
{
    vc_err first = { 0 };
    int rc = find_whole(path, s, out, INT64_MAX, ui, stop, &first, err);
    if (rc || *path || !first.code)
        return rc;
    return vc_fail(err, first.code, "%s: no checkpoint of the run is whole: restore this one, or "
                   "begin anew in another --output_dir", first.text);
}
