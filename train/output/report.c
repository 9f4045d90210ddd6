/* report.c - writes report.html; see report.h */
#include "train/output/report.h"

#include <stdlib.h>

#include "common/os/file.h"

static int put_page(vf_html *h, const vtrain_report *r, const char *dir, vc_err *err)
{
    vf_curves *c;
    int rc = vf_curves_read(&c, dir, err);
    if (rc)
        return rc;
    vf_html_refresh(h, r->page.live ? VTRAIN_REPORT_EACH : 0);
    if (r->page.live)
        vf_html_text(h, "The run continues. This page is loaded again every %d seconds.",
                     VTRAIN_REPORT_EACH);
    rc = vf_run_page_put(h, &r->page, c, dir, err);
    vf_curves_free(c);
    return rc;
}

int vtrain_report_write(const vtrain_report *r, const char *dir, vc_err *err)
{
    vf_html *h;
    char *path = vc_path_join(dir, "report.html");
    if (!path)
        return vc_fail(err, VC_ENOMEM, "%s: out of memory", dir);

    int rc = vf_html_open(&h, r->title, err);
    if (!rc)
        rc = put_page(h, r, dir, err);
    if (!rc)
        rc = vf_html_write(h, path, err);
    vf_html_close(h);
    free(path);
    return rc;
}
