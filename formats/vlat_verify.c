/* vlat_verify.c - vlat verify: every finding a line, then the sums. */
#include "formats/vlat.h"

static void print_finding(void *arg, const char *where, const char *what)
{
    FILE *f = arg;
    vlat_print(f, where, 0);
    fputs(": ", f);
    vlat_print(f, what, 0);
    fputc('\n', f);
}

int vlat_verify(const vlat *v, vc_err *err)
{
    vf_verify_report r;
    char a[32], b[32], c[32], d[32], bytes[32], time[32], rate[32];
    double t = vc_seconds();
    int rc = vf_verify(v->path, print_finding, v->out, vc_stop_flag(), &r, err);
    if (rc)
        return rc;
    t = vc_seconds() - t;
    fprintf(v->out, "%s samples, %s latents, %s texts, %s thumbnails; %s in %s (%s/s): ",
            vc_human_count(a, r.samples), vc_human_count(b, r.latents), vc_human_count(c, r.texts),
            vc_human_count(d, r.thumbs), vc_human_bytes(bytes, (double)r.bytes),
            vc_human_time(time, t), vc_human_bytes(rate, t > 0 ? (double)r.bytes / t : 0));
    if (!r.damaged) {
        fputs("no damage\n", v->out);
        return 0;
    }
    fprintf(v->out, "%s findings\n", vc_human_count(b, r.damaged));
    return vc_fail(err, VC_EFORMAT,
                   "%s is damaged: remove the shards named above and run vprep again, which "
                   "encodes only what is missing, or copy the dataset anew",
                   v->path);
}
