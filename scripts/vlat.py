"""vlat.py - reads latent datasets of vprep in Python, and trains a PyTorch loop on them in the
order of vtrain. All of it is one file on purpose, so that you can copy it into any project; it
needs numpy and lmdb.

    import torch, vlat

    data = vlat.Dataset("latents.lmdb", seed=42)             # or a list of folders
    sampler = vlat.BucketSampler(data, batch_size=4, rank=0, ranks=1, end=1000)    # 1000 batches;
                                                             # without `end` it does not end
    loader = torch.utils.data.DataLoader(data, batch_sampler=sampler, collate_fn=vlat.collate,
                                         num_workers=2)
    for batch in loader:
        batch["latents"]                                     # [B,C,f,h,w] f32, normalized
        batch["texts"]["text_encoder"]["prompt_embeds"]      # [B,n,D] f32, zeros beyond "length"
        batch["key"]                                         # ["000000000042/000", ...]

With the same seed, batch size, eval_split and repeats, batch m of the sampler has the samples,
captions and posterior noise of vtrain's micro-batch m, since all draws are counter-based
(docs/sampling.md). vtrain's --caption_dropout_p is `caption_dropout`. Conditions are returned as
they are stored: their noise, and frames in front of a clip, are left to the caller.

Every value is compared with its checksum the first time that it is read, by the module xxhash or
the system's libxxhash. Damage raises vlat.Damaged, whose text names dataset, shard and key. lmdb
trusts the pages of its file: Dataset(..., verify=True) compares whole files first."""
import collections
import contextlib
import ctypes
import ctypes.util
import functools
import json
import math
import os
import re
import sys

import lmdb
import numpy as np

ORDER, CAPTION, CAPTION_DROP, LATENT, SPLIT, VARIANT = 64, 65, 66, 67, 73, 77    # purposes of draws
VIDEO, PRIOR, DROPPED = 1, 4, 128            # flags of an entry
PAIRED, REFERENCES = ("edit", "vace"), 4     # modes with reference pictures, at most of a sample
MEANS = ("ernie-image", "flux2", "ideogram4", "krea2", "ltx-2", "qwen-image", "skyreels-v2",
         "wan-vace", "wan2.1", "wan2.2-5b")  # families that are trained on means
ENTRY = np.dtype([("latent", "V16"), ("number", "<u4"), ("variant", "<u2"), ("shard", "<u2"),
                  ("f", "<u2"), ("h", "<u2"), ("w", "<u2"), ("flags", "u1"), ("captions", "u1"),
                  ("tokens", "<u4"), ("weight", "<f4"), ("frames", "<u4"), ("fps", "<f4")])
DTYPES = {"F32": "<f4", "F16": "<f2", "BF16": "<u2", "F64": "<f8", "I64": "<i8", "I32": "<i4",
          "I16": "<i2", "I8": "i1", "U8": "u1", "BOOL": "?"}


class Damaged(Exception):
    """A file or value of a dataset that is not as its writer left it."""


# What Python raises on contents of another form: no UTF-8, no JSON, fields that are missing or of
# another kind, numbers that are too large, lists that are too deep.
UNREADABLE = (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError)


# ---- checksums ----

def _find_xxh3():
    """Returns a function from bytes to the 32 hex digits of their XXH3-128, or None."""
    try:
        import xxhash
        return xxhash.xxh3_128_hexdigest
    except ImportError:
        name = ctypes.util.find_library("xxhash")
    if not name:
        return None

    class Hash(ctypes.Structure):
        _fields_ = [("low", ctypes.c_uint64), ("high", ctypes.c_uint64)]

    def digest(data):
        flat = np.frombuffer(data, np.uint8)
        h = call(flat.ctypes.data, flat.size)
        return "%016x%016x" % (h.high, h.low)

    call = ctypes.CDLL(name).XXH3_128bits
    call.restype, call.argtypes = Hash, [ctypes.c_void_p, ctypes.c_size_t]
    return digest


XXH3 = _find_xxh3()


# ---- Philox4x32-10 and the draws of common/base/rng.h ----

