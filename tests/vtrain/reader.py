"""Checks of scripts/vlat.py, which tests/vtrain/reader.sh runs.

    reader.py trace DIR RANKS SETTINGS       every file of vtrain's trace has the batch of vlat.py
    reader.py readings DATASET LIBVLAT.so    all tensors are those of libvlat, to the bit
    reader.py workers DATASET                a DataLoader with workers gives the same batches
    reader.py hurt DATASET                   changes a byte of the last sample's latent
    reader.py all DATASET                    reads every sample"""
import ctypes
import itertools
import os
import re
import sys

import numpy as np

import vlat


def read_tensors(path):
    with open(path, "rb") as f:
        return vlat.parse(f.read())[0]


def same_batch(batch, trace):
    np.testing.assert_array_equal(np.asarray(batch["fps"]), trace["fps"])
    np.testing.assert_array_equal(np.asarray(batch["texts"]["text_encoder"]["prompt_embeds"]),
                                  trace["encoder_hidden_states"])
    # exp of numpy and of the C library may differ in the last bit
    np.testing.assert_allclose(np.asarray(batch["latents"]), trace["latents"], rtol=0, atol=1e-6)
    return np.array_equal(np.asarray(batch["latents"]), trace["latents"])


def trace(folder, ranks, settings):
    ranks, data, exact = int(ranks), vlat.Dataset(**eval(settings)), 0
    names = sorted(os.listdir(folder))
    samplers = [iter(vlat.BucketSampler(data, 3, rank=r, ranks=ranks)) for r in range(ranks)]
    for name in names:                       # by step, micro-batch of the step, rank
        rank = int(re.fullmatch(r"step-\d+-mb-\d+-rank-(\d+)\.safetensors", name)[1])
        batch = vlat.collate([data[v] for v in next(samplers[rank])])
        exact += same_batch(batch, read_tensors(os.path.join(folder, name)))
    held = {data.key(i) for i in np.flatnonzero(data.held_out)}
    assert len(names) >= 40 and exact >= 0.9 * len(names), (len(names), exact)
    print("%d micro-batches are equal, %d of them to the bit; %d samples are held out"
          % (len(names), exact, len(held)))


class Tensor(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("data", ctypes.c_void_p), ("bytes", ctypes.c_uint64),
                ("dtype", ctypes.c_int32), ("nd", ctypes.c_int32), ("dim", ctypes.c_int64 * 8)]


def c_tensors(lib, dataset, kind, key):
    """The tensors of a value as libvlat converts them to f32."""
    value, t, out = ctypes.c_void_p(), Tensor(), {}
    assert lib.vlat_value_open(ctypes.byref(value), dataset, kind, key.encode(), 1, None) == 0
    for i in range(lib.vlat_value_count(value)):
        assert lib.vlat_value_at(value, i, ctypes.byref(t), ctypes.sizeof(t), None) == 0
        x = np.empty(list(t.dim)[:t.nd], np.float32)
        assert lib.vlat_tensor_f32(ctypes.byref(t), 0, x.size, x.ctypes.data, None) == 0
        out[t.name.decode()] = x
    lib.vlat_value_close(ctypes.byref(value))
    return out


def readings(path, library):
    lib, dataset, n = ctypes.CDLL(library), ctypes.c_void_p(), 0
    lib.vlat_tensor_f32.argtypes = [ctypes.c_void_p, ctypes.c_uint64, ctypes.c_uint64,
                                    ctypes.c_void_p, ctypes.c_void_p]
    lib.vlat_value_at.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t,
                                  ctypes.c_void_p]
    assert lib.vlat_dataset_open(ctypes.byref(dataset), path.encode(), None) == 0
    shards = vlat.Shards(path)
    assert lib.vlat_dataset_count(dataset) == len(shards.entries)
    for e in shards.entries:
        keys = {(0, "latent", e["latent"].tobytes().hex())}
        for caption in shards.record(e)["captions"]:
            keys |= {(1, "text", k) for k in caption["keys"]}
        for kind, db, key in keys:
            want, have = c_tensors(lib, dataset, kind, key), shards.value(db, key)
            assert want.keys() == have.keys() and want
            for name, x in want.items():
                assert x.tobytes() == have[name].astype(np.float32).tobytes(), (key, name)
                n += 1
    print("%d tensors are equal" % n)


def workers(path):
    try:
        import torch
    except ImportError:
        sys.exit(77)
    data = vlat.Dataset(path)
    sampler = vlat.BucketSampler(data, 3, end=40)
    loader = torch.utils.data.DataLoader(data, batch_sampler=sampler, num_workers=2,
                                              collate_fn=vlat.collate)
    assert len(loader) == 40
    n = 0
    for batch, visits in itertools.zip_longest(loader, sampler):
        want = vlat.collate([data[v] for v in visits])
        assert batch["key"] == want["key"] and batch["micro"] == want["micro"] == n
        assert torch.equal(batch["latents"], want["latents"])
        n += 1
    resumed = vlat.BucketSampler(data, 3, rank=1, ranks=2, first=20, end=40)
    assert [b for b in resumed] == [b for i, b in enumerate(sampler) if i > 20 and i % 2]


def read_all(path):
    data = vlat.Dataset(path)
    for i in range(len(data)):
        assert np.isfinite(data[i]["latents"]).all()


def hurt(path):
    shards = vlat.Shards(path)
    e = shards.entries[-1]
    value = bytes(shards.get(int(e["shard"]), "latent", e["latent"].tobytes().hex().encode()))
    with open(os.path.join(path, shards.files[e["shard"]]), "r+b") as f:
        places = [m.end() - 1 for m in re.finditer(re.escape(value), f.read())]
        for at in places:                    # LMDB may have kept old copies
            f.seek(at)
            f.write(bytes([value[-1] ^ 1]))
    assert places


{"trace": trace, "readings": readings, "workers": workers, "hurt": hurt, "all": read_all}[
    sys.argv[1]](*sys.argv[2:])
