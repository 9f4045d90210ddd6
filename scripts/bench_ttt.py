#!/usr/bin/env python3
"""Times training steps of TTT layers on clips of 3, 9 and 18 s (1, 3 and 6 segments), to see how
time and memory grow with the number of segments.

    python3 scripts/bench_ttt.py BUILD WORK [--threads N] [--rounds N] [--steps N] [--grid H W]
            [--text L3 L9 L18] [--mixed_precision no|bf16] [--gradient_checkpointing MODE]
            [--layers ttt_linear ttt_mlp] [--rows ROWS.jsonl]

The transformer has CogVideoX-5B's width, two blocks and random weights; --adapter_method qkvo is
that of the later stages in configs/ttt. All lengths have latents of H x W, and a caption of L3, L9
or L18 tokens for each segment, so that a sequence is a multiple of the mini-batch of 64 tokens.
Each round runs all rows one after the other, each in a new process, and the least time of the steps
after a process's first one counts (of the first one with --steps 1), of the clock and of the
processor. Beside other jobs only the processor's time is a measurement. vtrain predicts the memory
before the first step.
"""
import argparse
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time

CLIPS = {"3 s": 1, "9 s": 3, "18 s": 6}                  # segments
LAYERS = ["ttt_linear", "ttt_mlp"]
TEXT_WIDTH = 4096
CONFIG = {"_class_name": "CogVideoXTransformer3DModel", "num_attention_heads": 48,
          "attention_head_dim": 64, "num_layers": 2, "time_embed_dim": 512,
          "text_embed_dim": TEXT_WIDTH, "in_channels": 16, "out_channels": 16,
          "max_text_seq_length": 4096, "use_rotary_positional_embeddings": True}
PREDICTED = re.compile(r"memory: peak ([0-9.]+) (\w+) predicted")
UNITS = {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30}


def frames(segments):
    return 12 * segments + 1


def texts(a, segments):
    """The tokens of all captions of a clip."""
    return segments * a.text[list(CLIPS.values()).index(segments)]


def tokens(a, segments):
    return frames(segments) * (a.grid[0] // 2) * (a.grid[1] // 2) + texts(a, segments)


def make_inputs(a):
    if not (a.work / "transformer").exists():
        subprocess.run([f"{a.build}/tests/random_transformer", str(a.work / "transformer"),
                        json.dumps(CONFIG)], check=True)
    for segments in CLIPS.values():
        out = a.work / f"{segments}.lmdb"
        if not out.exists():
            subprocess.run([f"{a.build}/tests/random_dataset", str(out), "2",
                            str(frames(segments)), *map(str, a.grid), str(texts(a, segments)),
                            str(TEXT_WIDTH), "cogvideox"], check=True)


def processor_seconds(pid):
    with open(f"/proc/{pid}/stat") as f:
        fields = f.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def watch(p, log, metrics, steps):
    """Returns the metrics of the first `steps` steps, and the processor's time before the first one
    and at the end of each."""
    at = []
    while len(at) <= steps:
        if p.poll() is not None:
            raise SystemExit(f"bench: vtrain ended with status {p.returncode}; {metrics.parent}")
        time.sleep(0.01)
        n = len(metrics.read_text().splitlines()) if metrics.exists() else 0
        n += PREDICTED.search(log.read_text()) is not None
        at += [processor_seconds(p.pid)] * (n - len(at))
    return [json.loads(line) for line in metrics.read_text().splitlines()[:steps]], at


def run(a, layer, segments):
    """Runs the steps, and kills vtrain before it writes a checkpoint."""
    out = a.work / "run"
    shutil.rmtree(out, ignore_errors=True)
    argv = [f"{a.build}/vtrain", "--latents", str(a.work / f"{segments}.lmdb"), "--transformer",
            str(a.work / "transformer"), "--ssm_layer", layer, "--adapter_method", "qkvo",
            "--output_dir", str(out), "--max_train_steps", "1000", "--train_batch_size", "1",
            "--mixed_precision", a.mixed_precision,
            f"--gradient_checkpointing={a.gradient_checkpointing}", "--threads", str(a.threads),
            "--report_to", "none"]
    log, first = a.work / "log", min(1, a.steps - 1)
    with open(log, "w") as f:
        p = subprocess.Popen(argv, stdout=f, stderr=f)
        try:
            lines, at = watch(p, log, out / "metrics.jsonl", a.steps)
        finally:
            p.kill()
            p.wait()
    number, unit = PREDICTED.search(log.read_text()).groups()
    shutil.rmtree(out)
    return {"s": min(x["step_s"] for x in lines[first:]),
            "cpu": min(b - c for b, c in zip(at[first + 1:], at[first:])),
            "peak": lines[-1]["peak_bytes"], "predicted": float(number) * UNITS[unit]}


def least(best, new):
    return {k: min(v, best.get(k, v)) for k, v in new.items()}


def print_row(layer, clip, n, r):
    print(f"| {layer}, {clip} | {n} | {r['s']:.2f} s | {r['cpu']:.2f} s | "
          f"{1000 * r['s'] / n:.2f} s | {1000 * r['cpu'] / n:.2f} s | "
          f"{r['predicted'] / 2**30:.2f} GiB | {r['peak'] / 2**30:.2f} GiB |", flush=True)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    p.add_argument("build")
    p.add_argument("work", type=pathlib.Path)
    p.add_argument("--threads", type=int, default=os.cpu_count())
    p.add_argument("--rounds", type=int, default=2)
    p.add_argument("--steps", type=int, default=3, help="of each process")
    p.add_argument("--grid", type=int, nargs=2, default=(16, 16), help="latent rows and columns")
    p.add_argument("--text", type=int, nargs=3, default=(64, 64, 64), help="tokens a caption")
    p.add_argument("--mixed_precision", default="no", help="as vtrain's")
    p.add_argument("--gradient_checkpointing", default="none", help="as vtrain's")
    p.add_argument("--layers", nargs="+", default=LAYERS, choices=LAYERS)
    p.add_argument("--rows", help="file that gets a row for each clip (scripts/bench_table.py)")
    a = p.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))      # ends vtrain too
    a.work.mkdir(parents=True, exist_ok=True)
    make_inputs(a)
    rows = [(layer, clip) for layer in a.layers for clip in CLIPS]
    best = {row: {} for row in rows}
    for _ in range(a.rounds):
        for row in rows:
            best[row] = least(best[row], run(a, row[0], CLIPS[row[1]]))
    print("| layers, clip | tokens | step | its CPU | 1000 tokens | their CPU | predicted peak | "
          "peak |\n|---|---|---|---|---|---|---|---|")
    for row in rows:
        print_row(*row, tokens(a, CLIPS[row[1]]), best[row])
        if a.rows:
            with open(a.rows, "a") as f:
                f.write(json.dumps({"what": f"step of {row[0]}, a clip of {row[1]}", "part": "ttt",
                                    "unit": "s", "threads": a.threads, "ours": best[row]["s"],
                                    "memory": [best[row]["peak"]]}) + "\n")


if __name__ == "__main__":
    main()
