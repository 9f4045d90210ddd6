/* chat.c - the chat template in a tokenizer's folder; see chat.h */
#include "precompute/text/chat.h"

#include <stdlib.h>
#include <string.h>

#include "common/os/file.h"
#include "formats/json/json.h"

enum { MAX_CHAT = 1 << 24 };                 /* bytes of a file with a chat template */

/* Finds the template of a JSON file; *text is NULL if there is none. */
static int find_chat(const char **text, const cJSON *config, vc_err *err)
{
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(config, "chat_template"), *o;

    if (!cJSON_IsArray(list))
        return vf_json_str_opt(config, "chat_template", text, err);
    cJSON_ArrayForEach(o, list) {
        const char *name, *template;
        int rc = vf_json_str(o, "name", &name, err);
        if (!rc)
            rc = vf_json_str(o, "template", &template, err);
        if (rc)
            return vc_context(err, rc, "chat_template");
        if (!strcmp(name, "default"))
            *text = template;
    }
    return 0;
}

/* Sets *template to the template, malloc'ed; NULL: there is none. */
static int read_chat(char **template, const char *dir, vc_err *err)
{
    static const char *const files[] = { "chat_template.json", "tokenizer_config.json" };
    const char *text = NULL;
    size_t size;
    char *path = vc_path_join(dir, "chat_template.jinja");

    *template = NULL;
    int rc = path ? 0 : vc_no_memory(err);
    if (!rc && vc_file_exists(path)) {
        rc = vc_file_read(template, &size, path, MAX_CHAT, err);
        free(path);
        return rc;
    }
    free(path);
    for (int i = 0; !rc && !*template && i < 2; i++) {
        cJSON *config = NULL;
        rc = vf_json_read_in_opt(&config, dir, files[i], MAX_CHAT, err);
        if (!rc && config)
            rc = vc_context(err, find_chat(&text, config, err), "%s/%s", dir, files[i]);
        if (!rc && text && !(*template = strdup(text)))
            rc = vc_no_memory(err);
        cJSON_Delete(config);
    }
    return rc;
}

int text_chat_check(const char *part, const char *dir, vc_err *err)
{
    char *chat;
    int rc = read_chat(&chat, dir, err);

    if (rc)
        return rc;
    if (!chat)
        rc = vc_fail(err, VC_ENOENT, "%s: there is no chat template, neither chat_template.jinja "
                     "or .json nor chat_template in tokenizer_config.json: give the whole folder "
                     "of the tokenizer that this model was trained with", dir);
    else if (!strstr(chat, part))
        rc = vc_fail(err, VC_EMISMATCH, "%s: the chat template lacks %s: give the tokenizer that "
                     "this model was trained with", dir, part);
    free(chat);
    return rc;
}
