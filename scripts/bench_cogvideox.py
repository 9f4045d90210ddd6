#!/usr/bin/env python3
"""Times vlt's CogVideoX against diffusers, transformers and PEFT on this machine, in one run.

    python3 scripts/bench_cogvideox.py run BUILD WORK [lora full vae t5 ...]
            [--rounds N] [--steps N] [--threads N] [--kernels SET]
    python3 scripts/bench_cogvideox.py ref lora|full|vae|t5 MODEL --dtype bf16 ...
            is the command that `run` calls

Random weights of real widths (scripts/random_model.py) and random data: 2B width with 4 layers for
the training steps, 226 + 4,992 tokens (others with --size, --layers and --grid); the whole VAE on 9
x 240 x 368; T5-XXL width with 2 blocks. vlt and PyTorch run alternately; each round is a new
process; the least time of all rounds counts. Both run in bf16 and f32 (--dtypes), PyTorch each with
default and with raised malloc thresholds, and the best of each counts. A ratio is ours/theirs. With
--device cuda peak memory is the GPU's, as nvidia-smi reports it, and PyTorch's blocks are
recomputed if the step fails otherwise.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
GRID = (13, 32, 48)
CLIP = (9, 240, 368)
TOKENS, RANK = 226, 64
TUNED = {"MALLOC_MMAP_THRESHOLD_": str(1 << 40), "MALLOC_TRIM_THRESHOLD_": str(1 << 40),
         "MALLOC_TOP_PAD_": str(64 << 20)}


# ---- the reference ----

def ref_step(a, lora):
    import torch
    from diffusers import CogVideoXTransformer3DModel
    # noqa: F401  (imported as trainers do)
    from diffusers.models.embeddings import get_3d_rotary_pos_embed
    dtype = getattr(torch, {"bf16": "bfloat16", "f32": "float32"}[a.dtype])
    m = CogVideoXTransformer3DModel.from_pretrained(a.model + "/transformer",
                                                    torch_dtype=dtype).to(a.device)
    if a.recompute:
        m.enable_gradient_checkpointing()
    if lora:
        from peft import LoraConfig
        m.requires_grad_(False)
        m.add_adapter(LoraConfig(r=RANK, lora_alpha=RANK,
                                 target_modules=["to_q", "to_k", "to_v", "to_out.0"]))
    params = [p for p in m.parameters() if p.requires_grad]
    opt = torch.optim.AdamW(params, lr=1e-4, betas=(0.9, 0.95), weight_decay=1e-4, fused=True)
    f, h, w = a.grid
    x = torch.randn(1, f, 16, h, w, dtype=dtype, device=a.device)
    target = torch.randn(1, f, 16, h, w, device=a.device)
    text = torch.randn(1, TOKENS, 4096, dtype=dtype, device=a.device) * 0.2
    t = torch.tensor([500], device=a.device)
    first, times = time.time() - a.begin, []
    for _ in range(a.steps):
        start = time.perf_counter()
        y = m(hidden_states=x, encoder_hidden_states=text, timestep=t, return_dict=False)[0]
        loss = ((y.float() - target) ** 2).mean()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(params, 1.0)
        opt.step()
        opt.zero_grad(set_to_none=True)
        if a.device != "cpu":
            torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    return first, times


def ref_vae(a):
    import torch
    from diffusers import AutoencoderKLCogVideoX
    dtype = getattr(torch, {"bf16": "bfloat16", "f32": "float32"}[a.dtype])
    m = AutoencoderKLCogVideoX.from_pretrained(a.model + "/vae", torch_dtype=dtype)
    f, h, w = CLIP
    x = torch.rand(1, 3, f, h, w).to(dtype) * 2 - 1
    first, times = time.time() - a.begin, []
    with torch.no_grad():
        for _ in range(a.steps):
            start = time.perf_counter()
            m.encode(x).latent_dist.mean.sum().item()
            times.append(time.perf_counter() - start)
    return first, times


def ref_t5(a):
    import torch
    from transformers import T5EncoderModel
    dtype = getattr(torch, {"bf16": "bfloat16", "f32": "float32"}[a.dtype])
    m = T5EncoderModel.from_pretrained(a.model + "/text_encoder", dtype=dtype)
    ids = torch.randint(2, 200, (1, TOKENS))
    first, times = time.time() - a.begin, []
    with torch.no_grad():
        for _ in range(a.steps):
            start = time.perf_counter()
            m(ids)[0].sum().item()
            times.append(time.perf_counter() - start)
    return first, times


def ref(a):
    import torch
    torch.set_num_threads(a.threads)
    torch.manual_seed(0)
    work = {"lora": lambda: ref_step(a, True), "full": lambda: ref_step(a, False),
            "vae": lambda: ref_vae(a), "t5": lambda: ref_t5(a)}[a.what]
    first, times = work()
    print(json.dumps({"first": first, "times": times}))


# ---- both programs ----

def gpu_bytes():
    """Memory in use on the GPU by all processes; this benchmark is the only user."""
    out = subprocess.run(["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"],
                         capture_output=True, text=True, check=True).stdout
    return int(out.splitlines()[0]) << 20


def run_process(argv, env, watch=None, gpu=False):
    """Returns the output (None if the process failed), the peak of resident (or the GPU's) memory
    in bytes, and the time when the file `watch` got its first line."""
    with tempfile.TemporaryFile("w+") as f:
        p = subprocess.Popen(argv, env={**os.environ, **env}, stdout=f)
        seen, done, peak = None, 0, 0
        while not done and (gpu or (watch and seen is None)):
            if watch and seen is None and watch.exists() and watch.stat().st_size:
                seen = time.time()
            if gpu:
                peak = max(peak, gpu_bytes())
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


def theirs(a, what, model, dtype, tuned):
    """On a GPU blocks are recomputed if the step fails otherwise, as it does out of memory."""
    argv = [sys.executable, __file__, "ref", what, model, "--dtype", dtype, "--threads",
            str(a.threads), "--device", a.device,
            "--steps", str(a.steps), "--begin", repr(time.time()), "--grid", *map(str, a.grid)]
    env, gpu = {"OMP_NUM_THREADS": str(a.threads), **(TUNED if tuned else {})}, a.device != "cpu"
    out, rss, _ = run_process(argv, env, gpu=gpu)
    if out is None and gpu:
        out, rss, _ = must(run_process([*argv, "--recompute"], env, gpu=gpu), argv)
    elif out is None:
        must((out,), argv)
    r = json.loads(out.splitlines()[-1])
    return {"s": min(r["times"]), "first": r["first"], "rss": rss}


def ours_train(a, what, model, n, dtype):
    out = pathlib.Path(a.work) / f"run-{what}-{n}"
    subprocess.run(["rm", "-rf", str(out)], check=True)
    argv = [f"{a.build}/vtrain", "--latents", f"{a.work}/latents.lmdb", "--model", model,
            "--output_dir", str(out),
            "--max_train_steps", str(a.steps), "--train_batch_size", "1", "--threads",
            str(a.threads), "--quiet",
            "--report_to", "none", "--training_type", "lora" if what == "lora" else "full-finetune",
            f"--gradient_checkpointing={'none' if a.device == 'cpu' else 'auto'}", "--kernels",
            a.kernels,
            "--checkpointing_limit", "1", "--device", a.device, "--mixed_precision",
            {"bf16": "bf16", "f32": "no"}[dtype]]
    begin = time.time()
    _, rss, seen = must(run_process(argv, {}, out / "metrics.jsonl", a.device != "cpu"), argv)
    lines = [json.loads(s) for s in (out / "metrics.jsonl").read_text().splitlines()]
    subprocess.run(["rm", "-rf", str(out)], check=True)
    first = seen - begin - lines[0]["step_s"] if seen else None
    return {"s": min(x["step_s"] for x in lines), "rss": rss, "first": first}


def ours_encode(a, what, model):
    argv = [f"{a.build}/tests/bench_encoders", what, model, str(a.steps), str(a.threads),
            *map(str, CLIP)]
    begin = time.time()
    out, rss, _ = must(run_process(argv, {}), argv)
    r = json.loads(out.splitlines()[-1])
    return {"s": min(r["times"]), "first": r["first"] - begin, "rss": rss}


def better(best, new, key=""):
    for k, v in new.items():
        if v is not None and (k not in best or v < best[k]):
            best[k] = v
            best[k + "_by"] = key


def model_flops(a, what):
    """FLOPs of a step without recomputation: forward, gradients of activations and, in a full
    finetune, of weights."""
    heads, layers = {"2b": (30, 30), "5b": (48, 42)}[a.size]
    d, layers = 64 * heads, a.layers or layers
    n = TOKENS + a.grid[0] * (a.grid[1] // 2) * (a.grid[2] // 2)
    return (2 if what == "lora" else 3) * 24 * n * d * d * layers + 3 * 4 * n * n * d * layers


def compare(a, what):
    step = what in ("lora", "full")
    model = f"{a.work}/{'dit' if step else 'encoders'}"
    by_type, them = {}, {}
    for n in range(a.rounds):
        for dtype in a.dtypes if step else ["f32"]:
            better(by_type.setdefault(dtype, {}), ours_train(a, what, model, n, dtype) if step
                   else ours_encode(a, what, model), dtype)
        for dtype in a.dtypes:
            for tuned in (False, True) if a.device == "cpu" else (False,):
                better(them, theirs(a, what, model, dtype, tuned),
                       f"{dtype}{', tuned malloc' if tuned else ''}")
    # all of one type: not the time of one and the memory of another
    us = min(by_type.values(), key=lambda x: x["s"])
    def ratio(k):
        return f"{us[k] / them[k]:.2f}" if k in us and k in them else "-"
    print(f"| {what} | {us['s']:.2f} s ({us['s_by']}) | {them['s']:.2f} s ({them['s_by']}) "
          f"| {ratio('s')} | "
          f"{us['rss'] / 2**30:.2f} / {them['rss'] / 2**30:.2f} GiB = {ratio('rss')} | "
          f"{us.get('first') or 0:.2f} / {them['first']:.2f} s = {ratio('first')} |", flush=True)
    if step and a.peak:
        share = [100 * model_flops(a, what) / (t["s"] * a.peak * 1e12) for t in (us, them)]
        print(f"  of the measured peak of {a.peak:g} TFLOP/s: vlt {share[0]:.1f}%, "
              f"PyTorch {share[1]:.1f}%", flush=True)


def make_inputs(a):
    work = pathlib.Path(a.work)
    make = [sys.executable, str(ROOT / "scripts/random_model.py")]
    if {"lora", "full"} & set(a.part):
        if not (work / "dit/model_index.json").exists():
            layers = ["--layers", str(a.layers)] if a.layers else []
            subprocess.run([*make, str(work / "dit"), "--size", a.size, *layers, "--parts",
                            "transformer,scheduler"], check=True)
        subprocess.run([f"{a.build}/tests/random_dataset", str(work / "latents.lmdb"), "4",
                        *map(str, a.grid),
                        str(TOKENS), "4096"], check=True)
    if {"vae", "t5"} & set(a.part) and not (work / "encoders/model_index.json").exists():
        subprocess.run([*make, str(work / "encoders"), "--t5_layers", "2", "--parts",
                        "vae,text_encoder,tokenizer"], check=True)


def run(a):
    a.part = a.part or ["lora", "full", "vae", "t5"]
    pathlib.Path(a.work).mkdir(parents=True, exist_ok=True)
    make_inputs(a)
    print(f"{a.threads} threads, {a.rounds} rounds, {a.steps} steps each; "
          f"grid {'x'.join(map(str, a.grid))}, clip {'x'.join(map(str, CLIP))}")
    print("| part | vlt | PyTorch | ratio | peak memory | start to first step |\n"
          "|---|---|---|---|---|---|", flush=True)
    for what in a.part:
        compare(a, what)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    sub = p.add_subparsers(required=True)
    r = sub.add_parser("ref")
    r.add_argument("what")
    r.add_argument("model")
    r.add_argument("--begin", type=float, default=time.time())
    r.add_argument("--dtype", default="bf16")
    r.add_argument("--recompute", action="store_true")
    r.set_defaults(call=ref)
    d = sub.add_parser("run")
    d.add_argument("build")
    d.add_argument("work")
    d.add_argument("part", nargs="*")
    d.add_argument("--rounds", type=int, default=2)
    d.add_argument("--size", default="2b", choices=["2b", "5b"])
    d.add_argument("--layers", type=int, default=4, help="0: all that the size has")
    d.add_argument("--peak", type=float, default=0,
                   help="TFLOP/s of the best product, for shares of it")
    d.add_argument("--kernels", default="auto")
    d.add_argument("--dtypes", nargs="+", default=["bf16", "f32"])
    d.set_defaults(call=run)
    for q in (r, d):
        q.add_argument("--threads", type=int, default=os.cpu_count())
        q.add_argument("--steps", type=int, default=3)
        q.add_argument("--grid", type=int, nargs=3, default=list(GRID))
        q.add_argument("--device", default="cpu")
    a = p.parse_args()
    a.call(a)


if __name__ == "__main__":
    main()
