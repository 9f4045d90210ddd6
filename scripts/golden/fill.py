"""Weights by name: the values that golden_fill() of tests/lib/golden.c must return."""
import golden

SHAPES = {"lin.weight": (3, 5), "lin.bias": (3,), "norm.weight": (7,), "norm.std": (4,)}


def make(out):
    values = {name: golden.fill(name, shape) for name, shape in SHAPES.items()}
    golden.save(out / "fill.safetensors", values, config={},
                weights={k: list(v) for k, v in SHAPES.items()})
