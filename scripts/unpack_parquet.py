#!/usr/bin/env python3
"""Unpacks a list in Parquet or Arrow files into a folder with media files and metadata.jsonl, which
vprep takes on systems without Arrow's C++ library.

    python3 scripts/unpack_parquet.py LIST FOLDER [--split NAME]

LIST is a .parquet, .arrow or .feather file, a dataset's folder as downloaded from the hub, or one
that save_to_disk wrote. Of a folder with several splits, --split chooses one (train, if there is
one). FOLDER must be new or empty. Each value of bytes becomes a file in FOLDER/media; the row in
FOLDER/metadata.jsonl has its path. A row that cannot be read is left out and reported; then the
status is 3. It needs Python's pyarrow. A few rows at a time are in memory.
"""
import argparse
import json
import math
import os
import re
import sys

try:
    import pyarrow as pa
    import pyarrow.parquet as pq
except ImportError:
    sys.exit("unpack_parquet.py: it needs pyarrow: pip install pyarrow")

ENDINGS = (".parquet", ".arrow", ".feather")
MEDIA = ("file_path", "video", "image", "media_path", "file_name", "video_path", "image_path",
         "mp4", "path")
PATHS = MEDIA + ("loss_mask_path", "control_file_path", "control_video", "input_image")
SPLITS = {"train": "train", "training": "train", "test": "test", "testing": "test", "eval": "test",
          "evaluation": "test", "validation": "validation", "valid": "validation",
          "val": "validation", "dev": "validation"}
ROWS = 8


def fail(text):
    sys.exit(f"unpack_parquet.py: {text}")


# ---- which files ----

def split_of(path):
    """The split of a file by datasets' rules: a word in its name, the NAME of NAME-00000-of-00012,
    or a word in its folders."""
    base = os.path.basename(path)
    shards = re.match(r"(.+?)-\d+-of-\d+[.-]", base)
    name = shards[1] if shards else base.split(".")[0]
    places = [name] if shards else [name, os.path.dirname(path)]
    for place in places:
        for word in re.findall("[A-Za-z]+", place):
            if word.lower() in SPLITS:
                return SPLITS[word.lower()]
    return shards[1] if shards else ""


def choose(splits, wanted, folder):
    if wanted is None and len(splits) == 1:
        return splits[0]
    wanted = wanted or "train"
    if wanted not in splits:
        fail(f"{folder}: there is no split {wanted}; --split names one of: {', '.join(splits)}")
    others = [s or "files without a split" for s in splits if s != wanted]
    if others:
        print(f"split {wanted}; not read: {', '.join(others)}")
    return wanted


def saved(folder):
    with open(os.path.join(folder, "state.json"), encoding="utf-8") as f:
        state = json.load(f)
    if state.get("_indices_data_files"):
        fail(f"{folder}: its rows are chosen by a file of indices: save it again after "
             "flatten_indices()")
    return [os.path.join(folder, os.path.basename(f["filename"])) for f in state["_data_files"]]


def named(folder, wanted):
    found = []
    for root, below, names in os.walk(folder):
        below[:] = sorted(d for d in below if not d.startswith("."))
        found += [os.path.relpath(os.path.join(root, n), folder) for n in names
                  if n.lower().endswith(ENDINGS) and not n.startswith((".", "cache-"))]
    if not found:
        fail(f"{folder}: no .parquet, .arrow or .feather file in it")
    found.sort(key=os.fsencode)
    split = choose(sorted({split_of(f) for f in found}), wanted, folder)
    found = [f for f in found if split_of(f) == split]
    folders = sorted({os.path.dirname(f) for f in found})
    if len(folders) > 1:
        fail(f"{folder}: lists lie in several folders, {', '.join(folders)}: give one of them")
    return [os.path.join(folder, f) for f in found]


def lists(path, wanted):
    if not os.path.isdir(path):
        return [path]
    splits = os.path.join(path, "dataset_dict.json")
    if os.path.exists(splits):
        with open(splits, encoding="utf-8") as f:
            return saved(os.path.join(path, choose(json.load(f)["splits"], wanted, path)))
    if os.path.exists(os.path.join(path, "state.json")):
        return saved(path)
    return named(path, wanted)


# ---- rows ----

def batches(path):
    """The batches of a file, of few rows each."""
    if path.lower().endswith(".parquet"):
        yield from pq.ParquetFile(path, pre_buffer=False).iter_batches(ROWS)
        return
    with pa.memory_map(path) as source:
        head = source.read(6)
        source.seek(0)
        if head == b"ARROW1":
            reader = pa.ipc.open_file(source)
            parts = (reader.get_batch(i) for i in range(reader.num_record_batches))
        else:
            parts = iter(pa.ipc.open_stream(source))
        for part in parts:
            part.validate(full=True)
            for at in range(0, part.num_rows, ROWS):
                yield part.slice(at, ROWS)


