/* refs.c - walks over references to values. See refs.h */
#include "formats/dataset/refs.h"

#include <stdlib.h>
#include <string.h>

int vf_refs_add(vf_refs *refs, vf_ref ref, vc_err *err)
{
    if (refs->n == refs->room) {
        const int room = refs->room ? 2 * refs->room : 8;
        vf_ref *p = realloc(refs->item, (size_t)room * sizeof *p);
        if (!p)
            return vc_no_memory(err);
        refs->item = p;
        refs->room = room;
    }
    refs->item[refs->n++] = ref;
    return 0;
}

vf_ref vf_ref_of(const cJSON *o)
{
    vf_ref ref = { 0 };
    if (o && o->string)
        ref.role = (vf_span){ o->string, strlen(o->string) };
    ref.valid = cJSON_IsString(o) && vf_key_parse(&ref.key, o->valuestring);
    return ref;
}

/* Adds the keys of a list. Keys of an array have the field's name as role, unless it is NULL. */
static int add_list(vf_refs *refs, const cJSON *list, bool text, const char *field, int caption,
                    vc_err *err)
{
    const cJSON *o;
    int rc = 0, encoder = 0;
    cJSON_ArrayForEach(o, list) {
        vf_ref ref = vf_ref_of(o);
        if (!ref.role.p && field)
            ref.role = (vf_span){ field, strlen(field) };
        ref.text = text;
        ref.caption = caption;
        ref.encoder = encoder++;
        rc = rc ? rc : vf_refs_add(refs, ref, err);
    }
    return rc;
}

int vf_refs_of(vf_refs *refs, const cJSON *list, bool text, vc_err *err)
{
    return add_list(refs, list, text, NULL, 0, err);
}

/* Adds the key in a field of o. */
static int add_field(vf_refs *refs, const cJSON *o, bool text, const char *field, vc_err *err)
{
    vf_ref ref = vf_ref_of(cJSON_GetObjectItemCaseSensitive(o, field));
    ref.role = (vf_span){ field, strlen(field) };
    ref.text = text;
    return vf_refs_add(refs, ref, err);
}

static int add_conditions(vf_refs *refs, const cJSON *o, vc_err *err)
{
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(o, "conditions");
    return add_list(refs, list, false, "conditions", 0, err);
}

int vf_record_refs(vf_refs *refs, const cJSON *record, vc_err *err)
{
    static const char *const lists[] = { "captions", "preserved" };
    const cJSON *o;
    int n = 0;
    refs->n = 0;
    int rc = add_field(refs, record, false, "latent_key", err);
    rc = rc ? rc : add_conditions(refs, record, err);
    for (int i = 0; i < 2; i++)
        cJSON_ArrayForEach(o, cJSON_GetObjectItemCaseSensitive(record, lists[i])) {
            const cJSON *keys = cJSON_GetObjectItemCaseSensitive(o, "keys");
            rc = rc ? rc : add_list(refs, keys, true, "keys", n++, err);
        }
    return rc ? rc : add_list(refs, cJSON_GetObjectItemCaseSensitive(record, "empty"), true,
                              "empty", VF_OWN_EMPTY, err);
}

int vf_prompt_refs(vf_refs *refs, const cJSON *prompt, vc_err *err)
{
    static const char *const lists[] = { "keys", "negative_keys" };
    int rc = refs->n = 0;
    for (int i = 0; i < 2; i++) {
        const cJSON *list = cJSON_GetObjectItemCaseSensitive(prompt, lists[i]);
        rc = rc ? rc : add_list(refs, list, true, lists[i], 0, err);
    }
    if (!rc && cJSON_IsString(cJSON_GetObjectItemCaseSensitive(prompt, "image")))
        rc = add_field(refs, prompt, false, "image", err);
    return rc ? rc : add_conditions(refs, prompt, err);
}

int vf_manifest_refs(vf_refs *refs, const cJSON *manifest, vc_err *err)
{
    const cJSON *o;
    int rc = refs->n = 0;
    cJSON_ArrayForEach(o, cJSON_GetObjectItemCaseSensitive(manifest, "text_encoders"))
        rc = rc ? rc : add_field(refs, o, true, "empty", err);
    return rc;
}
