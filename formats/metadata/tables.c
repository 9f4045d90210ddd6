/* tables.c - reads a list that is a table, or ttt-video's annotations; see metadata.h */
#include "formats/json/table.h"

#include "formats/metadata/parts.h"

int metadata_read_table(metadata_list *l, const char *path, vc_err *err)
{
    vf_table_sink sink = { .header = metadata_check_header, .row = metadata_take_row, .arg = l };
    const char *own = l->opts->caption_columns;

    l->known = own ? own : "the columns " METADATA_CAPTIONS;
    bool annotations;
    int rc = metadata_is_annotations(&annotations, path, err);
    if (!rc)
        rc = annotations ? metadata_read_annotations(l, path, err)
                         : vf_table_read(path, &sink, err);
    return rc ? rc : vc_context(err, metadata_need_captions(l, err), "%s", path);
}
