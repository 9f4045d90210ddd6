/* report_runs.c - vlat report RUN... and vlat compare: one HTML file about a training run, or one
 * that ranks several and lays them over each other. */
#include <stdlib.h>

#include "formats/report/runs.h"
#include "formats/vlat/vlat.h"

static int write_page(const vlat *v, const vf_runs *r, const char *path, vc_err *err)
{
    vf_html *h;
    int rc = vf_html_open(&h, r->n > 1 ? "Training runs" : r->run[0].name, err);
    if (!rc)
        rc = r->n > 1 ? vf_runs_put(h, r, err) : vf_runs_put_one(h, &r->run[0], false, err);
    if (!rc)
        rc = vf_html_write(h, path, err);
    if (!rc)
        fprintf(v->out, "%s\n", path);
    vf_html_close(h);
    return rc;
}

/* Prints the runs from the best to the worst. */
static void print_order(const vlat *v, const vf_runs *r)
{
    int order[VF_RUNS];
    vf_runs_rank(order, r);
    for (int i = 0; i < r->n; i++) {
        vf_score s;
        const vf_run *run = &r->run[order[i]];
        fprintf(v->out, "%d  ", i + 1);
        vlat_print(v->out, run->name, 0);
        if (!vf_run_score(&s, run))
            fputs("  no step yet\n", v->out);
        else
            fprintf(v->out, "  %.5f  %s, step %.0f\n", s.loss,
                    s.held_out ? "least held-out loss" : "training loss", s.step);
    }
}

int vlat_report_runs(const vlat *v, vc_err *err)
{
    vf_runs *r = calloc(1, sizeof *r);
    int rc = r ? vf_runs_find(r, v->words->item, v->words->n, err) : vc_no_memory(err);
    if (!rc && r->left_out)
        rc = vc_fail(err, VC_EUSAGE, "a page shows %d runs at most, not %d", VF_RUNS,
                     r->n + r->left_out);
    if (!rc)
        rc = vf_runs_read(r, true, err);
    if (!rc)
        rc = write_page(v, r, v->o->out ? v->o->out : "compare.html", err);
    if (!rc && v->o->ranks)
        print_order(v, r);
    if (r)
        vf_runs_free(r);
    free(r);
    return rc;
}

int vlat_compare(const vlat *v, vc_err *err)
{
    vlat_options o = *v->o;
    vlat w = *v;
    o.ranks = true;
    w.o = &o;
    return vlat_report_runs(&w, err);
}