def is_bytes(kind):
    return (pa.types.is_binary(kind) or pa.types.is_large_binary(kind)
            or pa.types.is_fixed_size_binary(kind) or "binary_view" in str(kind))


def holds_bytes(kind):
    if pa.types.is_struct(kind):
        return any(f.name == "bytes" and is_bytes(f.type) for f in kind)
    return is_bytes(kind)


def ending(data):
    """The ending for a medium without a name, by its first bytes."""
    kinds = ((0, b"\xff\xd8\xff", ".jpg"), (0, b"\x89PNG", ".png"), (0, b"GIF8", ".gif"),
             (8, b"WEBP", ".webp"), (0, b"BM", ".bmp"), (0, b"II*\0", ".tif"),
             (0, b"MM\0*", ".tif"),
             (4, b"ftypavif", ".avif"), (4, b"ftyphei", ".heic"), (4, b"ftypqt", ".mov"),
             (4, b"ftyp", ".mp4"), (0, b"\x1aE\xdf\xa3", ".mkv"), (8, b"AVI ", ".avi"))
    return next((end for at, magic, end in kinds if data[at:at + len(magic)] == magic), ".bin")


class Written(str):
    """The path of a file in the new folder; other paths are relative to the list."""


class Folder:
    def __init__(self, path):
        if os.path.isdir(path) and os.listdir(path):
            fail(f"{path} is not empty: give a new folder")
        self.path = path
        self.media = os.path.join(path, "media")
        self.used = set()
        os.makedirs(self.media, exist_ok=True)

    def name(self, given, data, row):
        base = re.sub(r"[\x00-\x1f/\\]", "_", re.split(r"[/\\]", given or "")[-1])
        base = base.encode("utf-8", "replace").decode().lstrip(".")[-120:]
        if not os.path.splitext(base)[1]:
            base = (base or f"{row:07d}") + ending(data)
        name, again = base, 0
        while name.lower() in self.used:
            name = f"{row:07d}-{again}-{base}" if again else f"{row:07d}-{base}"
            again += 1
        self.used.add(name.lower())
        return name

    def write(self, data, given, row):
        name = self.name(given, data, row)
        with open(os.path.join(self.media, name), "wb") as f:
            f.write(data)
        return Written(f"media/{name}")


def plain(v, folder, row):
    """A value as JSON has it; bytes become the path of a file, {bytes, path} too."""
    if isinstance(v, dict) and "bytes" in v:
        return folder.write(v["bytes"], v.get("path"), row) if v["bytes"] is not None \
            else v.get("path")
    if isinstance(v, bytes):
        return folder.write(v, None, row)
    if isinstance(v, dict):
        return {k: plain(x, folder, row) for k, x in v.items()}
    if isinstance(v, (list, tuple)):
        return [plain(x, folder, row) for x in v]
    if isinstance(v, float):
        return v if math.isfinite(v) else None
    return v if v is None or isinstance(v, (bool, int, str)) else str(v)


def absolute(v, below):
    """A path relative to the list, for a list that lies elsewhere."""
    path = os.path.join(below, v)
    return os.path.abspath(path) if v and os.path.exists(path) else v


def column_names(schema):
    """The names of the columns in metadata.jsonl: the only one with bytes is the medium."""
    names = {n: n for n in schema.names}
    holders = [f.name for f in schema if holds_bytes(f.type)]
    if len(holders) == 1 and not any(n.lower() in MEDIA for n in schema.names):
        names[holders[0]] = "file_path"
    return names


def main():
    p = argparse.ArgumentParser(description="Unpacks a list in Parquet or Arrow files.")
    p.add_argument("list")
    p.add_argument("folder")
    p.add_argument("--split")
    a = p.parse_args()
    files = lists(a.list, a.split)
    folder = Folder(a.folder)
    out = os.path.join(a.folder, "metadata.jsonl")
    row = left_out = 0
    with open(out + ".part", "w", encoding="utf-8") as to:
        for path in files:
            below = os.path.dirname(path)
            try:
                for batch in batches(path):
                    names = column_names(batch.schema)
                    for i in range(batch.num_rows):
                        row += 1
                        try:
                            o = {names[n]: plain(batch.column(k)[i].as_py(), folder, row)
                                 for k, n in enumerate(batch.schema.names)}
                        except UnicodeDecodeError as e:
                            print(f"{path}: row {row} is left out: {e}", file=sys.stderr)
                            left_out += 1
                            continue
                        for n, v in o.items():
                            if n.lower() in PATHS and type(v) is str:
                                o[n] = absolute(v, below)
                        to.write(json.dumps(o, ensure_ascii=False) + "\n")
            except (pa.ArrowException, OSError) as e:
                fail(f"{path}: after row {row}: {e}")
    os.rename(out + ".part", out)
    print(f"{row - left_out} rows, {len(folder.used)} media files: give vprep --meta {out}")
    sys.exit(3 if left_out else 0)


if __name__ == "__main__":
    main()
