"""Checks of scripts/vlat.py, which tests/vtrain/reader.sh runs.

    reader.py trace DIR RANKS SETTINGS       every file of vtrain's trace has the batch of vlat.py
    reader.py run RUN TRACE BATCH SETTINGS   the run's steps have the samples and latents of vlat.py
    reader.py readings DATASET LIBVLAT.so    all tensors are those of libvlat, to the bit
    reader.py workers DATASET                a DataLoader with workers gives the same batches
    reader.py hurt DATASET                   changes a byte of the last sample's latent
    reader.py all DATASET                    reads every sample
    reader.py faults DATASET                 other contents are read, or raise vlat.Damaged"""
import ctypes
import itertools
import json
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


def run(folder, traces, batch, settings):
    """A step is a micro-batch of a model that takes latents as they are."""
    data = vlat.Dataset(**eval(settings))
    with open(os.path.join(folder, "metrics.jsonl")) as f:
        steps = [json.loads(line)["samples"] for line in f]
    names = sorted(os.listdir(traces))
    visits = vlat.BucketSampler(data, int(batch), end=len(steps))
    for step, name, v in itertools.zip_longest(steps, names, visits):
        made = vlat.collate([data[i] for i in v])
        assert made["key"] == step, (name, made["key"], step)
        x, wanted = made["latents"], read_tensors(os.path.join(traces, name))["latents"]
        # VACE has its references in front of a clip; exp may differ in the last bit, as above
        np.testing.assert_allclose(np.asarray(x), wanted[:, :, -x.shape[2]:], rtol=0, atol=1e-6,
                                   err_msg=name)
    print("%d steps are equal" % len(steps))


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


def others(x):
    """Copies of a JSON value in which one part is missing or of another kind."""
    parts = list(x.items() if isinstance(x, dict) else enumerate(x) if isinstance(x, list) else [])
    for at, part in parts:
        for other in (*others(part), None, -1, 1e300, "x", "\ud800", [], {}, [[]]):
            yield {**x, at: other} if isinstance(x, dict) else x[:at] + [other] + x[at + 1:]
        yield ({k: v for k, v in x.items() if k != at} if isinstance(x, dict)
               else x[:at] + x[at + 1:])


def changed(value):
    """Damaged forms of some bytes."""
    yield from (b"", b"\0" * len(value), b"\xff" * len(value), value[:-1], value[:9], b"[]",
                b"null", b"{" * 100000, b"[" * 100000, b"\xff\xfe\0{}")
    for at in range(0, len(value), max(len(value) // 60, 1)):
        yield value[:at] + bytes([value[at] ^ 0x55]) + value[at + 1:]


def read_some(path, **settings):
    data = vlat.Dataset(path, **settings)
    data[0], data[vlat.Visit(len(data) - 1, 0, 0)]


def survives(what, path, **settings):
    """Reads the dataset; 1 if it is damaged. Only what vprep has not finished is another error."""
    try:
        read_some(path, **settings)
    except vlat.Damaged as e:
        assert path in str(e), e
        return 1
    except Exception as e:
        assert type(e) is ValueError and ("not finished" in str(e) or "no samples" in str(e)), (
            what, repr(e))
    return 0


def put(path, content):
    with open(path, "wb") as f:
        f.write(content)


def faults(path):
    manifest, n = os.path.join(path, "manifest.json"), 0
    with open(manifest, "rb") as f:
        whole = f.read()
    forms = [json.dumps(x).encode() for x in others(json.loads(whole))]
    for form in forms + list(changed(whole)):
        put(manifest, form)
        n += survives(form[:2000], path)
    put(manifest, whole)
    get = vlat.Shards.get
    for db in ("sample", "latent", "text", "index"):
        good = first_value(path, db)
        forms = list(changed(good))
        if db == "sample":
            forms += [json.dumps(x).encode() for x in others(json.loads(good))]
        if db in ("latent", "text"):
            size = int.from_bytes(good[:8], "little")
            for x in others(json.loads(good[8:8 + size])):
                head = json.dumps(x).encode()
                forms.append(len(head).to_bytes(8, "little") + head + good[8 + size:])
        for form in forms:
            vlat.Shards.get = lambda s, i, d, k: memoryview(form) if d == db else get(s, i, d, k)
            n += survives((db, form[:2000]), path, check=False) + survives((db, form[:2000]), path)
        vlat.Shards.get = get
    for name in sorted(os.listdir(path)):
        if re.fullmatch(r"(shard|text)-.*\.lmdb", name):
            file = os.path.join(path, name)
            with open(file, "rb") as f:
                whole = f.read()
            for form in (b"\0" * len(whole), b"\xff" * 8192 + whole[8192:]):
                put(file, form)
                assert survives(name, path) == 1, name
            put(file, whole)
    read_some(path)
    print("%d damaged forms are told" % n)


def first_value(path, db):
    """A value of the kind that reading the first sample meets."""
    seen, get = [], vlat.Shards.get

    def note(shards, i, d, key):
        value = get(shards, i, d, key)
        if value is not None:
            seen.append((d, bytes(value)))
        return value

    vlat.Shards.get = note
    try:
        read_some(path)
        return next(v for d, v in seen if d == db)
    finally:
        vlat.Shards.get = get


{"trace": trace, "run": run, "readings": readings, "workers": workers, "hurt": hurt,
 "all": read_all, "faults": faults}[
    sys.argv[1]](*sys.argv[2:])
