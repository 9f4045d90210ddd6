/* kinds.c - see kinds.h */
#include "train/data/kinds.h"

#include <stdio.h>

#include "common/cli/kinds.h"

enum { TEXT = 40 };

/* Writes a value of JSON as a word; "" where there is none. */
static const char *word_of(char out[TEXT], const cJSON *v)
{
    *out = 0;
    if (cJSON_IsNumber(v))
        snprintf(out, TEXT, "%g", v->valuedouble);
    else if (cJSON_IsString(v))
        snprintf(out, TEXT, "%s", v->valuestring);
    else if (v && !cJSON_IsNull(v))
        snprintf(out, TEXT, "a list or an object");
    return out;
}

int vtrain_kind_read(int32_t *kind, const cJSON *record, int kinds, int32_t fallback, vc_err *err)
{
    static const char *const columns[] = { "controlnet_processor_id", "controlnet_mode" };
    const cJSON *extra = cJSON_GetObjectItemCaseSensitive(record, "extra");
    char word[TEXT] = "";
    int c = 0;
    for (int i = 0; i < 2 && !*word; c = i++) {
        word_of(word, cJSON_GetObjectItemCaseSensitive(extra, columns[i]));
        if (!*word)
            word_of(word, cJSON_GetObjectItemCaseSensitive(record, columns[i]));
    }
    const bool named = *word;
    *kind = named ? vc_kind_of(word) : fallback;
    if (!named && fallback == VC_NO_KIND)
        return vc_fail(err, VC_EMISMATCH, "the record has no kind of its picture "
                       "(controlnet_processor_id), which the ControlNet-Union reads: give "
                       "--controlnet_mode N for all, or run vprep with the column and "
                       "--extra_inputs controlnet_image,controlnet_processor_id");
    if (*kind >= 0 && *kind < kinds)
        return 0;
    if (!named)
        snprintf(word, TEXT, "%d", (int)fallback);
    return vc_fail(err, VC_EFORMAT, "%s: \"%s\" is no kind of picture: the ControlNet-Union knows "
                   "the numbers 0..%d, and canny, tile, depth, blur, pose, gray and lq are 0..6",
                   named ? columns[c] : "--controlnet_mode", word, kinds - 1);
}
