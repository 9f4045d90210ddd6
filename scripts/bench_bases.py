#!/usr/bin/env python3
"""Times LoRA steps whose base is held in bf16, fp8, int8 and nf4 (--transformer_dtype), in one run;
`w8a8` is int8 with --int8_activations.

    python3 scripts/bench_bases.py BUILD WORK [--bases bf16 fp8 int8 w8a8 nf4] [--threads N]
            [--kernels SET] [--rounds N] [--steps N] [--layers N] [--grid F H W] [--rank N]

The transformer has Wan 2.1 1.3B's width, some of its blocks and random weights in bf16; latents of
F x H x W and 512 tokens of text are random too. Each round runs all bases one after the other, each
in a new process with the same draws, and the least time of the steps after a process's first one
counts, of the clock and of the processor; beside other jobs only the processor's is a measurement.
`peak` is the most memory of the process, as vtrain reports it, with the weights that stay mapped
from the file, as those of a base in the file's type do. `loss` is the mean of the steps. Ratios are
to the first base, of the processor's time.
"""
import argparse
import json
import os
import pathlib
import re
import shutil
import subprocess

import bench_ttt

CONFIG = {"_class_name": "WanTransformer3DModel", "num_attention_heads": 12,
          "attention_head_dim": 128, "ffn_dim": 8960, "text_dim": 4096, "in_channels": 16,
          "out_channels": 16}
TEXT, TEXT_WIDTH = 512, 4096
MAPPED = re.compile(r"memory: ([0-9.]+) (\w+) of frozen weights stay mapped")


def make_inputs(a):
    transformer, data = a.work / f"transformer-{a.layers}", a.work / "-".join(map(str, a.grid))
    if not transformer.exists():
        subprocess.run([f"{a.build}/tests/random_transformer", str(transformer),
                        json.dumps(CONFIG | {"num_layers": a.layers})], check=True)
    if not data.exists():
        subprocess.run([f"{a.build}/tests/random_dataset", str(data), "2", *map(str, a.grid),
                        str(TEXT), str(TEXT_WIDTH), "wan2.1"], check=True)
    return transformer, data


def run(a, base, transformer, data):
    """Runs the steps, and kills vtrain before it writes a checkpoint."""
    out, log = a.work / "run", a.work / "log"
    held = ["int8", "--int8_activations"] if base == "w8a8" else [base]
    shutil.rmtree(out, ignore_errors=True)
    with open(log, "w") as f:
        p = subprocess.Popen([f"{a.build}/vtrain", "--latents", str(data), "--transformer",
                              str(transformer), "--output_dir", str(out), "--training_type",
                              "lora", "--rank", str(a.rank), "--target_name", "all-linear",
                              "--transformer_dtype", *held, "--max_train_steps", "1000",
                              "--train_batch_size", "1", "--mixed_precision", "bf16", "--threads",
                              str(a.threads), "--kernels", a.kernels, "--report_to", "none"],
                             stdout=f, stderr=f)
        try:
            lines, at = bench_ttt.watch(p, log, out / "metrics.jsonl", a.steps)
        finally:
            p.kill()
            p.wait()
    mapped = MAPPED.search(log.read_text())
    file = float(mapped[1]) * bench_ttt.UNITS[mapped[2]] if mapped else 0
    shutil.rmtree(out)
    return {"s": min(x["step_s"] for x in lines[1:]),
            "cpu": min(b - c for b, c in zip(at[2:], at[1:])),
            "peak": lines[-1]["peak_bytes"] + file,
            "loss": sum(x["loss"] for x in lines) / len(lines)}


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    p.add_argument("build")
    p.add_argument("work", type=pathlib.Path)
    p.add_argument("--bases", nargs="+", default=["bf16", "fp8", "int8", "w8a8", "nf4"])
    p.add_argument("--threads", type=int, default=os.cpu_count())
    p.add_argument("--kernels", default="auto", help="the CPU's, as in vtrain's flag")
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--steps", type=int, default=3, help="of each process, at least 2")
    p.add_argument("--layers", type=int, default=4)
    p.add_argument("--grid", type=int, nargs=3, default=(5, 32, 48), help="latent frames, rows and "
                   "columns")
    p.add_argument("--rank", type=int, default=16)
    a = p.parse_args()
    a.work.mkdir(parents=True, exist_ok=True)
    transformer, data = make_inputs(a)
    best = {base: {} for base in a.bases}
    for _ in range(a.rounds):
        for base in a.bases:
            new = run(a, base, transformer, data)
            best[base] = {k: min(v, best[base].get(k, v)) for k, v in new.items()}
    first = best[a.bases[0]]
    print("| `--transformer_dtype` | step | its CPU | times as fast | peak | times the memory | "
          "loss |\n|---|---|---|---|---|---|---|")
    for base, r in best.items():
        far = 100 * (r["loss"] / first["loss"] - 1)
        print(f"| {base} | {r['s']:.2f} s | {r['cpu']:.2f} s | {first['cpu'] / r['cpu']:.2f} | "
              f"{r['peak'] / 2**30:.2f} GiB | {r['peak'] / first['peak']:.2f} | "
              f"{r['loss']:.5f} ({far:+.3f} %) |")


if __name__ == "__main__":
    main()
