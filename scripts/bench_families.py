#!/usr/bin/env python3
"""Times vlt's families against diffusers, transformers and PEFT on this machine, in one run.

    python3 scripts/bench_families.py run BUILD WORK FAMILY [lora full full16 vae text texts
            captions ...] [--rounds N] [--steps N] [--threads N] [--kernels SET]
    python3 scripts/bench_families.py ref FAMILY lora|full|vae|text|texts|captions MODEL ...
            runs PyTorch alone; `run` calls this command

Models have random weights at real widths (scripts/random_model.py), and data is random. Training
steps have a few blocks and thousands of tokens (see FAMILIES; --size, --layers and --grid change
these), the VAE is whole, and the text encoder has two layers. `text` encodes one prompt of full
length, `texts` eight, and `captions` eight short ones, which PyTorch pads as diffusers' pipeline
does: PyTorch in one call, vlt in as many as vprep makes. vlt and PyTorch run alternately, each
round in a new process, and the least time of all rounds counts. Both run in bf16 and f32
(--dtypes), and PyTorch also with raised malloc thresholds; the best time of each program counts. A
full finetune of PyTorch in bf16 has weights, gradients and moments in bf16; `full` has them in f32,
and `full16` (--optimizer adamw_bf16) has weights and moments in bf16. A ratio is vlt / PyTorch.
With --device cuda the peak of memory is the GPU's, as nvidia-smi reports it, and PyTorch recomputes
blocks if the step fails without.
"""
import argparse
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
RANK = 64
PROMPTS = {"text": 1, "texts": 8, "captions": 8}
PICTURES = ("AutoencoderKL", "AutoencoderKLFlux2")     # VAEs that know no frames
SENTENCES = 1
POLL = 0.25                # s between two looks at the GPU's memory, which both programs keep
TUNED = {"MALLOC_MMAP_THRESHOLD_": str(1 << 40), "MALLOC_TRIM_THRESHOLD_": str(1 << 40),
         "MALLOC_TOP_PAD_": str(64 << 20)}

