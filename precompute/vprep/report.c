/* report.c - writes plan.jsonl and prints the table of buckets; see plan.h */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/os/file.h"
#include "common/os/streams.h"
#include "precompute/run/reuse.h"
#include "precompute/vprep/plan_lines.h"
#include "precompute/vprep/record.h"
#include "precompute/vprep/table.h"

enum { SHOWN_DROPS = 20 };               /* of a stage, in a dry run; errors.jsonl has all */

static void print_drop(FILE *out, const vprep_error *e)
{
    fprintf(out, "dropped: row %lld%s", (long long)e->row, *e->path ? ", " : "");
    vc_print(out, e->path, 0);
    fputs(": ", out);
    vc_print(out, e->reason, 0);
    fputc('\n', out);
}

/* Prints the first drops of each stage, rows in order. */
static void print_drops(vprep *p, FILE *out)
{
    const char *stage[VPREP_STAGES] = { NULL };
    uint32_t n[VPREP_STAGES] = { 0 }, left = 0;

    vprep_sort_errors(p);
    for (uint32_t i = 0; i < p->errors.n; i++) {
        const vprep_error *e = &p->errors.list[i];
        int k = 0;
        while (k + 1 < VPREP_STAGES && stage[k] && strcmp(stage[k], e->stage))
            k++;
        stage[k] = e->stage;
        if (n[k]++ < SHOWN_DROPS)
            print_drop(out, e);
        else
            left++;
    }
    if (left)
        fprintf(out, "... and %u more in %s/errors.jsonl\n", left, p->c.out);
}

/* b: a line without its end. */
static int put_line(FILE *f, vc_buf *b, vc_err *err)
{
    vc_buf_str(b, "\n");
    if (b->failed)
        return vc_fail(err, VC_ENOMEM, "plan.jsonl: out of memory");
    return fwrite(b->data, 1, b->n, f) == b->n ? 0 : vc_fail_errno(err, "plan.jsonl");
}

/* The line of a row that cannot be used and has no kept sample, which reserves its number. */
static bool is_lost(const vprep *p, int64_t i)
{
    const vprep_source *s = &p->list.sources[i];
    return !s->ok && s->number != VPREP_NO_NUMBER && !vprep_keeps(p, s->number);
}

static int lost_lines(const vprep *p, FILE *f, vc_err *err)
{
    vc_buf b = { 0 };
    int rc = 0;

    for (int64_t i = 0; !rc && i < p->list.meta.n; i++) {
        if (!is_lost(p, i))
            continue;
        b.n = 0;
        vprep_lost_line(&b, p, (uint32_t)i);
        rc = put_line(f, &b, err);
    }
    vc_buf_free(&b);
    return rc;
}

/* First come the lines of samples that stay although this run does not have them: with --append,
 * and where a source cannot be read. */
static int keep_plan(const vprep *p, FILE *f, const char *path, vc_err *err)
{
    vf_keymap now = { 0 };
    int rc = 0;

    if ((!p->c.append && !p->plan.n_kept) || !vc_file_exists(path))
        return 0;
    for (uint32_t i = 0; !rc && i < p->plan.n_items; i++)
        rc = vf_keymap_put(&now, plan_line_key(p->plan.items[i].number, p->plan.items[i].variant),
                           0, err);
    for (int64_t i = 0; !rc && i < p->list.meta.n; i++)
        if (is_lost(p, i))
            rc = vf_keymap_put(&now, plan_line_key(p->list.sources[i].number, 0), 0, err);
    if (!rc)
        rc = plan_keep_lines(f, p, path, &now, err);
    vf_keymap_free(&now);
    return rc;
}

/* Whether tokens with n texts of `rows` tokens are whole mini-batches. */
static bool is_whole(const vprep *p, int64_t tokens, int64_t n, int64_t rows)
{
    return (tokens + n * rows) % p->c.ttt_mini_batch == 0;
}

/* Fails where a clip's tokens and those of its segments are no multiple of --ttt_mini_batch, and
 * names the nearest lengths of texts that are. */
static int check_tokens(const vprep *p, const vprep_item *it, const vb_choice *c, vc_err *err)
{
    const int64_t m = p->c.ttt_mini_batch, n = vprep_segments(p, it), rows = p->encoders.text->rows;
    int64_t less = rows - 1, more = rows + 1;
    char remedy[96] = "no length of texts makes one", other[32] = "";

    if (!m || !n || is_whole(p, c->tokens, n, rows))
        return 0;
    while (less > 0 && !is_whole(p, c->tokens, n, less))
        less--;
    while (more < rows + m && !is_whole(p, c->tokens, n, more))
        more++;
    if (less > 0)
        snprintf(other, sizeof other, " or %lld", (long long)less);
    if (more < rows + m)
        snprintf(remedy, sizeof remedy, "give --tokenizer_max_length %lld%s", (long long)more,
                 other);
    return vc_fail(err, VC_EUSAGE, "--ttt_mini_batch %lld: clips of %lld segments of %dx%d have "
                   "%lld tokens, with texts of %lld tokens %lld, which is no multiple: %s",
                   (long long)m, (long long)n, c->target_w, c->target_h, (long long)c->tokens,
                   (long long)rows, (long long)(c->tokens + n * rows), remedy);
}

