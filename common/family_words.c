/* family_words.c - words for a family's pipelines: versions and published names; see families.h */
#include "common/families.h"

#include <stdio.h>
#include <string.h>

/* Whether a list of words, with a blank between two, has the word. */
static bool has_word(const char *list, const char *word)
{
    const size_t n = strlen(word);
    for (const char *s = list; s && *s; s += strcspn(s, " "), s += *s == ' ')
        if (strcspn(s, " ") == n && !memcmp(s, word, n))
            return true;
    return false;
}

const vc_pipeline *vc_family_version(const vc_family *f, const char *word)
{
    for (const vc_pipeline *p = f->pipeline; p < f->pipeline + VC_FAMILY_PIPELINES && p->class; p++)
        if (!strcmp(p->class, word) || has_word(p->versions, word))
            return p;
    return NULL;
}

int vc_family_version_check(const char *word, vc_err *err)
{
    char all[800];
    size_t n = 0;

    *all = '\0';
    for (const vc_family *f = vc_families(); f->name; f++) {
        if (vc_family_version(f, word))
            return 0;
        for (int i = 0; i < VC_FAMILY_PIPELINES && f->pipeline[i].class; i++)
            for (const char *s = f->pipeline[i].versions; s && *s && n < sizeof all;) {
                const int len = (int)strcspn(s, " ");
                n += (size_t)snprintf(all + n, sizeof all - n, "%s%.*s", n ? ", " : "", len, s);
                s += len + (s[len] == ' ');
            }
    }
    return vc_fail(err, VC_EUSAGE, "--model_version %s: no model here has this version: %s or the "
                   "class of a pipeline expected, or give --model", word, all);
}

static const vc_pipeline *published_as(const char *name)
{
    for (const vc_family *f = vc_families(); f->name; f++)
        for (int i = 0; i < VC_FAMILY_PIPELINES && f->pipeline[i].class; i++)
            if (f->pipeline[i].published && has_word(f->pipeline[i].published, name))
                return &f->pipeline[i];
    return NULL;
}

const vc_pipeline *vc_family_published(const char *path)
{
    const vc_pipeline *found = NULL;
    char name[80];

    for (size_t n; *path; path += n + (path[n] == '/')) {
        n = strcspn(path, "/");
        snprintf(name, sizeof name, "%.*s", (int)n, path);
        const vc_pipeline *p = n && n < sizeof name ? published_as(name) : NULL;
        found = p ? p : found;
    }
    return found;
}