# size: of random_model.py; layers, grid: of training steps, in blocks and latents; tokens: of a
# prompt; masked: padding is masked; longest: prompts are padded to the longest, not to `prompt`
# tokens; width: of its states, unless 4096; skipped: layers at the text encoder's end that no
# program needs; clip: of the VAE; patch: the transformer's, in latents, unless 2; sound: clips have
# sound; beside: parts of the folder that run with the transformer
FAMILIES = {
    "cogvideox": dict(size="2b", layers=[4], grid=(13, 32, 48), tokens=226, prompt=226, skipped=0,
                      clip=(9, 240, 368), transformer="CogVideoXTransformer3DModel",
                      vae="AutoencoderKLCogVideoX", text="T5EncoderModel",
                      lora=["to_q", "to_k", "to_v", "to_out.0"]),
    "hunyuanvideo": dict(size="hunyuan", layers=[1, 2], grid=(5, 32, 48), tokens=256, prompt=351,
                         skipped=2, clip=(9, 192, 320),
                         transformer="HunyuanVideoTransformer3DModel",
                         vae="AutoencoderKLHunyuanVideo", text="LlamaModel", masked=True,
                         lora=r"(single_)?transformer_blocks\.\d+\.attn\.(to_q|to_k|to_v|to_out\.0|"
                              r"add_q_proj|add_k_proj|add_v_proj|to_add_out)"),
    "wan2.1": dict(size="wan-1.3b", layers=[4], grid=(5, 32, 48), tokens=512, prompt=512,
                   skipped=0, clip=(9, 192, 320), transformer="WanTransformer3DModel",
                   vae="AutoencoderKLWan", text="UMT5EncoderModel", masked=True,
                   lora=r"blocks\.\d+\.attn[12]\.(to_q|to_k|to_v|to_out\.0)"),
    "qwen-image": dict(size="qwen", layers=[2], grid=(1, 64, 64), tokens=128, prompt=162,
                       skipped=0, clip=(1, 512, 512), transformer="QwenImageTransformer2DModel",
                       vae="AutoencoderKLQwenImage", text="Qwen2_5_VLForConditionalGeneration",
                       masked=True, longest=True, width=3584,
                       lora=["to_q", "to_k", "to_v", "to_out.0", "add_q_proj", "add_k_proj",
                             "add_v_proj", "to_add_out"]),
    "ltx-video": dict(size="ltx-2b", layers=[4], patch=1, grid=(9, 16, 24), tokens=128,
                      prompt=128, skipped=0, clip=(17, 256, 384),
                      transformer="LTXVideoTransformer3DModel", vae="AutoencoderKLLTXVideo",
                      text="T5EncoderModel",
                      lora=["to_q", "to_k", "to_v", "to_out.0"]),
    "ltx-2": dict(size="ltx-2.0", layers=[2], patch=1, grid=(5, 16, 24), tokens=128, width=3840,
                  sound=True, skipped=0, clip=(17, 256, 384), beside="connectors",
                  transformer="LTX2VideoTransformer3DModel", vae="AutoencoderKLLTX2Video",
                  parts=["lora"], lora=["to_q", "to_k", "to_v", "to_out.0"]),
    "flux": dict(size="flux-dev", layers=[1, 2], grid=(1, 64, 64), tokens=512, clip=(1, 512, 512),
                 transformer="FluxTransformer2DModel", vae="AutoencoderKL",
                 parts=["lora", "full", "full16", "vae"],   # the larger text encoder is CogVideoX's
                 lora=["to_q", "to_k", "to_v", "to_out.0", "add_q_proj", "add_k_proj",
                       "add_v_proj", "to_add_out"], skipped=0),
    "z-image": dict(size="z-image", layers=[2, 1], grid=(1, 64, 64), tokens=128, prompt=512,
                    skipped=1, clip=(1, 512, 512), transformer="ZImageTransformer2DModel",
                    vae="AutoencoderKL", text="Qwen3Model", masked=True, width=2560,
                    parts=["lora", "full", "full16", "vae", "text"],
                    lora=["to_q", "to_k", "to_v", "to_out.0"]),
    "flux2": dict(size="flux2-klein-4b", layers=[1, 2], grid=(1, 32, 32), patch=1, tokens=512,
                  skipped=0, clip=(1, 512, 512), transformer="Flux2Transformer2DModel",
                  vae="AutoencoderKLFlux2", width=7680,        # the text encoder is Z-Image's
                  parts=["lora", "full", "full16", "vae"],
                  lora=r".*\.(to_q|to_k|to_v|to_out\.0|to_qkv_mlp_proj)|"
                       r"single_transformer_blocks\.[0-9]+\.attn\.to_out"),
}


# ---- the reference ----

TORCH = {"bf16": "bfloat16", "f32": "float32"}


def sound_frames(a):
    """Frames of the sound of random_dataset's clips, 25 a second; clips have 8 a second."""
    return int((8 * (a.grid[0] - 1) + 1) * 25 / 8 + 0.5)