def philox(seed, counter):
    """The four words of each counter: four integers, or arrays of them."""
    low, shift = np.uint64(0xFFFFFFFF), np.uint64(32)
    c = [np.asarray(x, np.uint64) for x in counter]
    k = [seed & 0xFFFFFFFF, seed >> 32 & 0xFFFFFFFF]
    for _ in range(10):
        p0, p1 = c[0] * np.uint64(0xD2511F53), c[2] * np.uint64(0xCD9E8D57)
        c = [(p1 >> shift) ^ c[1] ^ np.uint64(k[0]), p1 & low,
             (p0 >> shift) ^ c[3] ^ np.uint64(k[1]), p0 & low]
        k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return c


def _unit(w):
    """A number in [0,1) of 53 bits, of the first two words."""
    return ((w[0] >> np.uint64(5)).astype(np.float64) * 67108864.0 +
            (w[1] >> np.uint64(6)).astype(np.float64)) / 9007199254740992.0


def _first_words(seed, ids, variant, purpose):
    """The first block of each (seed, id, variant, purpose); ids are below 2^32."""
    return philox(seed, (0, ids, 0, np.asarray(variant) * 256 + purpose))


def dataset_unit(seed, ids, variant, purpose):
    return _unit(_first_words(seed, ids, variant, purpose))


def first_ints(seed, ids, variant, purpose, below):
    """The first integer of each stream of Draws, below below[i]."""
    n = np.asarray(below, np.uint64)
    p = _first_words(seed, ids, variant, purpose)[0] * n
    out = (p >> np.uint64(32)).astype(np.int64)
    for i in np.flatnonzero((p & np.uint64(0xFFFFFFFF)) < (np.uint64(1 << 32) - n) % n):
        out[i] = Draws(seed, int(ids[i]), int(variant[i]), purpose).ints([below[i]])[0]
    return out


def train_unit(seed, row, micro, purpose):
    """The first uniform of a row of a micro-batch."""
    return float(_unit(philox(seed, (0, row, micro, purpose))))


class Draws:
    """Integers of (seed, id, variant, purpose): vc_draw_int, many at a time."""

    def __init__(self, seed, ident, variant, purpose):
        self.seed, self.at = seed, 0
        self.rest = (ident & 0xFFFFFFFF, ident >> 32 & 0xFFFFFFFF, variant * 256 + purpose)

    def ints(self, below):
        """Draw i is uniform in 0 .. below[i] - 1. A product below `floor` is rejected; the draw
        then takes the next word, and after four words the next counter."""
        n = np.asarray(below, np.uint64)
        out, done = np.empty(n.size, np.int64), 0
        floor = (np.uint64(1 << 32) - n) % n
        while done < n.size:
            m = n[done:]
            counter = np.arange(self.at, self.at + m.size, dtype=np.uint64)
            p = np.stack([w * m for w in philox(self.seed, (counter,) + self.rest)])
            good = (p & np.uint64(0xFFFFFFFF)) >= floor[done:]
            pick = p[np.argmax(good, axis=0), np.arange(m.size)] >> np.uint64(32)
            bad = np.flatnonzero(~good.any(axis=0))
            upto = int(bad[0]) if bad.size else m.size
            out[done:done + upto] = pick[:upto]
            done += upto
            self.at += upto + (1 if bad.size else 0)
        return out


def _shuffle(order, draws):
    """Fisher-Yates from the top, in place, of a list."""
    for i, j in zip(range(len(order) - 1, 0, -1), draws):
        order[i], order[j] = order[j], order[i]
    return order


def permutation(n, seed, epoch):
    draws = Draws(seed, epoch, 0, ORDER).ints(np.arange(n, 1, -1)).tolist()
    return np.array(_shuffle(list(range(n)), draws), np.int64)


def _poly(y, terms):
    return functools.reduce(lambda x, t: t + y * x, reversed(terms))


def _log_unit(u):
    one, root = np.uint64(0x3FF0000000000000), np.uint64(0x3FE6A09E667F3BCD)
    bits = u.view(np.uint64)
    biased = (bits + (one - root)) >> np.uint64(52)
    f = (bits + (np.uint64(1023 << 52)) - (biased << np.uint64(52))).view(np.float64) - 1
    k, s = biased.astype(np.float64) - 1023, f / (2 + f)
    z = s * s
    y = z * z
    even, odd = (_poly(y, [2.0 / (k + 4 * i) for i in range(5)]) for k in (3, 5))
    ln2, rest = float.fromhex("0x1.62E42FEEp-1"), float.fromhex("0x1.A39EF35793C76p-33")
    return k * ln2 + (2 * s + (s * z * (even + z * odd) + k * rest))