/* Writes a temporary file and renames it, so that a million lines are never in memory. */
static int write_plan(vprep *p, FILE *f, prep_table *t, vc_err *err)
{
    vc_buf line = { 0 };
    int rc = 0;

    for (uint32_t i = 0; !rc && i < p->plan.n_items; i++) {
        const vprep_item *it = &p->plan.items[i];
        vprep_clip clip;
        rc = vprep_clip_of(p, it, &clip, err);
        line.n = 0;
        if (!rc)
            vprep_plan_line(&line, p, it, &clip);
        if (!rc)
            rc = put_line(f, &line, err);
        if (!rc && !clip.choice.drop)
            rc = check_tokens(p, it, &clip.choice, err);
        if (!rc)
            rc = clip.choice.drop ? vprep_note_drop(p, it, &clip, err)
                                  : prep_table_add(t, it, &clip, err);
        vprep_clip_free(&clip);
        if (!rc && *vc_stop_flag())
            rc = vc_fail(err, VC_ESTOP, "stopped");
    }
    vc_buf_free(&line);
    if (!rc && (fflush(f) || fsync(fileno(f))))
        rc = vc_fail_errno(err, "plan.jsonl");
    return rc;
}

/* Prints which files of a folder or tar are no samples, and that the names of its folders give
 * weights. */
static void print_folder(const vf_metadata *m, FILE *out)
{
    enum { LENGTH = 4000, NAME = 100 };

    if (m->ignored) {
        fputs("ignored: ", out);
        vc_print(out, m->ignored, LENGTH);
        fputc('\n', out);
    }
    if (!m->repeats)
        return;
    fputs("repeats: a sample counts as often as the name of its folder says, as in kohya's "
          "sd-scripts: N_name; with --no_folder_repeats once", out);
    if (m->n_once) {
        fprintf(out, "; %lld in no such folder count once: ", (long long)m->n_once);
        vc_print(out, m->rows[m->once].path, NAME);
        fputs(m->n_once > 1 ? ", ..." : "", out);
    }
    fputc('\n', out);
}

static void print_regs(const vprep *p, FILE *out)
{
    enum { NAME = 100 };
    const vf_metadata *m = &p->list.meta;
    long long rows = 0;
    double n = 0;

    if (!p->c.reg_data_dir)
        return;
    for (int64_t i = 0; i < m->n; i++)
        if (m->rows[i].held && !m->rows[i].bad && m->rows[i].weight > 0) {
            rows++;
            n += m->rows[i].weight;
        }
    fprintf(out, "regularisation: %lld row%s of ", rows, vc_s((double)rows));
    vc_print(out, p->c.reg_data_dir, NAME);
    fprintf(out, " count%s %g times in an epoch together, as the others do; vtrain's "
            "--prior_loss_weight weighs their loss\n", rows == 1 ? "s" : "", n);
}

/* Prints the number of samples with captions, the columns or files that have them, and the first
 * three. */
static void print_captions(const vprep *p, FILE *out)
{
    enum { KINDS = 8, SHOWN = 3, LENGTH = 100 };
    const char *from[KINDS], *shown[SHOWN];
    uint32_t n[KINDS], kinds = 0, samples = 0, captioned = 0, last = UINT32_MAX, k;

    for (uint32_t i = 0; i < p->plan.n_items; i++) {
        const vprep_item *it = &p->plan.items[i];
        const vf_row *row = &p->list.meta.rows[it->row];
        if (it->drop || it->row == last)
            continue;
        last = it->row;
        samples++;
        if (!*row->captions[0])
            continue;
        if (captioned < SHOWN)
            shown[captioned] = row->captions[0];
        captioned++;
        for (k = 0; k < kinds && strcmp(from[k], row->caption_from); k++)
            ;
        if (k == kinds && kinds < KINDS) {
            from[kinds] = row->caption_from;
            n[kinds++] = 0;
        }
        if (k < kinds)
            n[k]++;
    }
    print_folder(&p->list.meta, out);
    print_regs(p, out);
    if (p->list.meta.lists)
        fprintf(out, "list: %s\n", p->list.meta.lists);
    fprintf(out, "captions: %u of %u samples have one", captioned, samples);
    for (k = 0; k < kinds; k++) {
        fputs(k ? ", " : "; from ", out);
        vc_print(out, from[k], LENGTH);
        fprintf(out, ": %u", n[k]);
    }
    fputc('\n', out);
    for (k = 0; k < SHOWN && k < captioned; k++) {
        fputs("    ", out);
        vc_print(out, shown[k], LENGTH);
        fputc('\n', out);
    }
}

int vprep_report(vprep *p, FILE *out, vc_err *err)
{
    prep_table *t = NULL;
    char *path = vc_path_join(p->c.out, "plan.jsonl"), *tmp = NULL;
    FILE *f = NULL;
    int rc = path && (tmp = vc_format("%s.tmp", path)) ? 0 : vc_no_memory(err);

    if (!rc)
        rc = prep_table_open(&t, p, err);
    if (!rc && !(f = fopen(tmp, "we")))
        rc = vc_fail_errno(err, "%s", path);
    if (!rc)
        rc = keep_plan(p, f, path, err);
    if (!rc)
        rc = lost_lines(p, f, err);
    if (!rc)
        rc = write_plan(p, f, t, err);
    if (f && fclose(f) && !rc)
        rc = vc_fail_errno(err, "%s", path);
    rc = vc_maps_check(rc, err);
    const bool kept = p->plan.refused && prep_reuse_continues(p);
    if (!rc && !kept && rename(tmp, path))
        rc = vc_fail_errno(err, "%s", path);
    if ((rc || kept) && tmp)
        unlink(tmp);
    if (!rc && p->c.dry_run)
        print_drops(p, out);
    if (!rc)
        prep_table_print(t, out);
    if (!rc)
        print_captions(p, out);
    if (!rc)
        rc = vprep_cuts(p, out, err);
    prep_table_close(t);
    free(tmp);
    free(path);
    return rc;
}