def arguments(a, dtype):
    """Random arguments of forward(), and the shape of the prediction, by family."""
    import torch
    f, h, w = a.grid
    n, width = FAMILIES[a.family]["tokens"], FAMILIES[a.family].get("width", 4096)

    def draw(*shape):
        return torch.randn(*shape, dtype=dtype, device=a.device)

    text, t = draw(1, n, width) * 0.2, torch.tensor([500.0], device=a.device)
    mask = torch.ones(1, n, dtype=torch.int64, device=a.device)
    if a.family == "ltx-2":                # the prompts are those that the connectors make
        n, sound = 1024, sound_frames(a)
        return dict(hidden_states=draw(1, f * h * w, 128), timestep=t[:, None].repeat(1, f * h * w),
                    audio_hidden_states=draw(1, sound, 128), audio_timestep=t[:, None], sigma=t,
                    encoder_hidden_states=draw(1, n, width) * 0.2,
                    audio_encoder_hidden_states=draw(1, n, width) * 0.2, num_frames=f, height=h,
                    width=w, fps=8.0, audio_num_frames=sound, use_cross_timestep=True)
    if a.family == "cogvideox":
        return dict(hidden_states=draw(1, f, 16, h, w), timestep=t.long(),
                    encoder_hidden_states=text)
    if a.family == "hunyuanvideo":
        return dict(hidden_states=draw(1, 16, f, h, w), timestep=t, encoder_hidden_states=text,
                    encoder_attention_mask=mask, pooled_projections=draw(1, 768),
                    guidance=torch.tensor([1000.0], dtype=dtype, device=a.device))
    if a.family == "flux":
        ids = torch.zeros(h // 2, w // 2, 3, device=a.device)
        ids[..., 1] += torch.arange(h // 2, device=a.device)[:, None]
        ids[..., 2] += torch.arange(w // 2, device=a.device)
        return dict(hidden_states=draw(1, h * w // 4, 64), timestep=t / 1000,
                    encoder_hidden_states=text, pooled_projections=draw(1, 768),
                    guidance=torch.tensor([1.0], dtype=dtype, device=a.device),
                    img_ids=ids.flatten(0, 1), txt_ids=torch.zeros(n, 3, device=a.device))
    if a.family == "z-image":
        return dict(x=[draw(16, 1, h, w)], t=t / 1000, cap_feats=[text[0]])
    if a.family == "flux2":
        at = [[torch.arange(k, device=a.device) for k in axes]
              for axes in ((1, h, w, 1), (1, 1, 1, n))]
        return dict(hidden_states=draw(1, h * w, 128), timestep=t / 1000,
                    encoder_hidden_states=text, img_ids=torch.cartesian_prod(*at[0]),
                    txt_ids=torch.cartesian_prod(*at[1]))
    if a.family == "wan2.1":
        return dict(hidden_states=draw(1, 16, f, h, w), timestep=t, encoder_hidden_states=text)
    if a.family == "qwen-image":
        return dict(hidden_states=draw(1, h * w // 4, 64), timestep=t / 1000,
                    encoder_hidden_states=text, img_shapes=[[(1, h // 2, w // 2)]])
    return dict(hidden_states=draw(1, f * h * w, 128), timestep=t, encoder_hidden_states=text,
                encoder_attention_mask=mask, num_frames=f, height=h, width=w,
                rope_interpolation_scale=(1.0, 32, 32))


def prompts(a, dtype):
    """A function that makes LTX-2's prompts by its connectors, as a step of training does; of other
    families it makes nothing."""
    import torch
    if a.family != "ltx-2":
        return dict
    from diffusers.pipelines.ltx2.connectors import LTX2TextConnectors
    family = FAMILIES[a.family]
    c = LTX2TextConnectors.from_pretrained(a.model + "/connectors", torch_dtype=dtype).to(a.device)
    x = torch.randn(1, 1024, family["width"], dtype=dtype, device=a.device) * 0.2
    mask = torch.full((1, 1, 1, 1024), -10000.0, dtype=dtype, device=a.device)
    mask[..., :family["tokens"]] = 0

    def make():
        with torch.no_grad():
            return dict(encoder_hidden_states=c.video_connector(x, mask)[0],
                        audio_encoder_hidden_states=c.audio_connector(x, mask)[0])
    return make


def ref_step(a, lora):
    import diffusers
    import torch
    if lora:
        import peft
    dtype, family = getattr(torch, TORCH[a.dtype]), FAMILIES[a.family]
    m = getattr(diffusers, family["transformer"]).from_pretrained(
        a.model + "/transformer", torch_dtype=dtype).to(a.device)
    if a.recompute:
        m.enable_gradient_checkpointing()
    if lora:
        m.requires_grad_(False)
        m.add_adapter(peft.LoraConfig(r=RANK, lora_alpha=RANK, target_modules=family["lora"]))
    params = [p for p in m.parameters() if p.requires_grad]
    opt = torch.optim.AdamW(params, lr=1e-4, betas=(0.9, 0.95), weight_decay=1e-4, fused=True)
    given = arguments(a, dtype)
    target = torch.randn((given["x"][0] if "x" in given else given["hidden_states"]).shape,
                         device=a.device)
    sound = "audio_hidden_states" in given and torch.randn_like(given["audio_hidden_states"],
                                                                dtype=torch.float32)
    make_prompts = prompts(a, dtype)
    first, times = time.time() - a.begin, []
    for _ in range(a.steps):
        start = time.perf_counter()
        y, *more = m(**{**given, **make_prompts()}, return_dict=False)
        y = y[0] if isinstance(y, list) else y           # Z-Image takes and gives lists
        loss = ((y.float() - target) ** 2).mean()
        if sound is not False:
            loss = loss + ((more[0].float() - sound) ** 2).mean()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(params, 1.0)
        opt.step()
        opt.zero_grad(set_to_none=True)
        if a.device != "cpu":
            torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    return first, times


def ref_encoder(a, load, call):
    """Times an encoder without gradients. The first call counts the FLOPs."""
    import torch
    from torch.utils.flop_counter import FlopCounterMode
    m = load(getattr(torch, TORCH[a.dtype])).to(a.device)
    first, times = time.time() - a.begin, []
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        call(m).sum().item()
    with torch.no_grad():
        for _ in range(a.steps):
            start = time.perf_counter()
            call(m).sum().item()
            times.append(time.perf_counter() - start)
    return first, times, counter.get_total_flops()


def ref_vae(a):
    import diffusers
    import torch
    cls = getattr(diffusers, FAMILIES[a.family]["vae"])
    x = torch.rand(1, 3, *FAMILIES[a.family]["clip"], device=a.device) * 2 - 1
    x = x[:, :, 0] if cls.__name__ in PICTURES else x
    return ref_encoder(a, lambda dtype: cls.from_pretrained(a.model + "/vae", torch_dtype=dtype),
                       lambda m: m.encode(x.to(m.dtype)).latent_dist.mean)


def ref_text(a):
    import torch
    import transformers
    family = FAMILIES[a.family]
    ids = torch.randint(2, 200, (PROMPTS[a.what], a.tokens if family.get("longest") and a.tokens
                                 else family["prompt"]),
                        device=a.device)
    mask = torch.ones_like(ids)
    if a.tokens:
        mask[:, a.tokens:] = 0

    def load(dtype):
        m = getattr(transformers, family["text"]).from_pretrained(a.model + "/text_encoder",
                                                                  dtype=dtype)
        if family["skipped"]:
            m.layers = m.layers[:-family["skipped"]]
        return m
    if not family.get("masked"):
        return ref_encoder(a, load, lambda m: m(ids)[0])
    return ref_encoder(a, load, lambda m: m(ids, attention_mask=mask)[0])


def ref(a):
    import torch
    torch.set_num_threads(a.threads)
    torch.manual_seed(0)
    work = {"lora": lambda: ref_step(a, True), "full": lambda: ref_step(a, False),
            "vae": lambda: ref_vae(a), "text": lambda: ref_text(a),
            "texts": lambda: ref_text(a), "captions": lambda: ref_text(a)}[a.what]
    first, times, *flops = work()
    print(json.dumps({"first": first, "times": times, "flops": flops[0] if flops else None}))


# ---- both programs ----

def gpu_bytes():
    """Returns the GPU memory in use by all processes; no other program should use the GPU."""
    out = subprocess.run(["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"],
                         capture_output=True, text=True, check=True).stdout
    return int(out.splitlines()[0]) << 20


def run_process(argv, env, watch=None, gpu=False):
    """Returns the output (None if the process failed), the peak of resident memory (or of the
    GPU's) in bytes, and the time at which the file `watch` had its first line."""
    with tempfile.TemporaryFile("w+") as f:
        p = subprocess.Popen(argv, env={**os.environ, **env}, stdout=f)
        seen, done, peak, polled = None, 0, 0, 0
        while not done and (gpu or (watch and seen is None)):
            if watch and seen is None and watch.exists() and watch.stat().st_size:
                seen = time.time()
            if gpu and time.time() - polled > POLL:
                peak, polled = max(peak, gpu_bytes()), time.time()
            time.sleep(0.002)
            done, status, use = os.wait4(p.pid, os.WNOHANG)
        if not done:
            _, status, use = os.wait4(p.pid, 0)
        p.returncode = os.waitstatus_to_exitcode(status)
        f.seek(0)
        return f.read() if p.returncode == 0 else None, peak or use.ru_maxrss * 1024, seen


def must(done, argv):
    if done[0] is None:
        raise SystemExit(f"bench: {' '.join(argv)}: failed")
    return done


def theirs(a, what, model, dtype, tuned, tokens=0):
    """On a GPU blocks are recomputed if the step fails otherwise, as it does out of memory."""
    argv = [sys.executable, __file__, "ref", a.family, what.removesuffix("16"), model, "--dtype",
            dtype, "--threads", str(a.threads), "--device", a.device,
            "--steps", str(a.steps), "--begin", repr(time.time()), "--tokens", str(tokens),
            "--grid", *map(str, a.grid)]
    env, gpu = {"OMP_NUM_THREADS": str(a.threads), **(TUNED if tuned else {})}, a.device != "cpu"
    out, rss, _ = run_process(argv, env, gpu=gpu)
    if out is None and gpu:
        out, rss, _ = must(run_process([*argv, "--recompute"], env, gpu=gpu), argv)
    elif out is None:
        must((out,), argv)
    r = json.loads(out.splitlines()[-1])
    return {"s": min(r["times"]), "first": r["first"], "rss": rss, "flops": r["flops"]}


def train_command(a, what, model, dtype, out):
    return [f"{a.build}/vtrain", "--latents", f"{a.work}/latents.lmdb", "--model", model,
            "--output_dir", str(out), "--max_train_steps", str(a.steps), "--train_batch_size", "1",
            "--threads", str(a.threads), "--report_to", "none", "--training_type",
            "lora" if what == "lora" else "full-finetune",
            f"--gradient_checkpointing={'none' if a.device == 'cpu' else 'auto'}", "--kernels",
            a.kernels, "--checkpointing_limit", "1", "--device", a.device, "--mixed_precision",
            {"bf16": "bf16", "f32": "no"}[dtype],
            *(["--optimizer", "adamw_bf16"] if what == "full16" else []),
            *(["--with_audio"] if "sound" in FAMILIES[a.family] else [])]


def ours_train(a, what, model, n, dtype):
    out = pathlib.Path(a.work) / f"run-{what}-{n}"
    shutil.rmtree(out, ignore_errors=True)
    argv = train_command(a, what, model, dtype, out) + ["--quiet"]
    begin = time.time()
    _, rss, seen = must(run_process(argv, {}, out / "metrics.jsonl", a.device != "cpu"), argv)
    lines = [json.loads(s) for s in (out / "metrics.jsonl").read_text().splitlines()]
    shutil.rmtree(out, ignore_errors=True)
    first = seen - begin - lines[0]["step_s"] if seen else None
    return {"s": min(x["step_s"] for x in lines), "rss": rss, "first": first}


def ours_encode(a, what, model):
    shape = [PROMPTS[what]] if what in PROMPTS else FAMILIES[a.family]["clip"]
    argv = [f"{a.build}/tests/bench_encoders", "text" if what in PROMPTS else what, model,
            str(a.steps), str(a.threads), *map(str, shape),
            *([str(SENTENCES)] if what == "captions" else [])]
    begin = time.time()
    out, rss, _ = must(run_process(argv, {"VLT_DEVICE": a.device}, gpu=a.device != "cpu"), argv)
    r = json.loads(out.splitlines()[-1])
    return {"s": min(r["times"]), "first": r["first"] - begin, "rss": rss,
            "tokens": r.get("tokens")}


def better(best, new, key=""):
    for k, v in new.items():
        if v is not None and (k not in best or v < best[k]):
            best[k] = v
            best[k + "_by"] = key


def model_flops(a, what):
    """FLOPs of a CogVideoX step without recomputation: forward, gradients of activations and, in a
    full finetune, of weights."""
    heads, layers = {"2b": (30, 30), "5b": (48, 42)}[a.size]
    d, layers = 64 * heads, a.layers[0] if a.layers else layers
    n = FAMILIES[a.family]["tokens"] + a.grid[0] * (a.grid[1] // 2) * (a.grid[2] // 2)
    return (2 if what == "lora" else 3) * 24 * n * d * d * layers + 3 * 4 * n * n * d * layers


def planned_flops(a, what, model):
    """FLOPs of a step, as vtrain predicts them."""
    argv = train_command(a, what, model, "f32", f"{a.work}/dry") + ["--dry_run"]
    done = subprocess.run(argv, capture_output=True, text=True)
    found = re.search(r"; (\S+) GFLOP a step", done.stdout + done.stderr)
    return 1e9 * float(found.group(1)) if done.returncode == 0 and found else None


def claim(a, what, tokens):
    """The name of a row, which says what was computed."""
    f, family = a.grid, FAMILIES[a.family]
    if what == "vae":
        return f"{a.family}: VAE encode of {' x '.join(map(str, family['clip']))}"
    if what == "text":
        return f"{a.family}: text encoder, 2 layers, {family['prompt']} tokens"
    if what == "texts":
        return f"{a.family}: text encoder, 2 layers, 8 prompts of {family['prompt']} tokens"
    if what == "captions":
        return f"{a.family}: text encoder, 2 layers, 8 captions of {tokens} tokens"
    blocks = "+".join(map(str, a.layers)) + " blocks" if a.layers else "all blocks"
    video = f[0] * f[1] * f[2] // family.get("patch", 2) ** 2
    types = "" if len(a.dtypes) > 1 else f", {a.dtypes[0]}"
    kind = {"lora": "LoRA step", "full": "full finetune step",
            "full16": "full finetune step with adamw_bf16"}[what]
    size = "" if a.family.startswith(a.size) else f" {a.size}"
    sound = f" + {sound_frames(a)}" if "sound" in family else ""
    return f"{a.family}{size}: {kind}, {blocks}, {family['tokens']} + {video}{sound} tokens{types}"


def write_row(a, what, us, them, flops):
    row = {"what": claim(a, what, us.get("tokens")), "part": "families", "unit": "s",
           "threads": a.threads, "ours": us["s"], "theirs": them["s"],
           "peer": f"PyTorch, {them['s_by']}", "memory": [us["rss"], them["rss"]],
           "type": us["s_by"]}
    if us.get("first") and "first" in them:
        row["first"] = [us["first"], them["first"]]
    if flops:
        row["rate"] = flops / us["s"] / 1e9
    notes = ["one round"] if a.rounds == 1 else []
    notes += [a.note] if a.note else []
    if notes:
        row["note"] = ", ".join(notes)
    with open(a.rows, "a") as f:
        f.write(json.dumps(row) + "\n")


def compare(a, what):
    step = what in ("lora", "full", "full16")
    model = f"{a.work}/{'dit' if step else 'encoders'}"
    types, by_type, them = ["bf16"] if what == "full16" else a.dtypes, {}, {}
    for n in range(a.rounds):
        for dtype in types if step else ["bf16"]:      # vprep's default
            better(by_type.setdefault(dtype, {}), ours_train(a, what, model, n, dtype) if step
                   else ours_encode(a, what, model), dtype)
        tokens = by_type["bf16"]["tokens"] if what == "captions" else 0
        for dtype in types:
            for tuned in (False, True) if a.device == "cpu" else (False,):
                better(them, theirs(a, what, model, dtype, tuned, tokens),
                       f"{dtype}{', tuned malloc' if tuned else ''}")
    # Time and memory of vlt are those of the same type.
    us = min(by_type.values(), key=lambda x: x["s"])
    def ratio(k):
        return f"{us[k] / them[k]:.2f}" if k in us and k in them else "-"
    print(f"| {a.family}: {what} | {us['s']:.2f} s ({us['s_by']}) "
          f"| {them['s']:.2f} s ({them['s_by']}) | {ratio('s')} | "
          f"{us['rss'] / 2**30:.2f} / {them['rss'] / 2**30:.2f} GiB = {ratio('rss')} | "
          f"{us.get('first') or 0:.2f} / {them['first']:.2f} s = {ratio('first')} |", flush=True)
    if a.rows:
        flops = None if what == "captions" else them.get("flops") if not step else (
            planned_flops(a, what, model) if a.device == "cpu" else model_flops(a, what))
        write_row(a, what, us, them, flops)
    if step and a.peak:
        share = [100 * model_flops(a, what) / (t["s"] * a.peak * 1e12) for t in (us, them)]
        print(f"  share of the measured peak of {a.peak:g} TFLOP/s: vlt {share[0]:.1f}%, "
              f"PyTorch {share[1]:.1f}%", flush=True)


def make_inputs(a):
    work, family = pathlib.Path(a.work), FAMILIES[a.family]
    make = [sys.executable, str(ROOT / "scripts/random_model.py")]
    if {"lora", "full", "full16"} & set(a.part):
        if not (work / "dit/model_index.json").exists():
            layers = ["--layers", *map(str, a.layers)] if a.layers else []
            subprocess.run([*make, str(work / "dit"), "--size", a.size, *layers, "--parts",
                            ",".join(["transformer,scheduler",
                                      *filter(None, [family.get("beside")])])], check=True)
        subprocess.run([f"{a.build}/tests/random_dataset", str(work / "latents.lmdb"), "4",
                        *map(str, a.grid), str(family["tokens"]), str(family.get("width", 4096)),
                        a.family + ("+sound" if "sound" in family else "")], check=True)
    if {"vae", *PROMPTS} & set(a.part) and not (work / "encoders/model_index.json").exists():
        subprocess.run([*make, str(work / "encoders"), "--size", a.size, "--text_layers",
                        str(2 + family["skipped"]), "--parts", "vae,text_encoder,tokenizer"],
                       check=True)


def run(a):
    family = FAMILIES[a.family]
    a.part = a.part or family.get("parts", ["lora", "full", "full16", "vae", "text", "texts",
                                            *(["captions"] if family.get("masked") else [])])
    a.size, a.grid = a.size or family["size"], a.grid or family["grid"]
    a.layers = family["layers"] if a.layers is None else [n for n in a.layers if n]
    pathlib.Path(a.work).mkdir(parents=True, exist_ok=True)
    make_inputs(a)
    print(f"{a.family} {a.size}, blocks {a.layers or 'all'}: {a.threads} threads, "
          f"{a.rounds} rounds, {a.steps} steps each; grid {'x'.join(map(str, a.grid))}, "
          f"clip {'x'.join(map(str, family['clip']))}")
    print("| part | vlt | PyTorch | ratio | peak memory | start to first step |\n"
          "|---|---|---|---|---|---|", flush=True)
    for what in a.part:
        compare(a, what)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    sub = p.add_subparsers(required=True)
    r = sub.add_parser("ref")
    r.add_argument("family", choices=FAMILIES)
    r.add_argument("what")
    r.add_argument("model")
    r.add_argument("--begin", type=float, default=time.time())
    r.add_argument("--dtype", default="bf16")
    r.add_argument("--tokens", type=int, default=0, help="of a caption; the rest is padding")
    r.add_argument("--recompute", action="store_true")
    r.set_defaults(call=ref)
    d = sub.add_parser("run")
    d.add_argument("build")
    d.add_argument("work")
    d.add_argument("family", choices=FAMILIES)
    d.add_argument("part", nargs="*")
    d.add_argument("--rounds", type=int, default=2)
    d.add_argument("--size", help="of scripts/random_model.py")
    d.add_argument("--layers", type=int, nargs="+", help="0: all that the size has")
    d.add_argument("--peak", type=float, default=0,
                   help="TFLOP/s of the best product; the table then shows shares of it")
    d.add_argument("--kernels", default="auto")
    d.add_argument("--rows", help="file that gets a row for each part (scripts/bench_table.py)")
    d.add_argument("--note", help="of each row, such as which other jobs ran")
    d.add_argument("--dtypes", nargs="+", default=["bf16", "f32"])
    d.set_defaults(call=run)
    for q in (r, d):
        q.add_argument("--threads", type=int, default=os.cpu_count())
        q.add_argument("--steps", type=int, default=3)
        q.add_argument("--grid", type=int, nargs=3)
        q.add_argument("--device", default="cpu")
    a = p.parse_args()
    a.call(a)


if __name__ == "__main__":
    main()
