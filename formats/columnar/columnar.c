/* columnar.c - names of columnar files, and cells. See columnar.h */
#include "formats/columnar/columnar.h"

#include <inttypes.h>
#include <stdio.h>
#include <strings.h>

#include "common/os/file.h"

bool vf_columnar_named(const char *path)
{
    static const char *const endings[] = { ".parquet", ".arrow", ".feather" };

    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++)
        if (!strcasecmp(vc_path_ext(path), endings[i]))
            return true;
    return false;
}

bool vf_columnar_cell(const cJSON *v, vf_cell *cell)
{
    return cJSON_IsRaw(v) && sscanf(v->valuestring, "%" SCNd64 " %" SCNd64 " %d", &cell->at,
                                    &cell->size, &cell->column) == 3;
}

bool vf_columnar_has_cell(const cJSON *v)
{
    vf_cell cell;
    bool found = vf_columnar_cell(v, &cell);

    for (const cJSON *part = v->child; part && !found; part = part->next)
        found = vf_columnar_has_cell(part);
    return found;
}

cJSON *vf_columnar_cell_item(const vf_cell *cell)
{
    char text[64];

    snprintf(text, sizeof text, "%" PRId64 " %" PRId64 " %d", cell->at, cell->size, cell->column);
    return cJSON_CreateRaw(text);
}
