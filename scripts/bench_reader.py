"""Times a PyTorch DataLoader on a latent dataset (scripts/vlat.py), or on the same samples as
per-sample .pt files, as Finetrainers reads them. It prints the samples a second, and without
workers the milliseconds of CPU that a sample takes. scripts/bench runs it.

    bench_reader.py vlat DATASET BATCH MICROS WORKERS mean|sample
    bench_reader.py pt FOLDER BATCH MICROS WORKERS       FOLDER: vlat export --to finetrainers"""
import glob
import itertools
import os
import sys
import time

import torch

import vlat


class Files(torch.utils.data.Dataset):
    """Sample N is latent-N.pt and condition-N.pt."""

    def __init__(self, folder):
        self.files = sorted(glob.glob(os.path.join(folder, "**", "latent-*.pt"), recursive=True))

    def __len__(self):
        return len(self.files)

    def __getitem__(self, i):
        head, tail = os.path.split(self.files[i])
        latent = torch.load(self.files[i], weights_only=True)
        condition = torch.load(os.path.join(head, tail.replace("latent", "condition")),
                               weights_only=True)
        return {**latent, **condition}


def main(kind, path, batch, micros, workers, posterior="sample"):
    batch, micros, workers = int(batch), int(micros), int(workers)
    torch.set_num_threads(1)
    if kind == "vlat":
        data = vlat.Dataset(path, posterior=posterior)
        loader = torch.utils.data.DataLoader(
            data, batch_sampler=vlat.BucketSampler(data, batch, end=micros),
            collate_fn=vlat.collate, num_workers=workers)
        rows = lambda b: len(b["key"])
    else:
        data = Files(path)
        order = itertools.cycle(torch.randperm(len(data)).tolist())
        batches = [[next(order) for _ in range(batch)] for _ in range(micros)]
        loader = torch.utils.data.DataLoader(data, batch_sampler=batches, collate_fn=list,
                                             num_workers=workers)
        rows = len
    begin, cpu = time.perf_counter(), time.process_time()
    n = sum(rows(b) for b in loader)
    seconds, cpu = time.perf_counter() - begin, time.process_time() - cpu
    print("%.1f" % (n / seconds), "" if workers else "%.2f" % (1000 * cpu / n))


main(*sys.argv[1:])
