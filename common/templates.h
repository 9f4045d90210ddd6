/* templates.h - the texts around prompts that families' pipelines give their text encoders, with
 * "{}" where the prompt is: to the byte as diffusers' pipelines have them, missing blanks and all.
 * The rows of families.c name them. */
#ifndef COMMON_TEMPLATES_H
#define COMMON_TEMPLATES_H

extern const char vc_template_hunyuan[];
extern const char vc_template_hunyuan_i2v[];
extern const char vc_template_hunyuan15[];
extern const char vc_template_qwen[];
extern const char vc_template_qwen_edit[];
extern const char vc_template_kandinsky5[];
extern const char vc_template_qwen3[];
extern const char vc_template_qwen3_thoughtless[];
extern const char vc_template_flux2_dev[];

#endif
