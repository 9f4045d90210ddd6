"""Reads every value of a latent dataset with no other modules than lmdb and safetensors.

    python3 tests/formats/read_dataset.py latents.lmdb

The exit status is 77 if one of the two modules is missing: ctest shows the test as skipped."""
import json
import os
import sys

try:
    import lmdb
    import safetensors
except ImportError as e:
    print("skipped:", e)
    sys.exit(77)


def main(folder):
    with open(os.path.join(folder, "manifest.json"), encoding="utf-8") as f:
        manifest = json.load(f)
    samples, latents, texts = {}, {}, {}
    for shard in manifest["shards"]:
        env = lmdb.open(os.path.join(folder, shard["file"]), subdir=False, readonly=True,
                        lock=False, max_dbs=8)
        is_text = shard["file"].startswith("text")
        names = ("text", "validation") if is_text else ("sample", "latent", "thumb")
        dbs = {name: env.open_db(name.encode(), create=False) for name in names}
        with env.begin() as txn:
            for name, db in dbs.items():
                for key, value in txn.cursor(db):
                    if name in ("latent", "text"):
                        tensors = dict(safetensors.deserialize(value))
                        assert tensors, key
                        (latents if name == "latent" else texts)[key.decode()] = tensors
                    elif name == "sample":
                        samples[key.decode()] = json.loads(value)
                    elif name == "validation":
                        json.loads(value)
        env.close()
    samples = {k: v for k, v in samples.items() if not v.get("dropped")}
    assert len(samples) == manifest["samples"], (len(samples), manifest["samples"])
    for key, record in samples.items():
        assert key == "%012d/%03d" % (record["sample"], record["variant"]), key
        latent = latents[record["latent_key"]]
        if "mean" in latent:
            assert latent["mean"]["shape"][1:] == record["latent"], (key, latent["mean"]["shape"])
        for caption in record["captions"]:
            assert all(k in texts for k in caption["keys"]), key
    for encoder in manifest["text_encoders"]:
        assert encoder["empty"] in texts
    print("%d samples, %d latents, %d texts" % (len(samples), len(latents), len(texts)))


main(sys.argv[1])
