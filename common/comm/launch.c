/* launch.c - see launch.h */
#include "common/comm/launch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/buf.h"
#include "common/comm/comm.h"

/* Set in processes that vc_launch started. */
static const char started[] = "VLT_STARTED";

static bool in_slurm(void)
{
    return getenv("SLURM_JOB_ID") != NULL;
}

char *vc_launch_line(int64_t n, char *const *argv)
{
    vc_buf b = { 0 };
    vc_buf_printf(&b, "%s %lld", in_slurm() ? "srun --mpi=pmix -n" : "mpirun -np", (long long)n);
    for (; *argv; argv++) {
        vc_buf_str(&b, " ");
        vc_buf_shell(&b, *argv);
    }
    return vc_buf_take(&b);
}

static bool on_path(const char *program)
{
    const char *path = getenv("PATH");
    char file[4096];
    for (size_t n; path && *path; path += n + (path[n] == ':')) {
        n = strcspn(path, ":");
        snprintf(file, sizeof file, "%.*s/%s", (int)n, path, program);
        if (n && !access(file, X_OK))
            return true;
    }
    return false;
}

int vc_launch_check(int64_t n, char *const *argv, vc_err *err)
{
    char *line = vc_launch_line(n, argv);
    int rc = 0;
    if (!line)
        rc = vc_no_memory(err);
    else if (!vc_comm_has_mpi())
        rc = vc_fail(err, VC_EUSAGE, "this program was built without MPI, which connects ranks: "
                     "install libopenmpi-dev (scripts/setup) and build again with -DVLT_MPI=ON, or "
                     "start one process");
    else if (getenv(started))
        rc = vc_fail(err, VC_EUSAGE, "this process is alone, although mpirun started it: the "
                     "mpirun on the PATH belongs to another MPI than this program was built with");
    else if (in_slurm())
        rc = vc_fail(err, VC_EUSAGE, "in a job of Slurm srun starts the ranks: %s", line);
    else if (!on_path("mpirun"))
        rc = vc_fail(err, VC_EUSAGE, "there is no mpirun on the PATH, which starts the ranks "
                     "(package openmpi-bin; scripts/setup installs it): %s", line);
    free(line);
    return rc;
}

int vc_launch(int64_t n, char *const *argv, vc_err *err)
{
    /* For Open MPI 4 and 5: ranks are not bound to single cores, and root, who called this program,
     * may call mpirun. Another mpirun ignores the variables, but would refuse unknown flags. */
    static const char *const variables[][2] = {
        { "OMPI_MCA_hwloc_base_binding_policy", "none" },
        { "PRTE_MCA_hwloc_default_binding_policy", "none" },
        { "OMPI_MCA_rmaps_base_oversubscribe", "1" },
        { "PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe" },
        { "OMPI_ALLOW_RUN_AS_ROOT", "1" }, { "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1" },
        { started, "1" },
    };
    int words = 0, rc = 0;
    while (argv[words])
        words++;
    char **command = calloc((size_t)words + 4, sizeof *command), number[24];
    if (!command)
        return vc_no_memory(err);
    snprintf(number, sizeof number, "%lld", (long long)n);
    command[0] = "mpirun";
    command[1] = "-np";
    command[2] = number;
    memcpy(command + 3, argv, (size_t)words * sizeof *argv);
    for (size_t i = 0; !rc && i < sizeof variables / sizeof *variables; i++)
        if (setenv(variables[i][0], variables[i][1], 0))
            rc = vc_no_memory(err);
    if (!rc)
        execvp(command[0], command);
    free(command);
    return rc ? rc : vc_fail_errno(err, "mpirun");
}
