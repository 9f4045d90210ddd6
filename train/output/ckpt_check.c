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

/* Finds the newest whole checkpoint of out before `step`; *path is NULL if none exists. */
static int find_older(char **path, const char *out, int64_t step, const atomic_int *stop,
                      vc_err *err)
{
    for (;;) {
        vtrain_state s;
        vc_err bad = { 0 };
        int rc = vtrain_ckpt_before(path, out, &step, err);
        if (rc || !*path)
            return rc;
        rc = look_at(&s, *path, NULL, stop, &bad, err);
        vtrain_state_free(&s);
        if (!rc && !bad.code)
            return 0;
        free(*path);
        *path = NULL;
        if (rc)
            return rc;
    }
}

/* Fails and names the newest whole checkpoint before dir. The user decides whether to take it, as
 * the steps since are lost then. */
static int damaged(const char *dir, const vc_err *bad, const atomic_int *stop, vc_err *err)
{
    char *older = NULL, *out = vc_format("%.*s", (int)(vc_path_base(dir) - dir), dir);
    int64_t step;
    int rc = out ? 0 : vc_no_memory(err);
    if (!rc && vtrain_ckpt_step(dir, &step))
        rc = find_older(&older, *out ? out : ".", step, stop, err);
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
