"""Small .npz files of numpy, for the reader of formats/tensors/npz.h.

`numpy.npz` has arrays of all types that the reader supports, and arrays that the reader must not
build: of objects, of text, of big-endian numbers and in Fortran's order. `numpy_packed.npz` is
compressed. `kohya_te.npz` has the keys and types of a text file of kohya's sd-scripts.
"""
import numpy as np


def make(out):
    x = np.arange(24).reshape(2, 3, 4)
    v = {name: x.astype(name) for name in
         "float32 float16 float64 int64 int32 int16 int8 uint8 bool".split()}
    v.update(scalar=np.array(True), none=np.zeros((0, 3), np.float32),
             vector=np.array((96, 64)),
             objects=np.array([{}, None]), text=np.array(["a"]), big=x.astype(">f4"),
             columns=np.asfortranarray(x.astype(np.float32)))
    np.savez(out / "numpy.npz", **v)
    np.savez_compressed(out / "numpy_packed.npz", x=x)
    np.savez(out / "kohya_te.npz", l_pooled=np.arange(4, dtype=np.float32),
             t5_out=np.arange(12, dtype=np.float32).reshape(2, 6),
             txt_ids=np.zeros((2, 3), np.float32), t5_attn_mask=np.array([1, 0]),
             apply_t5_attn_mask=True)
