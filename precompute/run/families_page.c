/* families_page.c - see families_page.h */
#include "precompute/run/families_page.h"

#include <string.h>

#include "common/families.h"
#include "formats/models/transformers.h"

enum { WIDTH = 78, BEHIND_NAME = 18, BELOW_NAME = 6 };   /* columns of a list */

/* Writes a word of a list that begins at the column `indent`, or behind a title, and whose line is
 * at the column `at`, and returns the column behind it. */
static int put(FILE *out, int indent, int at, const char *word, bool first)
{
    const int n = (int)strlen(word);
    if (at > indent && at + 2 + n > WIDTH) {
        fprintf(out, "%s\n%*s", first ? "" : ",", indent, "");
        return indent + fprintf(out, "%s", word);
    }
    return at + fprintf(out, "%s%s", !first ? ", " : at > indent ? " " : "", word);
}

static void family(FILE *out, const vc_family *f)
{
    fprintf(out, "  %-*s%s\n", BEHIND_NAME - 2, f->name, f->title);
    int at = fprintf(out, "%*s", BEHIND_NAME, "");
    for (int i = 0; i < VC_FAMILY_PIPELINES && f->pipeline[i].class; i++)
        at = put(out, BEHIND_NAME, at, f->pipeline[i].class, i == 0);
    fputc('\n', out);
}

/* The list in progress. */
typedef struct refused {
    FILE *out;
    const char *models;
    int at;
} refused;

static void add_refused(void *arg, const char *models, const char *reads)
{
    refused *r = arg;
    const bool first = !r->models || strcmp(models, r->models);
    if (first) {
        if (r->models)
            fputc('\n', r->out);
        r->at = fprintf(r->out, "  %s:", models);
    }
    r->models = models;
    r->at = put(r->out, BELOW_NAME, r->at, reads, first);
}

static void add_other(void *arg, const char *model, const char *reads)
{
    refused *r = arg;
    char word[WIDTH];
    snprintf(word, sizeof word, "%s%s%s%s", model, reads ? " (" : "", reads ? reads : "",
             reads ? ")" : "");
    r->at = put(r->out, BELOW_NAME, r->at, word, !r->models);
    r->models = model;
}

void prep_families_page(FILE *out)
{
    fprintf(out, "Families, their models, and the pipelines of model_index.json that are read\n");
    for (const vc_family *f = vc_families(); f->name; f++)
        if (f->pipeline[0].class)
            family(out, f);
}

void prep_refused_page(FILE *out)
{
    refused r = { .out = out };
    fprintf(out, "Models that are trained, and what is refused by name: transformers of their "
                 "classes\nthat read more\n");
    vf_transformer_each_refused(add_refused, &r);
    fputc('\n', out);
}

void prep_others_page(FILE *out)
{
    fprintf(out, "Models of diffusers' other pipelines, which no family here has, and what some "
                 "read\n");
    refused r = { .out = out, .at = fprintf(out, "%*s", BELOW_NAME, "") };
    vf_transformer_each_other(add_other, &r);
    fputc('\n', out);
}
