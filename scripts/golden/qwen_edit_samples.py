"""A guided sample of diffusers' QwenImageEditPlusPipeline with two references of unequal sizes,
from the weights of the transformer's golden `qwen-edit-2511`.

`samples-qwen-edit` has what qwen_samples.py stores, and `reference_k` [C,1,H,W], the latents that
the pipeline's autoencoder would make of picture k in the size that the pipeline chooses for its
shape. The area of pictures is AREA, not 1024 squared.
"""
import golden
import PIL.Image
import torch
from diffusers import (AutoencoderKLQwenImage, QwenImageEditPlusPipeline,
                       QwenImageTransformer2DModel)
from diffusers.pipelines.qwenimage import pipeline_qwenimage_edit_plus as source

AREA, PICTURES = 64 * 64, [(96, 64), (40, 100)]      # widths and heights: latents 8x8 and 12x4


def make(out):
    qwen, samples, hunyuan = (golden.part(n) for n in ("qwen", "qwen_samples", "hunyuan_samples"))
    transformer = golden.tiny(QwenImageTransformer2DModel, {**qwen.TINY, "zero_cond_t": True})[0]
    c, wide = qwen.TINY["out_channels"], qwen.TINY["joint_attention_dim"]
    vae = AutoencoderKLQwenImage(base_dim=8, z_dim=c, dim_mult=[1, 1, 1, 1], num_res_blocks=1)
    pipe = QwenImageEditPlusPipeline(scheduler=samples.scheduler(), vae=vae, text_encoder=None,
                                     tokenizer=None, processor=None, transformer=transformer)
    pipe.set_progress_bar_config(disable=True)
    source.VAE_IMAGE_SIZE = AREA
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
    packed = pipe(image=[PIL.Image.new("RGB", size) for size in PICTURES],
                  height=samples.H * 8, width=samples.W * 8, num_inference_steps=samples.STEPS,
                  output_type="latent", true_cfg_scale=float(samples.GUIDANCE),
                  latents=golden.packed(noise), prompt_embeds=t["text"][None],
                  prompt_embeds_mask=torch.ones(1, samples.N).long(),
                  negative_prompt_embeds=t["negative_text"][None],
                  negative_prompt_embeds_mask=torch.ones(1, samples.N - 3).long()).images
    t["latents"] = golden.unpacked(packed, noise)[0]
    assert [t[f"reference_{k}"].shape[2:] for k in (1, 2)] == [(8, 8), (12, 4)]
    golden.save(out / "samples-qwen-edit.safetensors", t, seed=str(samples.SEED),
                steps=str(samples.STEPS), guidance=str(samples.GUIDANCE))
