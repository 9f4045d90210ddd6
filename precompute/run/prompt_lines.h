/* prompt_lines.h - the validation prompts of sd-scripts and musubi-tuner: a .txt file with a prompt
 * a line, and behind it options, "--" and a letter: "a cat --w 512 --h 512 --s 20 --n blurred".
 * Empty lines, and lines that begin with '#', are no prompts. In .json and .toml files the options
 * have names of their own; a list in .json may also have such lines. */
#ifndef PRECOMPUTE_RUN_PROMPT_LINES_H
#define PRECOMPUTE_RUN_PROMPT_LINES_H

#include "formats/json/table.h"

/* Passes each prompt to sink as a row, with the columns of other lists. VC_EFORMAT "PATH: line 7:
 * ...": an option that is not known, or a file that is not UTF-8 or has no prompt; a failure of
 * sink ends the reading and is returned. */
int vprep_prompt_lines(const char *path, const vf_table_sink *sink, vc_err *err);

/* Passes one such line, of a list in .json, to sink as row `number`. */
int vprep_prompt_line(const char *line, int64_t number, const vf_table_sink *sink, vc_err *err);

/* Replaces the two programs' names of options in a row, "sample_steps" or "cfg_scale", by those of
 * the columns. VC_EFORMAT: an option that a prompt cannot have here. */
int vprep_prompt_names(cJSON *row, vc_err *err);

/* Passes the prompts of a .toml file to sink: each table of [[prompt.subset]], with the values of
 * [prompt] for all of them. VC_EFORMAT "PATH: line 7: ...". */
int vprep_prompt_toml(const char *path, const vf_table_sink *sink, vc_err *err);

#endif