def _pair(u, v):
    """Box-Muller on two arrays of words, in the operations of common/base/rng_normal.c."""
    quarter, rest = float.fromhex("0x1.921FB54442D18p0"), float.fromhex("0x1.1A62633145C07p-54")
    tiny = 2.0 ** -32
    r = np.sqrt(-2 * _log_unit((u.astype(np.float64) + 0.5) * tiny))
    a = 4 * quarter * ((v.astype(np.float64) + 0.5) * tiny)
    quarters = (v + np.uint64(1 << 29)) >> np.uint64(30)
    q = quarters.astype(np.float64)
    x = (a - q * quarter) - q * rest
    z = x * x
    y = z * z
    series = [[sign / math.factorial(k + 4 * i) for i in range(n)]
              for sign, k, n in ((-1.0, 3, 4), (1.0, 5, 4), (1.0, 4, 4), (-1.0, 6, 3))]
    s = x + x * z * (_poly(y, series[0]) + z * _poly(y, series[1]))
    c = 1 - 0.5 * z + y * (_poly(y, series[2]) + z * _poly(y, series[3]))
    swap = (quarters & np.uint64(1)).astype(bool)
    minus = (quarters + np.array([[1], [0]], np.uint64)) & np.uint64(2) != 0
    both = np.stack([np.where(swap, s, c), np.where(swap, c, s)])
    return (r * np.where(minus, -both, both)).astype(np.float32)


