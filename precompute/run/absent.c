/* absent.c - text encoders that a pipeline may be without; see components.h */
#include <stdlib.h>
#include <string.h>

#include "formats/tensors/component.h"
#include "precompute/run/components.h"
#include "precompute/run/vprep.h"

enum { MAX_CONFIG = 1 << 20 };                 /* bytes of JSON */

/* Whether model_index.json says that the pipeline has no such component: [null, null]. */
static int is_null(bool *null, const char *model, const char *slot, vc_err *err)
{
    cJSON *index = NULL;
    int rc = model ? vf_json_read_in_opt(&index, model, "model_index.json", MAX_CONFIG, err) : 0;
    const cJSON *part = cJSON_GetObjectItemCaseSensitive(index, slot);

    *null = cJSON_IsNull(part) || (cJSON_IsArray(part) && cJSON_IsNull(part->child));
    cJSON_Delete(index);
    return rc;
}

/* Fails where the model's folder lacks an encoder that its model_index.json does not leave out. */
static int check_there(const vprep *p, const char *slot, vc_err *err)
{
    char *path = NULL;
    int rc = p->c.model ? vf_component_find(&path, p->c.model, slot, err) : 0;

    if (!rc && !path)
        rc = vc_fail(err, VC_EUSAGE, "--%s is missing%s%s%s: give it, or --%s " VC_NO_TEXT
                     " to leave it out", slot, p->c.model ? ": --model " : "",
                     p->c.model ? p->c.model : "", p->c.model ? " has none" : "", slot);
    free(path);
    return rc;
}

int prep_leave_out(vprep *p, int slot, vc_err *err)
{
    enum { T5_XXL = 4096 };                    /* its width, where no transformer says another */
    const char *given = p->c.text_encoder[slot];
    const prep_family *f = &p->encoders.family;
    const int64_t width = p->encoders.width[slot];
    bool out = given && !strcmp(given, VC_NO_TEXT);

    if (!vc_family_texts(f->is, f->pipeline)[slot].optional)
        return 0;
    int rc = given ? 0 : is_null(&out, p->c.model, vc_text_slots[slot], err);
    if (rc || !out)
        return rc || given ? rc : check_there(p, vc_text_slots[slot], err);
    p->encoders.family.text[slot] = &text_absent;
    p->encoders.absent[slot] = width ? (int)width : T5_XXL;
    vc_say(p->progress, "%s is left out: the transformer gets zeros in place of its states",
           vc_text_slots[slot]);
    return 0;
}
