/* chat.h - the chat template in a tokenizer's folder. No template is evaluated: what the templates
 * of the text encoders make of a prompt stands in the code, and a tokenizer whose template is
 * another is refused. */
#ifndef PRECOMPUTE_TEXT_CHAT_H
#define PRECOMPUTE_TEXT_CHAT_H

#include "common/base/err.h"

/* Fails unless the template in `dir` has the text `part`. The template is chat_template.jinja, else
 * chat_template of chat_template.json or tokenizer_config.json: a string, or a list of which the
 * one named "default" counts, as in transformers. VC_ENOENT: there is none; VC_EMISMATCH: it lacks
 * the text; VC_EFORMAT: a file is damaged. */
int text_chat_check(const char *part, const char *dir, vc_err *err);

#endif
