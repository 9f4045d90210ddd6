#!/usr/bin/env python3
"""Computes what a dataset and a training run cost at sizes that this machine cannot try.

    scale_model.py measure BUILD FOLDER SAMPLES [LARGE]   measures constants; prints JSON
    scale_model.py tables [CONSTANTS]                     prints the tables of docs/scale.md
    scale_model.py check DOC [CONSTANTS]                  fails if the tables of DOC are others

CONSTANTS (scripts/scale.json) holds measured numbers. The numbers of the target are stated in
TARGET below. `measure` makes a dataset of SAMPLES tiny samples in FOLDER and removes it again.
LARGE is a dataset of millions of samples (tests/random_dataset), on which opening and planning are
measured: the shuffle of so many samples misses the processor's caches.
"""
import json
import os
import re
import resource
import shutil
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))

# ---- stated: the machines and the model for which the tables are computed ----
TARGET = {
    "bf16": 989e12,          # H100 SXM, dense products a second
    "used": 0.40,            # the part of them that a training step reaches
    "nvlink": 450e9,         # bytes a second of a GPU, each way, among the 8 GPUs of a machine
    "network": 50e9,         # 400 Gb/s InfiniBand a GPU, each way
    "files": 40e9,           # parallel file system: bytes a second, all clients together
    "client": 5e9,           # of one machine
    "gpus": 8,               # of a machine
}
# CogVideoX-5B, 49 frames of 480 x 720
MODEL = {"weights": 5.6e9, "tokens": 17776, "width": 3072, "layers": 42}
LATENT = 2 * 2 * 16 * 13 * 60 * 90          # mean and logvar, f16, of 49 x 480 x 720
TEXT = 2 * 226 * 4096                       # a T5 text of 226 tokens, 16 bits a number

# ---- facts of the format and of the code, which tests assert ----
SHARD = 4 << 30              # --shard_size
INDEX = 48 + 32              # bytes of an entry and of a record in a shard's index
DATASET, DATA, ORDER = 6, 20, 16     # bytes of memory a sample (tests/train/test_scale.c)
MOST_SHARDS = 65535          # files that a reader accepts in a manifest

SIZES = [10, 10_000, 1_000_000, 10_000_000, 100_000_000]
RANKS = [1, 8, 64, 1024]


# ---- measured ----

