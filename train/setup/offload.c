/* offload.c - see offload.h */
#include "train/setup/offload.h"

#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "common/os/file.h"

enum { IN_MEMORY = 0x01021994 };               /* statfs's f_type of a tmpfs */

/* On a device with its own memory: only whole state, and not an optimiser whose weights of files
 * are found from the state by kernels. */
static int check_device(const vtrain *t, const char *where, vc_err *err)
{
    const vt_optimizer_row *row = &vt_optimizers[t->cfg.optimizer];
    if (strcmp(where, "cpu"))
        return vc_fail(err, VC_EUSAGE, "--offload_optimizer %s: on a GPU the optimiser's state "
                       "goes to the host's memory, not to a disk: give cpu", where);
    if (row->run && row->run->shown)
        return vc_fail(err, VC_EUSAGE, "--offload_optimizer cpu: not on a GPU with --optimizer %s, "
                       "whose weights of files and samples are computed from its state: leave it "
                       "out, or give another --optimizer", row->name);
    return 0;
}

static int check_folder(const char *folder, vc_err *err)
{
    struct stat st;
    if (!stat(folder, &st) && S_ISDIR(st.st_mode))
        return 0;
    return vc_fail(err, VC_EUSAGE, "--offload_optimizer %s: there is no such folder: make it, or "
                   "give none, cpu, disk or another folder", folder);
}

int vtrain_offload_where(const char **folder, bool *host, const vtrain *t, vc_err *err)
{
    const char *where = t->cfg.offload_optimizer;
    struct statfs fs;
    int rc = 0;
    *folder = NULL;
    *host = false;
    if (!strcmp(where, "none"))
        return 0;
    *host = !vt_host_memory(t->g);
    if (*host)
        return check_device(t, where, err);
    if (!strcmp(where, "cpu")) {
        vc_say(t->ui, "--offload_optimizer cpu: has no effect on the CPU, where the optimiser's "
               "state is in the host's memory anyway: disk needs less of it");
        return 0;
    }
    *folder = strcmp(where, "disk") ? where : t->cfg.output_dir;
    if (*folder == where)
        rc = check_folder(where, err);
    else if (!t->cfg.dry_run)
        rc = vc_mkdirs(*folder, err);
    if (!rc && !statfs(*folder, &fs) && fs.f_type == IN_MEMORY)
        vc_warn(t->ui, "--offload_optimizer %s: %s is a file system in memory, so that no memory "
                "is saved: give a folder on a disk", where, *folder);
    return rc;
}

/* ---- gradients ---- */

bool vtrain_offloads_grads(const vtrain *t)
{
    const vtrain_config *c = &t->cfg;
    return !strcmp(c->offload_optimizer, "cpu") && !vt_host_memory(t->g) &&
           c->training_type == VTRAIN_FULL && vc_comm_size(t->comm) == 1 && !vtrain_both(t) &&
           !c->trace_dir;
}

int vtrain_offload_update(bool *update, const vtrain *t, vc_err *err)
{
    const vt_optimizer_row *row = &vt_optimizers[t->cfg.optimizer];
    const bool wanted = t->cfg.offload_update;
    *update = wanted && !vt_host_memory(t->g);
    if (wanted && !*update)
        vc_say(t->ui, "--offload_update host: has no effect on the CPU, which updates anyway");
    if (*update && !vtrain_offloads_grads(t))
        return vc_fail(err, VC_EUSAGE, "--offload_update host: state and gradients are not in the "
                       "host's memory, which takes --offload_optimizer cpu, a full finetune of one "
                       "transformer, one GPU and no --trace_dir: give these, or leave it out");
    if (*update && row->run)
        return vc_fail(err, VC_EUSAGE, "--offload_update host: --optimizer %s measures or "
                       "multiplies whole tensors, which is left to the GPU: leave it out, or give "
                       "adamw, adamw_bf16, adamw8bit, lion or lion8bit", row->name);
    return 0;
}

static void enter(void *arg, const vt_block *b, bool backward)
{
    if (backward)
        vt_params_grads_enter(arg, b->index);
}

static void ready(void *arg, const vt_block *b)
{
    vt_params_grads_ready(arg, b->index);
}

int vtrain_offload_grads(vtrain *t, vc_err *err)
{
    const vt_hooks hooks = { .arg = t->params, .enter = enter, .grads_ready = ready };
    int rc = vt_params_host_grads(t->params, &t->optim.host_grads, err);
    if (!rc)
        vt_set_hooks(t->g, &hooks);
    return rc;
}
