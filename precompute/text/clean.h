/* clean.h - prompts as Wan's pipelines clean them before they make tokens. */
#ifndef PRECOMPUTE_TEXT_CLEAN_H
#define PRECOMPUTE_TEXT_CLEAN_H

/* Replaces HTML's names and numbers of characters (&amp;, &#39;), twice over, makes one blank of
 * each run of white space, and removes white space at both ends. The result equals diffusers'
 * prompt_clean where ftfy is not installed: ftfy's repair of text that was decoded wrongly is left
 * out. The caller frees the result; NULL: out of memory. */
char *text_clean(const char *prompt);

#endif