def train_normals(n, seed, row, micro, purpose):
    """n standard normals of a training draw: the bits of vc_train_normals."""
    out = np.empty(((n + 3) // 4, 4), np.float32)
    for at in range(0, len(out), 1 << 14):                   # so that temporaries stay in a cache
        end = min(at + (1 << 14), len(out))
        w = philox(seed, (np.arange(at, end, dtype=np.uint64), row, micro, purpose))
        out[at:end, :2], out[at:end, 2:] = _pair(w[0], w[1]).T, _pair(w[2], w[3]).T
    return out.reshape(-1)[:n]


# ---- one dataset ----

def parse(value):
    """The tensors of a safetensors value as a dict of arrays that share its memory. bf16 has no
    type in numpy: such a tensor is an array of f32."""
    size = int.from_bytes(value[:8], "little") if len(value) >= 8 else -1
    if size < 2 or size > len(value) - 8:
        raise Damaged("no safetensors header")
    try:
        header = json.loads(bytes(value[8:8 + size]))
        meta, data, out = header.pop("__metadata__", {}), value[8 + size:], {}
        xxh3 = meta.get("xxh3")
        for name, t in header.items():
            begin, end = t["data_offsets"]
            if t["dtype"] not in DTYPES:
                raise Damaged("%s: type %s is not known" % (name, t["dtype"]))
            if not 0 <= begin <= end <= len(data):
                raise Damaged("%s: offsets beyond the value" % name)
            if not all(type(n) is int and n >= 0 for n in t["shape"]):
                raise Damaged("%s: shape %s" % (name, t["shape"]))
            x = np.frombuffer(data[begin:end], DTYPES[t["dtype"]]).reshape(t["shape"])
            if t["dtype"] == "BF16":
                x = (x.astype(np.uint32) << np.uint32(16)).view(np.float32)
            out[name] = x
    except UNREADABLE as e:
        raise Damaged("bad safetensors header: %s" % e) from None
    return out, xxh3, data


def _changes(*columns):
    """Marks the first row of each run of rows that are equal in the columns."""
    out = np.ones(len(columns[0]), bool)
    out[1:] = np.logical_or.reduce([c[1:] != c[:-1] for c in columns])
    return out


def normalization(manifest):
    """What is subtracted from each channel of a latent, and its factor."""
    n, channels = manifest["normalization"], manifest["vae"]["channels"]
    sub = (n.get("shift_factor") or 0.0) + np.array(n.get("mean") or [0.0] * channels)
    mul = (n.get("scaling_factor") or 1.0) / np.array(n.get("std") or [1.0] * channels)
    with np.errstate(over="ignore"):
        return [x.astype(np.float32).reshape(-1, 1, 1, 1) for x in (sub, mul)]


class Shards:
    """The files of one dataset folder. Each process opens them for itself, since LMDB's handles
    cannot be used after a fork."""

    def __init__(self, path, check=True, verify=False):
        self.path, self.check, self.checked = os.fspath(path), check, set()
        if (check or verify) and not XXH3:
            raise ImportError("checksums need the module xxhash, or the library libxxhash; "
                              "Dataset(..., check=False) reads without comparing them")
        manifest = os.path.join(self.path, "manifest.json")
        if not os.path.exists(manifest):
            raise FileNotFoundError("%s: no latent dataset (no manifest.json)" % self.path)
        with open(manifest, "rb") as f, self.reading("manifest.json"):
            self.manifest = json.loads(f.read())
            complete = self._check_manifest()
        if not complete:
            raise ValueError("%s: vprep has not finished this dataset: run vprep again" % self.path)
        with self.reading("manifest.json"):
            for s in self.manifest["shards"]:
                self._check_file(s, verify)
            self.files, self.pid = [s["file"] for s in self.manifest["shards"]], None
        self.entries = self._merge()
        if len(self.entries) != self.manifest["samples"]:
            raise self.damaged("the shards hold %d samples, the manifest says %r"
                               % (len(self.entries), self.manifest["samples"]))

    def damaged(self, what):
        return Damaged("%s: %s; vlat verify %s --repair keeps what is good"
                       % (self.path, what, self.path))

    @contextlib.contextmanager
    def reading(self, where):
        """What the block meets in a file or value that has another form raises Damaged."""
        try:
            yield
        except lmdb.MemoryError:
            raise
        except UNREADABLE + (lmdb.Error,) as e:
            text = str(e) if type(e) is ValueError else "%s: %s" % (type(e).__name__, e)
            raise self.damaged("%s: %s" % (where, text)) from None

    def _check_manifest(self):
        """Returns whether the dataset is complete."""
        m = self.manifest
        if m["format"] != 1:
            raise ValueError("format %r, 1 expected" % (m["format"],))
        if type(m["complete"]) is not bool or type(m["samples"]) is not int:
            raise ValueError("complete %r, samples %r" % (m["complete"], m["samples"]))
        n, encoders = m["normalization"], [(t["slot"], t["empty"]) for t in m["text_encoders"]]
        channels = m["vae"]["channels"]
        if type(channels) is not int or not all(type(x) is str for t in encoders for x in t):
            raise ValueError("vae or text_encoders: a field of another kind")
        if any(n.get(k) and np.shape(n[k]) != (channels,) for k in ("mean", "std")):
            raise ValueError("normalization: %d channels expected" % channels)
        if not all(np.isfinite(x).all() for x in normalization(m)):
            raise ValueError("normalization: a number that is not finite")
        return m["complete"]

    def _check_file(self, s, verify):
        if not re.fullmatch(r"(shard|text)-[0-9]{5}\.lmdb", s["file"]):
            raise self.damaged("manifest.json: no shard has the name %r" % s["file"])
        path = os.path.join(self.path, s["file"])
        size = os.stat(path).st_size if os.path.isfile(path) else -1
        if size != s["bytes"]:
            raise self.damaged("%s: %d bytes, %d expected" % (s["file"], size, s["bytes"]))
        if verify and XXH3(np.memmap(path, np.uint8, "r")) != s["xxh3"]:
            raise self.damaged("%s: its checksum differs" % s["file"])

    def __getstate__(self):
        return {**self.__dict__, "pid": None, "open": None}

    def _trees(self, i):
        """The transaction and sub-databases of file i, opened by this process."""
        if self.pid != os.getpid():
            self.pid, self.open = os.getpid(), {}
        if i not in self.open:
            env = lmdb.open(os.path.join(self.path, self.files[i]), subdir=False, readonly=True,
                            lock=False, readahead=False, max_dbs=8)
            txn, dbs = env.begin(buffers=True), {}
            for name in ("sample", "latent", "index", "text"):
                with contextlib.suppress(lmdb.NotFoundError):
                    dbs[name] = env.open_db(name.encode(), txn, create=False)
            self.open[i] = (env, txn, dbs)
        return self.open[i][1:]

    def get(self, i, db, key):
        with self.reading("%s: %s" % (self.files[i], db)):
            txn, dbs = self._trees(i)
            return txn.get(key, db=dbs[db]) if db in dbs else None

    def _index(self, i, name, item):
        value, item = self.get(i, "index", name.encode()) or b"", np.dtype(item)
        data = value[32:]
        if len(value) < 32 or len(data) % item.itemsize or (
                XXH3 and XXH3(data) != bytes(value[16:32]).hex()):
            raise self.damaged("%s: index: %s: its checksum differs" % (self.files[i], name))
        return np.frombuffer(data, item)

    def _merge(self):
        """The live entries by number, then variant: of each sample the newest shard's counts."""
        parts = []
        for i, name in enumerate(self.files):
            if name.startswith("shard-"):
                part = self._index(i, "entries", ENTRY).copy()
                part["shard"] = i
                parts.append(part)
        e = np.concatenate(parts) if parts else np.empty(0, ENTRY)
        e = e[np.lexsort((-e["shard"].astype(np.int64), e["variant"], e["number"]))]
        return e[_changes(e["number"], e["variant"]) & (e["flags"] & DROPPED == 0)]

    def record(self, e):
        """The JSON record of an entry."""
        key = b"%012d/%03d" % (e["number"], e["variant"])
        value = self.get(int(e["shard"]), "sample", key)
        where = "%s: record %s" % (self.files[e["shard"]], key.decode())
        if value is None:
            raise self.damaged(where + " is missing")
        if self.check and key not in self.checked:
            if XXH3(key + bytes(value)) != self._record_hash(e):
                raise self.damaged(where + ": its checksum differs")
            self.checked.add(key)
        with self.reading(where):
            return self._check_record(json.loads(bytes(value)))

    def _check_record(self, record):
        """Returns the record, whose fields that are read below have their kinds."""
        for c in record["captions"]:
            if not all(type(x) is str for x in (c["text"], *c["keys"])):
                raise ValueError("captions: %r" % (c,))
            if len(c["keys"]) != len(self.manifest["text_encoders"]):
                raise ValueError("captions: %d keys for %d text encoders"
                                 % (len(c["keys"]), len(self.manifest["text_encoders"])))
        for role, key in (record.get("conditions") or {}).items():
            if type(key) is not str:
                raise ValueError("conditions: %s: %r" % (role, key))
        return record

    def _record_hash(self, e):
        i = int(e["shard"])
        name = "hashes %d" % i
        if name not in self.open:
            entries = self._index(i, "entries", ENTRY)
            ranks = entries["number"].astype(np.int64) << 16 | entries["variant"]
            self.open[name] = ranks, self._index(i, "records", "V32")
        ranks, hashes = self.open[name]
        at = np.searchsorted(ranks, int(e["number"]) << 16 | int(e["variant"]))
        if at >= len(hashes):
            raise self.damaged("%s: index: records are missing" % self.files[i])
        return hashes[at].tobytes()[:16].hex()

    def value(self, db, key, first=None):
        """The tensors of a content key; `first`: the number of the file that most likely has it."""
        kind = "text-" if db == "text" else "shard-"
        where = [i for i, name in enumerate(self.files) if name.startswith(kind)]
        for i in sorted(where, key=lambda i: i != first):
            value = self.get(i, db, key.encode(errors="replace"))
            if value is None:
                continue
            name = "%s: %s %s" % (self.files[i], db, key)
            try:
                tensors, xxh3, data = parse(value)
            except Damaged as e:
                raise self.damaged("%s: %s" % (name, e)) from None
            if self.check and key not in self.checked:
                if xxh3 != XXH3(data):
                    raise self.damaged(name + ": its checksum differs")
                self.checked.add(key)
            return tensors
        raise self.damaged("no %s %s" % (db, key))


# ---- the training data ----

Visit = collections.namedtuple("Visit", "sample row micro")  # row of a micro-batch of the run


class Dataset:
    """A map-style dataset: data[i] is sample i with its posterior's mean and its first caption, and
    data[Visit(i, row, micro)] is the same with the draws of this row of vtrain's micro-batch.

    paths          a folder, or a list of folders or pairs (folder, weight): as vtrain's --latents
                   DIR:2.5, repeats from 1 on or shares below 1
    eval_split     this share of the samples is held out (`held_out`), and never in the sampler
    posterior      "sample" draws latents from stored moments, "mean" takes the mean, "auto" does
                   what vtrain does without --posterior, by the family
    check          compare checksums at the first read; verify: compare whole files first"""

    def __init__(self, paths, seed=42, eval_split=0.0, dataset_repeat=1, caption_dropout=0.0,
                 posterior="auto", check=True, verify=False):
        paths = [paths] if isinstance(paths, (str, os.PathLike)) else paths
        pairs = [(p, 1.0) if isinstance(p, (str, os.PathLike)) else p for p in paths]
        if posterior not in ("auto", "sample", "mean"):
            raise ValueError("posterior %r: auto, sample or mean expected" % (posterior,))
        self.seed, self.caption_dropout, self.posterior = seed, caption_dropout, posterior
        self.sets = [Shards(p, check, verify) for p, _ in pairs]
        if posterior == "auto":
            self.posterior = "mean" if self.sets[0].manifest.get("family") in MEANS else "sample"
        self._compare_sets()
        self.set = np.repeat(np.arange(len(self.sets)), [len(s.entries) for s in self.sets])
        self.entries = np.concatenate([s.entries for s in self.sets])
        keep = self.entries["weight"] > 0
        self.entries, self.set = self.entries[keep], self.set[keep]
        if not len(self.entries):
            raise ValueError("%s: no samples" % self.sets[0].path)
        self._make_groups()
        self._hold_out(eval_split)
        self._make_epoch([float(w) for _, w in pairs], dataset_repeat)
        self.norm = normalization(self.sets[0].manifest)

    def _compare_sets(self):
        a = self.sets[0]
        for b in self.sets[1:]:
            for name in ("vae", "normalization", "text_encoders"):
                if a.manifest[name] != b.manifest[name]:
                    raise ValueError("%s does not fit %s: %s %s, %s expected" % (
                        b.path, a.path, name, b.manifest[name], a.manifest[name]))

    def _make_groups(self):
        """Groups of one kind and shape, with reference pictures of the same sizes, in the order of
        vtrain, which compares sizes as bytes."""
        e = self.entries
        shape = np.stack([e["flags"] & PRIOR, e["flags"] & VIDEO] + [e[d] for d in "fhw"], axis=1)
        size = np.zeros((len(e), REFERENCES, 2), "<u2")
        for i, k in enumerate(self.set):
            if self.sets[k].manifest.get("train_mode") not in PAIRED:
                continue
            with self.sets[k].reading("sample %s" % self.key(i)):
                references = self.sets[k].record(e[i]).get("references") or []
                for at, r in enumerate(references):
                    _, *size[i, at] = r["latent"]
        shape = np.hstack([shape, size.reshape(len(e), -1).view(np.uint8)])
        self.group = np.unique(shape, axis=0, return_inverse=True)[1].reshape(-1)

    def _hold_out(self, part):
        self.held_out = np.zeros(len(self.entries), bool)
        if not part:
            return
        if not 0 < part <= 0.5:
            raise ValueError("eval_split %g: 0..0.5 expected" % part)
        draw = dataset_unit(self.seed, self.entries["number"], self.set, SPLIT)
        self.held_out = ((draw < part) | (draw == draw.min())) & (draw < draw.max())
        if not self.held_out.any():
            raise ValueError("eval_split %g: nothing is left to train on" % part)

    def _make_epoch(self, weight, dataset_repeat):
        """The sample numbers that an epoch visits: first sample, variants, repeats and start."""
        number = self.entries["number"]
        first = np.flatnonzero(_changes(number, self.set))
        variants = np.diff(np.append(first, len(number)))
        keep = ~self.held_out[first]
        low, high = (f.reduceat(self.group, first) for f in (np.minimum, np.maximum))
        self.varied = bool((low != high)[keep].any())
        first, variants = first[keep], variants[keep]
        ids, sets = number[first], self.set[first]
        own = self.entries["weight"][first].astype(np.float64)
        r = float(dataset_repeat) * np.array(self._share_out(weight, sets, own))[sets] * own
        more = dataset_unit(self.seed, ids, 256 + sets, SPLIT) < r - np.floor(r)
        self.repeats = np.maximum(np.floor(r) + more, 1).astype(np.int64)
        self.first, self.variants = first, variants
        self.start = first_ints(self.seed, ids, sets, VARIANT, variants)

    def _share_out(self, weight, sets, own):
        if all(w >= 1 for w in weight):
            return weight
        if any(w >= 1 for w in weight):
            raise ValueError("weights below 1 are shares: give every dataset a share, or repeats")
        sums = [float(np.append(0.0, own[sets == k]).cumsum()[-1]) for k in range(len(weight))]
        share = [w / s if s > 0 else w for w, s in zip(weight, sums)]
        least = min(x for x, s in zip(share, sums) if s > 0)
        return [x / least for x in share]

    def epoch(self, e):
        """The samples of epoch e, each as often as its repeats, in the next variant each time."""
        at = np.arange(self.repeats.sum()) - np.repeat(np.cumsum(self.repeats) - self.repeats,
                                                       self.repeats)
        visit = np.repeat(self.start + e * self.repeats, self.repeats) + at
        return np.repeat(self.first, self.repeats) + visit % np.repeat(self.variants, self.repeats)

    def __len__(self):
        return len(self.entries)

    def key(self, i):
        e, k = self.entries[i], int(self.set[i])
        return "%s%012d/%03d" % ("%d:" % (k + 1) if k else "", e["number"], e["variant"])

    def _latent(self, t, e, visit):
        x = (t["mean"] if "mean" in t else t["sample"]).astype(np.float32)
        if x.shape[1:] != (e["f"], e["h"], e["w"]) or len(x) != len(self.norm[0]):
            raise ValueError("a latent of shape %s" % (x.shape,))
        if visit and self.posterior == "sample" and "logvar" in t:
            lv = np.clip(t["logvar"].astype(np.float32), -30, 20) * np.float32(0.5)
            std = np.exp(lv.astype(np.float64)).astype(np.float32)
            x += std * train_normals(x.size, self.seed, visit.row, visit.micro,
                                     LATENT).reshape(x.shape)
        x -= self.norm[0]
        x *= self.norm[1]
        if not np.isfinite(x).all():
            raise ValueError("a value is NaN or infinite")
        return x

    def _texts(self, shards, record, visit):
        """The caption and its texts by slot. A dropped caption is the empty prompt, but one of
        segments (`text_chunks`), which has the rows of all of them, becomes as many zeros."""
        unit = functools.partial(train_unit, self.seed, visit.row, visit.micro) if visit else None
        drop = visit and self.caption_dropout and unit(CAPTION_DROP) < self.caption_dropout
        zeros, encoders = drop and record.get("text_chunks"), shards.manifest["text_encoders"]
        captions = [] if drop and not zeros else record["captions"]
        pick = int(unit(CAPTION) * len(captions)) if visit and len(captions) > 1 else 0
        keys = captions[pick]["keys"] if captions else [t["empty"] for t in encoders]
        texts = {t["slot"]: shards.value("text", k) for t, k in zip(encoders, keys)}
        if zeros:
            texts = {s: {n: np.zeros_like(x) for n, x in t.items()} for s, t in texts.items()}
        return "" if drop or not captions else captions[pick]["text"], texts

    def __getitem__(self, index):
        visit = index if isinstance(index, Visit) else None
        i = int(visit.sample if visit else index)
        e, shards = self.entries[i], self.sets[self.set[i]]
        record, shard = shards.record(e), int(e["shard"])
        text, texts = self._texts(shards, record, visit)
        latent = shards.value("latent", e["latent"].tobytes().hex(), shard)
        with shards.reading("sample %s" % self.key(i)):
            x = self._latent(latent, e, visit)
        conditions = {role: shards.value("latent", k, shard) for role, k in
                      (record.get("conditions") or {}).items()}
        return {"latents": x, "texts": texts, "conditions": conditions, "caption": text,
                "key": self.key(i), "fps": float(e["fps"]), "micro": visit.micro if visit else None}


def collate(rows):
    """Makes a batch of the samples of a micro-batch, as tensors if the program has imported torch,
    else as arrays. Texts are padded with zeros to the longest of the batch."""
    give = sys.modules["torch"].from_numpy if "torch" in sys.modules else (lambda x: x)
    batch = {name: [r[name] for r in rows] for name in ("key", "caption", "conditions")}
    batch["latents"] = give(np.stack([r["latents"] for r in rows]))
    batch["fps"] = give(np.array([r["fps"] for r in rows], np.float32))
    batch["micro"], batch["texts"] = rows[0]["micro"], {}
    for slot, tensors in rows[0]["texts"].items():
        out = batch["texts"][slot] = {}
        of = [r["texts"][slot] for r in rows]
        if "pooled" in tensors:
            out["pooled"] = give(np.stack([t["pooled"] for t in of]).astype(np.float32))
        if "prompt_embeds" in tensors:
            of = [t["prompt_embeds"] for t in of]
            x = np.zeros((len(of), max(map(len, of)), of[0].shape[1]), np.float32)
            for to, t in zip(x, of):
                to[:len(t)] = t
            out["prompt_embeds"] = give(x)
            out["length"] = give(np.array([len(t) for t in of], np.int64))
    return batch


class BucketSampler:
    """Yields the micro-batches of a run, lists of Visits of one shape, in vtrain's order. With
    `ranks` processes, each with its `rank`, every process gets the micro-batches that vtrain's rank
    would. The iteration begins at micro-batch `first` (to resume) and ends before `end`; without
    `end` it does not end."""

    def __init__(self, data, batch_size, rank=0, ranks=1, first=0, end=None):
        if batch_size < 1 or not 0 <= rank < ranks:
            raise ValueError("batch_size %d, rank %d of %d" % (batch_size, rank, ranks))
        self.data, self.batch, self.rank, self.ranks = data, batch_size, rank, ranks
        self.first, self.end = first, end
        self.epoch_number, self.epoch_start, self.batches = 0, 0, self._plan(0)

    def _plan(self, epoch):
        """The micro-batches of an epoch (buckets/sampler.h): lists of samples."""
        data = self.data
        row = data.epoch(epoch)
        group = data.group[row]
        order = permutation(len(row), data.seed, epoch)
        at = np.argsort(group[order], kind="stable")         # places in the order, by group
        counts = np.bincount(group)
        begin = np.cumsum(counts) - counts
        within = np.arange(len(row)) - np.repeat(begin, counts)
        by_group = row[order[at]]
        last = np.flatnonzero(within % self.batch == self.batch - 1)
        last = last[np.argsort(at[last])].tolist()
        full = [(i + 1 - self.batch, i + 1) for i in last]
        rest = [(b + c - c % self.batch, b + c)
                for b, c in zip(begin.tolist(), counts.tolist()) if c % self.batch]
        return [by_group[i:k].tolist() for i, k in self._spread(full, rest, epoch)]

    def _spread(self, full, rest, epoch):
        """Places the shuffled leftover batches among the full ones."""
        draws, out = Draws(self.data.seed, epoch, 1, ORDER), []
        _shuffle(rest, draws.ints(np.arange(len(rest), 1, -1)).tolist())
        for u in draws.ints(np.arange(len(full) + len(rest), 0, -1)).tolist():
            out.append(rest.pop() if rest and (not full or u < len(rest)) else full.pop())
        return out[::-1]

    def __len__(self):
        """The micro-batches of this rank: those before `end`, or those of the first epoch."""
        end = len(self._plan(0)) if self.end is None else self.end
        return len(range(self.first + self.rank, end, self.ranks))

    def micro(self, m):
        """The samples of micro-batch m of the run."""
        if m < self.epoch_start:
            self.epoch_number, self.epoch_start, self.batches = 0, 0, self._plan(0)
        while m - self.epoch_start >= len(self.batches):
            passed = 1 if self.data.varied else (m - self.epoch_start) // len(self.batches)
            self.epoch_start += passed * len(self.batches)
            self.epoch_number += passed
            self.batches = self._plan(self.epoch_number)
        return self.batches[m - self.epoch_start]

    def __iter__(self):
        m = self.first + self.rank
        while self.end is None or m < self.end:
            yield [Visit(s, row, m) for row, s in enumerate(self.micro(m))]
            m += self.ranks
