"""Small .pt files of torch.save, for the reader of formats/tensors/pt.h.

`pt_kinds.pt` has every kind of value and of tensor that the reader supports, `pt_protocol5.pt` has
the same in another protocol, `pt_zip64.pt` has the bytes of `pt_kinds.pt` in a zip64, and
`pt_objects.pt` has values that the reader must not build: an
object of a class and a call of a function.
"""
import collections
import os
import zipfile

import torch


class Call:
    def __reduce__(self):
        return (os.getcwd, ())


def values():
    x = torch.arange(24, dtype=torch.float32).reshape(2, 3, 4)
    v = {"rows": x, "turned": x.transpose(0, 2), "part": x[:, 1:], "spread": x[0, 0].expand(3, 4),
         "scalar": torch.tensor(7), "none": torch.zeros(0, 3), "parameter": torch.nn.Parameter(x),
         "f8e4m3": x.to(torch.float8_e4m3fn), "f8e5m2": x.to(torch.float8_e5m2)}
    for name in "float64 float16 bfloat16 int64 int32 int16 int8 uint8 bool".split():
        v[name] = x.to(getattr(torch, name))
    v.update(int=3, negative=-70000, long=1 << 40, float=1.5, true=True, nothing=None,
             text="\u00fc",
             bytes=b"\x00\xffa", list=[1, (2, "b")], ordered=collections.OrderedDict(a=1),
             size=x.shape)
    return v


def zip64(source, to):
    """Writes the members again with the 64-bit fields of files beyond 4 GiB."""
    limit, zipfile.ZIP64_LIMIT = zipfile.ZIP64_LIMIT, 0
    with zipfile.ZipFile(source) as a, zipfile.ZipFile(to, "w", zipfile.ZIP_STORED) as b:
        for member in a.infolist():
            b.writestr(zipfile.ZipInfo(member.filename), a.read(member))
    zipfile.ZIP64_LIMIT = limit


def make(out):
    torch.save(values(), out / "pt_kinds.pt")
    zip64(out / "pt_kinds.pt", out / "pt_zip64.pt")
    torch.save(values(), out / "pt_protocol5.pt", pickle_protocol=5)
    torch.save({"x": torch.arange(4.0), "called": Call(), "device": torch.device("cpu"),
                "huge": 1 << 80,
                "complex": torch.zeros(2, dtype=torch.complex64)}, out / "pt_objects.pt")
