/* clean.h - prompts as Wan's pipelines clean them before they make tokens. */
#ifndef PRECOMPUTE_TEXT_CLEAN_H
#define PRECOMPUTE_TEXT_CLEAN_H

#include <stdbool.h>

/* Repairs the prompt (repair.h), replaces HTML's names and numbers of characters (&amp;, &#39;),
 * twice over, makes one blank of each run of white space, and removes white space at both ends. The
 * result equals diffusers' prompt_clean where ftfy is installed, as Wan's pipelines want it. The
 * caller frees the result; NULL: out of memory. */
char *text_clean(const char *prompt);

/* Removes what Python's strip() removes: white space at both ends of valid UTF-8. The caller frees
 * the result; NULL: out of memory. */
char *text_strip(const char *prompt);

/* What a prompt has in quotes, in straight or in curved ones, within a line, as HunyuanVideo 1.5's
 * pipelines write it for ByT5: Text "A". Text "B". Each text counts once, and a prompt without any
 * makes an empty result. The caller frees the result; NULL: out of memory. */
char *text_glyphs(const char *prompt);

/* Whether the repair changes the result: diffusers without ftfy has another. */
bool text_is_repaired(const char *prompt);
/* Whether nothing but the repair would change the prompt. */
bool text_is_clean(const char *prompt);

#endif
