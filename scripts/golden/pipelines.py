"""The names of diffusers' pipelines: `pipelines`, those that it imports, sorted, without bases and
without modular ones, whose folders have another index. They are the _class_name of a model's
model_index.json."""
import json

import diffusers


def make(out):
    names = sorted(n for n in dir(diffusers) if n.endswith("Pipeline") and n != "DiffusionPipeline"
                   and "Modular" not in n and not n.startswith(("AutoPipeline", "Flax", "Onnx")))
    (out / "pipelines.json").write_text(json.dumps({"pipelines": names}, indent=0) + "\n")
    print(f"pipelines.json: {len(names)} names of diffusers {diffusers.__version__}")