def cost(*command):
    """Runs a program; returns its seconds of CPU, which other jobs disturb less than the time."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        sys.exit(f"scale_model: {' '.join(command)}: {done.stderr}")
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def first_step(run, *command):
    shutil.rmtree(run, ignore_errors=True)
    return cost(*command, "--output_dir", run)


def opening(build, folder, data):
    """Returns the costs of opening a dataset, and of opening and planning it for a step."""
    run = os.path.join(folder, "scale.run")
    step = [os.path.join(build, "vtrain"), "--latents", data, "--report_to", "none",
            "--max_train_steps", "1", "--dit_width", "16", "--dit_layers", "1", "--dit_heads", "1",
            "--threads", "1", "--quiet"]
    costs = {"open_us": min(cost(os.path.join(build, "vlat"), "info", data) for _ in range(3)),
             "plan_us": min(first_step(run, *step) for _ in range(2))}
    shutil.rmtree(run)
    return costs


def costs(build, folder, samples):
    """Makes a dataset and returns the costs of the programs that read it, and its manifest."""
    data = os.path.join(folder, "scale.lmdb")
    made = {"write_us": cost(os.path.join(build, "tests", "random_dataset"), data, str(samples),
                             "1", "4", "4", "4", "256", "builtin", "768", "5000", "64")}
    made.update(opening(build, folder, data))
    made["verify_us"] = cost(os.path.join(build, "vlat"), "verify", data)
    with open(os.path.join(data, "manifest.json")) as f:
        manifest = f.read()
    shutil.rmtree(data)
    return made, manifest


def measure(build, folder, samples, large=None):
    samples = int(samples)
    few, _ = costs(build, folder, samples // 4)          # without what a program's start costs
    many, text = costs(build, folder, samples)
    shards = json.loads(text)["shards"]
    c = {name: round(1e6 * (many[name] - few[name]) / (samples - samples // 4), 3)
         for name in many}
    if large:
        with open(os.path.join(large, "manifest.json")) as f:
            c["large"] = json.load(f)["samples"]
        for name, took in opening(build, folder, large).items():
            c[name] = round(1e6 * took / c["large"], 3)
    with open("/proc/cpuinfo") as f:
        names = [line.split(": ")[1].strip() for line in f if line.startswith("model name")]
    c.update({"date": time.strftime("%Y-%m-%d"), "machine": names[0] if names else "unknown",
              "samples": samples,
              "record_bytes": round(sum(s["bytes"] for s in shards) / samples),
              "shard_line": round((len(text) - text.index('"shards"')) / len(shards))})
    print(json.dumps(c, indent=1))


# ---- tables ----

def human(x, unit=""):
    for name in ("", "k", "M", "G", "T"):
        if abs(x) < 999.5 or name == "T":
            return f"{x:.3g} {name}{unit}".strip()
        x /= 1000


def seconds(s):
    for size, name in ((86400, "d"), (3600, "h"), (60, "min")):
        if s >= size:
            return f"{s / size:.3g} {name}"
    return f"{s:.3g} s" if s >= 1 else f"{1000 * s:.3g} ms"


def table(head, rows):
    return "\n".join(["| " + " | ".join(head) + " |", "|" + "---|" * len(head)] +
                     ["| " + " | ".join(r) + " |" for r in rows])


def files(samples, size):
    """Each shard of latents is closed together with one of texts."""
    return 2 * -(-samples * LATENT // size)


def shard_size(samples):
    """The least doubling of the default with which a reader accepts the number of files."""
    size = SHARD
    while files(samples, size) > MOST_SHARDS:
        size *= 2
    return size


def dataset_row(c, n):
    size = shard_size(n)
    return [human(n), human(n * (LATENT + TEXT), "B"), f"{size >> 30} GiB", human(files(n, size)),
            human(files(n, size) * c["shard_line"], "B"), human(n * INDEX, "B"),
            human(n * (DATASET + DATA + ORDER), "B"), seconds(n * c["open_us"] / 1e6),
            seconds(n * c["plan_us"] / 1e6), seconds(n * c["verify_us"] / 1e6),
            seconds(n * (LATENT + TEXT) / TARGET["files"])]


def step_seconds(full):
    """A step of one clip a GPU with recomputed blocks: a LoRA needs no gradients of the base."""
    m = MODEL
    products = (2 + 2 + 2 + (2 if full else 0)) * m["weights"] * m["tokens"]
    attention = (4 + 8 + 4) * m["tokens"] ** 2 * m["width"] * m["layers"]
    return (products + attention) / (TARGET["bf16"] * TARGET["used"])


def link(ranks):
    return TARGET["nvlink"] if ranks <= TARGET["gpus"] else TARGET["network"]


def step_row(ranks):
    lora = 2 * 4 * 66e6 / link(ranks) if ranks > 1 else 0       # 2 n values of 4 bytes
    full = 3 * 2 * MODEL["weights"] / link(ranks) if ranks > 1 else 0    # 3 n values of bf16
    both = [max(step_seconds(f), t) for f, t in ((False, lora), (True, full))]
    return [str(ranks), seconds(step_seconds(False)), seconds(lora), seconds(step_seconds(True)),
            seconds(full), human(ranks * (LATENT + TEXT) / both[0], "B/s"),
            human(ranks / both[0] * 86400)]


def start_row(c, ranks, n=10_000_000):
    machines = -(-ranks // TARGET["gpus"])
    opens = files(n, shard_size(n)) + 1              # and the manifest
    read = max(n * INDEX / TARGET["client"], machines * n * INDEX / TARGET["files"])
    return [str(ranks), str(machines), human(ranks * opens), human(machines * n * INDEX, "B"),
            seconds(read), seconds(n * c["plan_us"] / 1e6)]


def checkpoint_row(name, values, each):
    size = values * each
    return [name, human(size, "B"), seconds(size / TARGET["client"])]


def tables(c):
    yield "dataset", table(
        ["clips", "values", "shards of", "files", "manifest", "indexes", "memory of a rank", "open",
         "open and first batch", "records in `vlat verify`", "values from the file system"],
        [dataset_row(c, n) for n in SIZES])
    yield "start", table(
        ["ranks", "machines", "files opened", "index bytes read", "reading them",
         "CPU of a rank to the first batch"], [start_row(c, r) for r in RANKS])
    yield "step", table(
        ["GPUs", "LoRA step", "its gradients", "full step", "its weights and gradients (`fsdp`)",
         "data read", "clips a day (LoRA)"], [step_row(r) for r in RANKS])
    yield "checkpoint", table(
        ["checkpoint", "bytes", "written by rank 0"],
        [checkpoint_row("LoRA, rank 64 (66 M values), and its optimiser", 66e6, 12),
         checkpoint_row("5.6 G weights in bf16", MODEL["weights"], 2),
         checkpoint_row("the same with f32 weights and moments", MODEL["weights"], 14)])


def constants(args):
    with open(args[0] if args else os.path.join(HERE, "scale.json")) as f:
        return json.load(f)


def check(doc, *args):
    c = constants(args)
    with open(doc) as f:
        text = f.read()
    for name, body in tables(c):
        there = re.search(rf"<!-- {name} -->\n(.*?)\n\n", text + "\n", re.S)
        if not there or there.group(1) != body:
            sys.exit(f"{doc}: the table `{name}` is not that of scripts/scale_model.py tables:\n"
                     f"{body}")


def main(argv):
    verbs = {"measure": measure, "check": check,
             "tables": lambda *a: [print(f"<!-- {n} -->\n{t}\n") for n, t in tables(constants(a))]}
    if not argv or argv[0] not in verbs:
        sys.exit(__doc__)
    verbs[argv[0]](*argv[1:])


if __name__ == "__main__":
    main(sys.argv[1:])
