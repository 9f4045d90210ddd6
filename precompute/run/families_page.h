/* families_page.h - vprep --help families, the families of common/families.c with their pipelines,
 * vprep --help refused, the variants that formats/tensors refuses by name, and vprep --help others,
 * the models of diffusers' pipelines that no family has. docs/flags.md has these pages, and
 * README.md the first (scripts/flags-doc). */
#ifndef PRECOMPUTE_RUN_FAMILIES_PAGE_H
#define PRECOMPUTE_RUN_FAMILIES_PAGE_H

#include <stdio.h>

void prep_families_page(FILE *out);
void prep_refused_page(FILE *out);
void prep_others_page(FILE *out);

#endif
