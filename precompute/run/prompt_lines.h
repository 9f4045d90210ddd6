/* prompt_lines.h - the validation prompts of sd-scripts and musubi-tuner: a .txt file with a prompt
 * a line, and behind it options, "--" and a letter: "a cat --w 512 --h 512 --s 20 --n blurred".
 * Empty lines, and lines that begin with '#', are no prompts. */
#ifndef PRECOMPUTE_RUN_PROMPT_LINES_H
#define PRECOMPUTE_RUN_PROMPT_LINES_H

#include "formats/json/table.h"

/* Passes each prompt to sink as a row, with the columns of other lists. VC_EFORMAT "PATH: line 7:
 * ...": an option that is not known, or a file that is not UTF-8 or has no prompt; a failure of
 * sink ends the reading and is returned. */
int vprep_prompt_lines(const char *path, const vf_table_sink *sink, vc_err *err);

#endif
