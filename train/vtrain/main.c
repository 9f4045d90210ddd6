/* vtrain: latent dataset -> LoRA or finetuned weights. Prints errors and picks the exit status. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/comm/launch.h"
#include "common/os/heap.h"
#include "common/os/streams.h"
#include "common/os/threads.h"
#include "train/settings/settings.h"
#include "train/vtrain.h"
#include "train/vtrain/run.h"

enum { EXIT_USAGE = 2, EXIT_SIGNAL = 128 };

static int status_of(int rc, const atomic_int *stop)
{
    if (rc == VC_EUSAGE)
        return EXIT_USAGE;
    if (rc == VC_ESTOP)
        return EXIT_SIGNAL + (*stop ? *stop : SIGTERM);                   /* 0: no signal did */
    return rc ? EXIT_FAILURE : EXIT_SUCCESS;
}

/* From here on the others are watched in silence. */
static void end_watch(vc_comm *comm, const vtrain_config *c)
{
    vc_comm_watch(comm, &(vc_comm_watch_opts){ (double)c->comm_timeout, NULL });
}

/* Runs the training; rank 0 alone prints, and another rank only where that does not answer. */
static int run(vc_flags *set, vtrain_config *c, vc_comm *comm, vc_err *err)
{
    vc_progress *own = NULL, *ui;
    int rc = vc_progress_open(&own, "vtrain", (vc_log_format)c->log_format, c->quiet, err);
    vc_comm_watch(comm, &(vc_comm_watch_opts){ (double)c->comm_timeout, own });
    rc = vc_comm_agree(comm, rc ? rc : vc_catch_stop(err), err);
    if (rc) {
        end_watch(comm, c);
        vc_progress_close(own);
        return rc;
    }
    ui = vc_comm_rank(comm) == 0 ? own : NULL;
    vc_flags_name_typed(set, ui);
    const char *note;
    for (int i = 0; (note = vc_flags_note(set, i)); i++)
        vc_say(ui, "%s", note);
    rc = vtrain_run(c, set, comm, stdout, ui, vc_stop_flag(), err);
    end_watch(comm, c);
    vc_progress_close(own);
    return rc;
}

/* Checks the flags without opening files, and collects all errors at once. */
static int check(vtrain_config *c, vc_flags *set, int ranks, vc_err *err)
{
    int rc = vtrain_take_shorthand(c, set, err);
    if (!rc)
        rc = vc_flags_catch(set, vtrain_check_ranks(c, ranks, err), err);
    return rc ? rc : vtrain_check(c, set, err);
}

/* Becomes n ranks of the same command. */
static int start_ranks(const vc_flags *set, const vtrain_config *c, int64_t n, char **argv,
                       vc_err *err)
{
    char flag[64], *typed, *line;
    int rc = vc_launch_check(n, argv, err);
    snprintf(flag, sizeof flag, "--num_processes %lld", (long long)n);
    if (rc)
        return vc_context(err, rc, "%s", flag);
    typed = vc_flags_as_typed(set, flag);
    line = vc_launch_line(n, argv);
    if (typed && line && !c->quiet)
        fprintf(stderr, "vtrain: %s: %s\n", typed, line);
    rc = typed && line ? vc_launch(n, argv, err) : vc_no_memory(err);
    free(typed);
    free(line);
    return rc;
}

/* Checks the flags, which were read with `parsed`, and trains, unless these ask for a text. */
static int checked_run(vc_flags *set, vtrain_config *c, vc_comm *comm, int parsed, char **argv,
                       vc_err *err)
{
    const bool starts = vc_comm_size(comm) == 1 && c->num_processes > 1 && !c->status;
    const int64_t wanted = c->num_processes;
    int rc = parsed;
    if ((rc == 0 || rc == VC_EUSAGE) && !c->status)
        rc = check(c, set, starts ? (int)wanted : vc_comm_size(comm), err);
    if (rc == 0 && starts)
        rc = start_ranks(set, c, wanted, argv, err);
    if (rc > 0 && vc_comm_rank(comm) == 0 && vc_flags_print(set, stdout, err))
        rc = err->code;
    rc = vc_comm_agree(comm, rc, err);
    if (rc)
        return rc > 0 ? 0 : rc;
    return c->status ? vtrain_status(c->status, stdout, err) : run(set, c, comm, err);
}

int main(int argc, char **argv)
{
    vtrain_config c = { 0 };
    vc_flags *set = NULL;
    vc_comm *comm = NULL;
    vc_err err = { 0 }, flags_err = { 0 };
    int parsed = 0;
    vc_heap_return_freed();
    vc_std_open();
    int rc = vc_calm_threads(argv, &err);
    if (!rc) {
        parsed = vc_flags_parse(&set, &vtrain_program, &c, argc, argv, NULL, &flags_err);
        rc = vc_comm_open(&comm, &(vc_comm_start){ .program = "vtrain",
                          .log_format = (vc_log_format)c.log_format,
                          .patience = (double)c.comm_timeout }, &err);
    }
    if (!rc && vc_comm_rank(comm) > 0 && !freopen("/dev/null", "w", stdout))
        rc = vc_fail_errno(&err, "/dev/null");
    if (!rc) {
        err = flags_err;
        rc = checked_run(set, &c, comm, parsed, argv, &err);
    }
    if (rc && vc_comm_leads(comm))
        vc_flags_report(comm ? set : NULL, "vtrain", &err, rc);
    vc_flags_free(set);
    vc_comm_close(comm);
    return status_of(rc, vc_stop_flag());
}
