/* sound.c - which samples have sound, and how long it is. See vlat.h */
#include <stdlib.h>
#include <string.h>

#include "common/roles.h"
#include "formats/dataset/record.h"
#include "formats/vlat/vlat.h"

bool vlat_has_sound(const vf_dataset *d)
{
    return cJSON_HasObjectItem(vf_dataset_manifest(d), "audio_vae");
}

const char *vlat_sound(const cJSON *record)
{
    const cJSON *conditions = cJSON_GetObjectItemCaseSensitive(record, "conditions");
    for (int i = 0; i < VC_ROLES; i++)
        if (vc_roles[i].sound && *vlat_str(conditions, vc_roles[i].name))
            return vlat_str(conditions, vc_roles[i].name);
    return "";
}

double vlat_sound_seconds(const vf_entry *e)
{
    return e->fps > 0 ? e->frames / (double)e->fps : 0;
}

static bool names_sound(const vf_refs *conditions)
{
    for (int i = 0; i < conditions->n; i++)
        for (int k = 0; k < VC_ROLES; k++)
            if (vc_roles[k].sound && strlen(vc_roles[k].name) == conditions->item[i].role.n &&
                !memcmp(vc_roles[k].name, conditions->item[i].role.p, conditions->item[i].role.n))
                return true;
    return false;
}

int vlat_count_sounds(vlat_sounds *s, const vf_dataset *d, vc_err *err)
{
    vf_parsed p = { 0 };
    int rc = 0;
    *s = (vlat_sounds){ 0 };
    for (uint32_t i = 0; !rc && vlat_has_sound(d) && i < vf_dataset_count(d); i++) {
        rc = vf_dataset_parsed(d, i, &p, err);
        if (!rc && names_sound(&p.conditions)) {
            s->n++;
            s->seconds += vlat_sound_seconds(vf_dataset_entry(d, i));
        }
        if (!rc && *vc_stop_flag())
            rc = vc_fail(err, VC_ESTOP, "stopped");
    }
    vf_parsed_free(&p);
    return rc;
}
