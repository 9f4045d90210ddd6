"""A sample of diffusers' LTXImageToVideoPipeline, from the weights of the transformer's golden
"ltx", in the layout of hunyuan_samples.

The VAE's statistics are mean c and deviation 1 + c of channel c, so that a wrong one shows; `image`
is the first frame's raw latent. The scheduler is that of LTX-Video 0.9.0.
"""
import golden
import torch
from diffusers import (FlowMatchEulerDiscreteScheduler, LTXImageToVideoPipeline,
                       LTXVideoTransformer3DModel)

STEPS, F, H, W, N, GUIDANCE = 10, 3, 4, 6, 7, 3


def make(out):
    ltx, vae_ltx = golden.part("ltx"), golden.part("vae_ltx")
    transformer = golden.tiny(LTXVideoTransformer3DModel, ltx.TINY)[0]
    channels, width = ltx.TINY["in_channels"], ltx.TINY["caption_channels"]
    vae = vae_ltx.model(vae_ltx.V090)[0]
    mean = torch.arange(float(channels)).view(-1, 1, 1, 1)
    deviation = 1 + mean
    pipe = LTXImageToVideoPipeline(
        transformer=transformer, vae=vae, text_encoder=None, tokenizer=None,
        scheduler=FlowMatchEulerDiscreteScheduler(
            use_dynamic_shifting=True, base_shift=0.95, max_shift=2.05, base_image_seq_len=1024,
            max_image_seq_len=4096, shift_terminal=0.1))
    pipe.set_progress_bar_config(disable=True)
    t = {"text": golden.draw("text ltx-i2v", (N, width)),
         "negative_text": golden.draw("negative ltx-i2v", (N - 2, width)),
         "image": golden.draw("image ltx-i2v", (channels, 1, H, W)) * deviation + mean}
    hunyuan = golden.part("hunyuan_samples")
    x = hunyuan.noise((channels, F, H, W))
    x[:, :1] = (t["image"] - mean) / deviation
    negative = torch.zeros(1, N, width)
    negative[:, :N - 2] = t["negative_text"]
    mask = torch.ones(1, N)
    fewer = mask.clone()
    fewer[:, N - 2:] = 0
    y = pipe(height=H * ltx.RATIO, width=W * ltx.RATIO, num_frames=(F - 1) * ltx.RATIO_T + 1,
             num_inference_steps=STEPS, guidance_scale=GUIDANCE,
             latents=pipe._pack_latents(x[None]),
             prompt_embeds=t["text"][None], prompt_attention_mask=mask,
             negative_prompt_embeds=negative, negative_prompt_attention_mask=fewer,
             output_type="latent", return_dict=False)[0]
    t["latents"] = pipe._unpack_latents(y, F, H, W)[0] * deviation + mean
    golden.save(out / "samples-ltx.safetensors", t, seed=str(hunyuan.SEED), steps=str(STEPS),
                guidance=str(GUIDANCE))
