/* hub.h - models by their names on a hub: where the hubs' own tools put them on this machine.
 *
 * A name is OWNER/NAME, with @REVISION or an address (https://huggingface.co/OWNER/NAME/tree/main)
 * and with a folder or file below it, if one is meant. Nothing is downloaded. The functions read
 * the environment and are thread-safe while it does not change. */
#ifndef COMMON_OS_HUB_H
#define COMMON_OS_HUB_H

#include <stdbool.h>

/* The parts of a name, borrowed from it. */
typedef struct vc_hub_name {
    const char *id, *owner_end;      /* OWNER/NAME, and its '/' */
    int id_len, rev_len, below_len;
    const char *rev;                 /* NULL: none */
    const char *below;               /* "vae": what is meant in the model; "": all of it */
    bool address;                    /* it was an address */
} vc_hub_name;

/* Returns true if the text reads as a name on a hub. */
bool vc_hub_name_read(vc_hub_name *n, const char *text);
/* Returns the path of the named model, or of the part that is meant, malloc'ed; NULL if it is not
 * on this machine, or out of memory. In this order it looks in the cache of Hugging Face
 * ($HF_HUB_CACHE, $HF_HOME/hub, ~/.cache/huggingface/hub), in that of ModelScope, in
 * $DIFFSYNTH_MODEL_BASE_PATH or ./models, and for a folder NAME; with a revision in the first
 * alone. */
char *vc_hub_find(const vc_hub_name *n);
/* Returns the folder of Hugging Face's cache, malloc'ed; NULL: out of memory. */
char *vc_hub_cache(void);
/* Returns what a model's folder lacks, malloc'ed ("vae, text_encoder"): components that its
 * model_index.json names, shards that an index names, and links to files that are not there. NULL:
 * it lacks nothing, or is no such folder. */
char *vc_hub_lacks(const char *dir);

#endif
