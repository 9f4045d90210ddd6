/* peers.c - see peers.h: the peers whose files are read. */
#include "common/cli/peers/peers.h"

#include <stddef.h>

const vc_peer_file *const vc_peer_files[] = {
    &vc_aitoolkit_file, &vc_fastvideo_file, &vc_ltxtrainer_file, &vc_onetrainer_file,
    &vc_musubi_file, &vc_simpletuner_file, &vc_sdscripts_data_file, &vc_sdscripts_sd3_file,
    &vc_sdscripts_file, NULL
};

const vc_peer_row *vc_peer_next(const vc_peer_file *peer, const vc_peer_row *row)
{
    const vc_peer_row *next = row ? row + 1 : peer->rows;
    if (next->key)
        return next;
    for (const vc_peer_row *r = peer->more; r && r->key; r++)
        if (r == row)
            return NULL;
    return peer->more;
}
