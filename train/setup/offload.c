/* offload.c - see offload.h */
#include "train/setup/offload.h"

#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "common/os/file.h"

enum { IN_MEMORY = 0x01021994 };               /* statfs's f_type of a tmpfs */

static int refuse_device(const char *where, vc_err *err)
{
    return vc_fail(err, VC_EUSAGE, "--offload_optimizer %s: on a GPU the optimiser's state stays "
                   "on the device: --optimizer adamw8bit or adamw_bf16 has less of it, and "
                   "--parallel zero2 or fsdp splits it over several GPUs", where);
}

static int check_folder(const char *folder, vc_err *err)
{
    struct stat st;
    if (!stat(folder, &st) && S_ISDIR(st.st_mode))
        return 0;
    return vc_fail(err, VC_EUSAGE, "--offload_optimizer %s: there is no such folder: make it, or "
                   "give none, cpu, disk or another folder", folder);
}

int vtrain_offload_folder(const char **folder, const vtrain *t, vc_err *err)
{
    const char *where = t->cfg.offload_optimizer;
    struct statfs fs;
    int rc = 0;
    *folder = NULL;
    if (!strcmp(where, "none"))
        return 0;
    if (!vt_host_memory(t->g))
        return refuse_device(where, err);
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
