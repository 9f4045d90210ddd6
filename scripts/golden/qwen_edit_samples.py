"""Guided samples of diffusers' QwenImageEditPlusPipeline with one to three references of unequal
sizes, from the weights of the transformer's golden `qwen-edit-2511`, and of QwenImageEditPipeline,
which takes one.

`samples-qwen-edit` (two references), `-one` and `-three` and `-first` (the first pipeline, without
zero_cond_t) have what qwen_samples.py stores, and `reference_k` [C,1,H,W], the latents that the
pipeline's autoencoder would make of picture k in the size that the pipeline chooses for its shape.
The area of pictures is AREA, not 1024 squared.
"""
import golden
import PIL.Image
import torch
from diffusers import (AutoencoderKLQwenImage, QwenImageEditPipeline, QwenImageEditPlusPipeline,
                       QwenImageTransformer2DModel)
from diffusers.pipelines.qwenimage import pipeline_qwenimage_edit, pipeline_qwenimage_edit_plus

AREA = 64 * 64
# Widths and heights of pictures, and heights and widths of their latents.
WIDE, TALL, LONG = ((96, 64), (8, 8)), ((40, 100), (12, 4)), ((100, 40), (4, 12))
# name: pipeline, zero_cond_t, pictures
PLUS, FIRST = QwenImageEditPlusPipeline, QwenImageEditPipeline
SAMPLES = {"qwen-edit": (PLUS, True, [WIDE, TALL]), "qwen-edit-one": (PLUS, True, [TALL]),
           "qwen-edit-three": (PLUS, True, [TALL, LONG, WIDE]),
           "qwen-edit-first": (FIRST, False, [TALL])}


def sample(cls, zero_cond_t, pictures):
    qwen, samples, hunyuan = (golden.part(n) for n in ("qwen", "qwen_samples", "hunyuan_samples"))
    config = {**qwen.TINY, "zero_cond_t": True} if zero_cond_t else qwen.TINY
    transformer = golden.tiny(QwenImageTransformer2DModel, config)[0]
    c, wide = qwen.TINY["out_channels"], qwen.TINY["joint_attention_dim"]
    vae = AutoencoderKLQwenImage(base_dim=8, z_dim=c, dim_mult=[1, 1, 1, 1], num_res_blocks=1)
    pipe = cls(scheduler=samples.scheduler(), vae=vae, text_encoder=None, tokenizer=None,
               processor=None, transformer=transformer)
    pipe.set_progress_bar_config(disable=True)
    dimensions = pipeline_qwenimage_edit.calculate_dimensions
    pipeline_qwenimage_edit_plus.VAE_IMAGE_SIZE = AREA
    pipeline_qwenimage_edit.calculate_dimensions = lambda _, ratio: dimensions(AREA, ratio)
    t = {"text": golden.draw("text sample", (samples.N, wide)),
         "negative_text": golden.draw("negative sample", (samples.N - 3, wide)),
         "pooled": golden.draw("pooled", (4,)), "negative_pooled": golden.draw("pooled", (4,))}

    def latents(image, generator):
        k = sum(n.startswith("reference") for n in t) + 1
        shape = (c, 1, image.shape[3] // 8, image.shape[4] // 8)
        t[f"reference_{k}"] = golden.draw(f"reference {k} sample", shape)
        return t[f"reference_{k}"][None]
    pipe._encode_vae_image = latents
    noise = hunyuan.noise((1, c, 1, samples.H, samples.W))
    images = [PIL.Image.new("RGB", size) for size, _ in pictures]
    packed = pipe(image=images if cls is PLUS else images[0],
                  height=samples.H * 8, width=samples.W * 8, num_inference_steps=samples.STEPS,
                  output_type="latent", true_cfg_scale=float(samples.GUIDANCE),
                  latents=golden.packed(noise), prompt_embeds=t["text"][None],
                  prompt_embeds_mask=torch.ones(1, samples.N).long(),
                  negative_prompt_embeds=t["negative_text"][None],
                  negative_prompt_embeds_mask=torch.ones(1, samples.N - 3).long()).images
    pipeline_qwenimage_edit.calculate_dimensions = dimensions
    t["latents"] = golden.unpacked(packed, noise)[0]
    for k, (_, latent) in enumerate(pictures):
        assert t[f"reference_{k + 1}"].shape[2:] == latent, t[f"reference_{k + 1}"].shape
    return t


def make(out):
    samples = golden.part("qwen_samples")
    for name, row in SAMPLES.items():
        golden.save(out / f"samples-{name}.safetensors", sample(*row), seed=str(samples.SEED),
                    steps=str(samples.STEPS), guidance=str(samples.GUIDANCE))
