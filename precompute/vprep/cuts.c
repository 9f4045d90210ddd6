/* cuts.c - counts the captions that have more tokens than an encoder reads; see plan.h */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base/buf.h"
#include "common/os/streams.h"
#include "precompute/text/cut.h"
#include "precompute/vprep/segments.h"

enum { SHOWN = 200 };                    /* characters of a lost end */

/* The captions of a list that lose their ends in a slot. */
typedef struct cuts {
    const text_cut *cut;
    text_words words;
    const char *kind;                    /* of the captions */
    bool whole;                          /* texts are not cut: longer ones are skipped */
    uint64_t n, all;                     /* of `all` captions, n are longer */
    const char *first;                   /* the first of them; NULL: there is none */
    int64_t row;                         /* its row, from 1; of --negative_prompt 0 */
    const char *path;                    /* of the row's medium; NULL: the row is no sample's */
} cuts;

/* Counts a row's captions that are longer. */
static void add_row(cuts *c, const vf_row *row)
{
    for (int i = 0; i < row->n_captions; i++) {
        const bool longer = text_cut_is_longer(c->cut, &c->words, row->captions[i]);
        c->all++;
        c->n += longer;
        if (!longer || (c->first && row->row >= c->row))
            continue;
        c->first = row->captions[i];
        c->row = row->row;
        c->path = row->path;
    }
}

static void join(cuts *to, const cuts *c)
{
    if (c->first && (!to->first || c->row < to->row)) {
        to->first = c->first;
        to->row = c->row;
        to->path = c->path;
    }
    to->n += c->n;
    to->all += c->all;
}

/* Sets *rows to the rows of the plan's samples, malloc'ed. */
static int planned_rows(const vprep *p, uint32_t **rows, uint32_t *n, vc_err *err)
{
    *n = 0;
    *rows = malloc(((size_t)p->plan.n_items + 1) * sizeof **rows);
    if (!*rows)
        return vc_no_memory(err);
    for (uint32_t i = 0; i < p->plan.n_items; i++)
        if (!p->plan.items[i].drop && (!*n || p->plan.items[i].row != (*rows)[*n - 1]))
            (*rows)[(*n)++] = p->plan.items[i].row;
    return 0;
}

/* Counts the captions of the samples, with all workers. */
static int count_rows(cuts *c, const vprep *p, vc_err *err)
{
    const cuts none = *c;
    uint32_t *rows, n;
    int rc = planned_rows(p, &rows, &n, err);
    if (rc)
        return rc;

#pragma omp parallel num_threads((int)p->c.workers)
    {
        cuts own = none;
#pragma omp for schedule(dynamic, 64)
        for (uint32_t i = 0; i < n; i++)
            if (!*vc_stop_flag())
                add_row(&own, &p->list.meta.rows[rows[i]]);
#pragma omp critical(vprep_cuts)
        join(c, &own);
        text_words_free(&own.words);
    }
    free(rows);
    return *vc_stop_flag() ? vc_fail(err, VC_ESTOP, "stopped") : 0;
}

/* Counts the validation prompts with their negatives. */
static int count_prompts(cuts *c, const vprep *p, vc_err *err)
{
    char *negative = p->c.negative_prompt;
    int rc = 0;

    if (negative)
        add_row(c, &(vf_row){ .captions = &negative, .n_captions = 1 });
    for (int i = 0; !rc && i < 2 * p->prompts.n; i++) {
        vf_row row;
        rc = prep_prompt_row(&row, p->prompts.row[i / 2], i % 2, err);
        row.row = i / 2 + 1;
        if (!rc)
            add_row(c, &row);
        free(row.captions);
    }
    return rc;
}

/* Adds at most SHOWN characters of a line of UTF-8. */
static void add_shown(vc_buf *b, const char *end)
{
    char shown[VC_SHOWN];
    int i = 0;

    for (; *end && i < SHOWN; i++) {
        end += vc_show(shown, end);
        vc_buf_str(b, shown);
    }
    if (*end)
        vc_buf_str(b, "...");
}

/* Prints the count and the end of the first caption, and adds both to *lines. */
static int say(const cuts *c, const char *slot, int tokens, FILE *out, vc_buf *lines, vc_err *err)
{
    vc_buf b = { 0 };
    char *end;
    size_t lost;
    int rc = text_cut_tokens(c->cut, c->first, &lost, err);
    if (!rc)
        rc = text_cut_end(c->cut, c->first, &end, err);
    if (rc)
        return rc;

    vc_buf_printf(&b, "%s reads %d tokens: %" PRIu64 " of %" PRIu64 " %s have more and %s; the "
                  "first, ", slot, tokens, c->n, c->all, c->kind,
                  c->whole ? "are skipped, as texts of this model are not cut" : "lose their ends");
    if (c->row)
        vc_buf_printf(&b, "row %" PRId64, c->row);
    else
        vc_buf_str(&b, "--negative_prompt");
    if (c->path && *c->path) {
        vc_buf_str(&b, ", ");
        add_shown(&b, c->path);
    }
    vc_buf_printf(&b, ", %s %zu token%s%s:", c->whole ? "has" : "loses", lost,
                  lost == 1 ? "" : "s", c->whole ? " too many" : "");
    vc_buf_printf(lines, "%s%.*s \"", lines->n ? "\n" : "", (int)b.n, b.n ? b.data : "");
    vc_buf_str(&b, "\n    ");
    add_shown(&b, end);
    add_shown(lines, end);
    vc_buf_str(lines, "\"");
    vc_buf_str(&b, "\n");
    rc = b.failed || lines->failed ? vc_no_memory(err) : 0;
    if (!rc)
        fwrite(b.data, 1, b.n, out);
    vc_buf_free(&b);
    free(end);
    return rc;
}

/* Counts the captions and prompts of a slot. */
static int count_slot(const vprep *p, int slot, FILE *out, vc_buf *lines, vc_err *err)
{
    const text_rule *rule = &p->encoders.text[slot].rule;
    text_cut *cut;
    int rc = text_cut_open(&cut, &p->encoders.text_part[slot].opts, rule, err);
    if (rc)
        return rc;

    cuts c[2] = { { .cut = cut, .kind = "captions", .whole = rule->each },
                  { .cut = cut, .kind = "prompts", .whole = rule->each } };
    rc = count_rows(&c[0], p, err);
    if (!rc)
        rc = count_prompts(&c[1], p, err);
    for (int i = 0; !rc && i < 2; i++)
        if (c[i].n)
            rc = say(&c[i], vc_text_slots[slot], rule->max_length, out, lines, err);
    text_words_free(&c[0].words);
    text_words_free(&c[1].words);
    text_cut_close(cut);
    return rc;
}

int vprep_cuts(vprep *p, FILE *out, vc_err *err)
{
    vc_buf lines = { 0 };
    int rc = 0;

    for (int i = 0; !rc && i < p->encoders.n_text; i++)
        if (p->encoders.text_part[i].opts.tokenizer)
            rc = count_slot(p, i, out, &lines, err);
    if (!rc && (lines.n || lines.failed) && !(p->plan.cuts = vc_buf_take(&lines)))
        rc = vc_no_memory(err);
    vc_buf_free(&lines);
    return rc;
}
