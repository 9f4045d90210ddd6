/* templates.c - see templates.h */
#include "common/templates.h"

/* Around prompts, to the byte as diffusers' pipelines have them, missing blanks and all. */
const char vc_template_hunyuan[] =
    "<|start_header_id|>system<|end_header_id|>\n\n"
    "Describe the video by detailing the following aspects: "
    "1. The main content and theme of the video."
    "2. The color, shape, size, texture, quantity, text, and spatial relationships of the objects."
    "3. Actions, events, behaviors temporal relationships, physical movement changes of the "
    "objects."
    "4. background environment, light, style and atmosphere."
    "5. camera angles, movements, and transitions used in the video:<|eot_id|>"
    "<|start_header_id|>user<|end_header_id|>\n\n{}<|eot_id|>";
const char vc_template_hunyuan_i2v[] =
    "<|start_header_id|>system<|end_header_id|>\n\n<image>\n"
    "Describe the video by detailing the following aspects according to the reference image: "
    "1. The main content and theme of the video."
    "2. The color, shape, size, texture, quantity, text, and spatial relationships of the objects."
    "3. Actions, events, behaviors temporal relationships, physical movement changes of the "
    "objects."
    "4. background environment, light, style and atmosphere."
    "5. camera angles, movements, and transitions used in the video:<|eot_id|>\n\n"
    "<|start_header_id|>user<|end_header_id|>\n\n{}<|eot_id|>"
    "<|start_header_id|>assistant<|end_header_id|>\n\n";
const char vc_template_hunyuan15[] =
    "<|im_start|>system\n"
    "You are a helpful assistant. Describe the video by detailing the following aspects: "
    "        1. The main content and theme of the video. "
    "        2. The color, shape, size, texture, quantity, text, and spatial relationships of the "
    "objects. "
    "        3. Actions, events, behaviors temporal relationships, physical movement changes of "
    "the objects. "
    "        4. background environment, light, style and atmosphere. "
    "        5. camera angles, movements, and transitions used in the video.<|im_end|>\n"
    "<|im_start|>user\n{}<|im_end|>\n<|im_start|>assistant\n";
const char vc_template_qwen[] =
    "<|im_start|>system\n"
    "Describe the image by detailing the color, shape, size, texture, quantity, text, spatial "
    "relationships of the objects and background:<|im_end|>\n"
    "<|im_start|>user\n{}<|im_end|>\n<|im_start|>assistant\n";

/* Qwen-Image-Edit's; its pictures stand in front of the prompt. */
const char vc_template_qwen_edit[] =
    "<|im_start|>system\n"
    "Describe the key features of the input image (color, shape, size, texture, objects, "
    "background), then explain how the user's text instruction should alter or modify the image. "
    "Generate a new image that meets the user's requirements while maintaining consistency with "
    "the original input where appropriate.<|im_end|>\n"
    "<|im_start|>user\n{}<|im_end|>\n<|im_start|>assistant\n";

/* Kandinsky 5's of clips, T2V and I2V. */
const char vc_template_kandinsky5[] =
    "<|im_start|>system\nYou are a prompt engineer. Describe the video in detail.\n"
    "Describe how the camera moves or shakes, describe the zoom and view angle, whether it follows "
    "the objects.\n"
    "Describe the location of the video, main characters or objects and their action.\n"
    "Describe the dynamism of the video and presented actions.\n"
    "Name the visual style of the video: whether it is a professional footage, user generated "
    "content, some kind of animation, video game or scren content.\n"
    "Describe the visual effects, postprocessing and transitions if they are presented in the "
    "video.\n"
    "Pay attention to the order of key actions shown in the scene.<|im_end|>\n"
    "<|im_start|>user\n{}<|im_end|>";

/* What Qwen3's chat template makes of one prompt where thinking is on. */
const char vc_template_qwen3[] =
    "<|im_start|>user\n{}<|im_end|>\n<|im_start|>assistant\n";

/* And where it is off: an empty thought is part of the prompt. */
const char vc_template_qwen3_thoughtless[] =
    "<|im_start|>user\n{}<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n";

/* What Mistral 3's chat template makes of the system's message of Flux2Pipeline and a prompt. */
const char vc_template_flux2_dev[] =
    "<s>[SYSTEM_PROMPT]You are an AI that reasons about image descriptions. You give structured "
    "responses focusing on object relationships, object\n"
    "attribution and actions without speculation.[/SYSTEM_PROMPT][INST]{}[/INST]";
