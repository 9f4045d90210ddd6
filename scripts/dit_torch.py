#!/usr/bin/env python3
"""The built-in DiT in PyTorch, for comparison only: nothing of the build or the tests needs it.

  dit_torch.py check TRACE_FILE MODEL_DIR   recomputes a traced micro-batch: output, loss, gradients
  dit_torch.py bench TRACE_FILE MODEL_DIR STEPS   seconds of a training step on the traced batch
"""
import json
import math
import sys
import time

import torch
import torch.nn.functional as F
from safetensors import safe_open
from safetensors.torch import load_file


class DiT:
    """Functional, over the tensors of transformer/diffusion_pytorch_model.safetensors by name."""

    def __init__(self, folder, trained=True):
        with open(folder + "/config.json") as f:
            c = json.load(f)
        self.patch, self.layers = c["patch_size"], c["num_layers"]
        self.heads, self.head = c["num_attention_heads"], c["attention_head_dim"]
        self.theta = c["rope_theta"]
        self.w = {k: v.float().requires_grad_(trained)
                  for k, v in load_file(folder + "/diffusion_pytorch_model.safetensors").items()}

    def linear(self, x, name):
        return F.linear(x, self.w[name + ".weight"], self.w.get(name + ".bias"))

    def rope(self, f, h, w):
        pairs = self.head // 2
        side = pairs // 3
        angles = []
        for axis, n in enumerate((pairs - 2 * side, side, side)):
            omega = self.theta ** (-torch.arange(n, dtype=torch.float64) / n)
            shape = [1, 1, 1, n]
            size = (f, h, w)[axis]
            shape[axis] = size
            a = (torch.arange(size, dtype=torch.float64)[:, None] * omega).view(shape)
            angles.append(a.expand(f, h, w, n))
        a = torch.cat(angles, -1).reshape(f * h * w, pairs)
        return a.cos().float(), a.sin().float()

    def places(self, f, h, w):
        """Sinusoids along 128 directions of the R3 sequence."""
        root = 1.2207440846057596
        step = torch.tensor([root ** -1, root ** -2, root ** -3], dtype=torch.float64)
        u = 0.5 + torch.arange(1, 129, dtype=torch.float64)[:, None] * step
        direction = 2.5 * (2 * (u - u.floor()) - 1)
        at = torch.cartesian_prod(*(torch.arange(n, dtype=torch.float64) for n in (f, h, w)))
        a = at @ direction.T
        return torch.stack((a.cos(), a.sin()), -1).flatten(1).float()

    def rotate(self, x, cos, sin, n):
        head, tail = x[:, :n], x[:, n:]
        a, b = head[..., 0::2], head[..., 1::2]
        c, s = cos[None, :, None], sin[None, :, None]
        turned = torch.stack((a * c - b * s, b * c + a * s), -1).flatten(-2)
        return torch.cat((turned, tail), 1)

    def rms(self, x, w):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * w

    def norm(self, x, shift, scale):
        return F.layer_norm(x, x.shape[-1:], eps=1e-6) * (1 + scale) + shift

    def block(self, i, x, c, m, cos, sin):
        p = "transformer_blocks.%d." % i
        ex = (m + self.w[p + "scale_shift_table"]).chunk(6, 1)
        ec = (m + self.w[p + "text_scale_shift_table"]).chunk(6, 1)
        n, b = x.shape[1], x.shape[0]

        h = torch.cat((self.norm(x, ex[0], ex[1]), self.norm(c, ec[0], ec[1])), 1)
        shape = (b, h.shape[1], self.heads, self.head)
        q = self.rotate(self.rms(self.linear(h, p + "attn.to_q").view(shape),
                                 self.w[p + "attn.norm_q.weight"]), cos, sin, n)
        k = self.rotate(self.rms(self.linear(h, p + "attn.to_k").view(shape),
                                 self.w[p + "attn.norm_k.weight"]), cos, sin, n)
        v = self.linear(h, p + "attn.to_v").view(shape)
        o = F.scaled_dot_product_attention(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2))
        h = self.linear(o.transpose(1, 2).flatten(2), p + "attn.to_out.0")
        x, c = x + ex[2] * h[:, :n], c + ec[2] * h[:, n:]

        h = torch.cat((self.norm(x, ex[3], ex[4]), self.norm(c, ec[3], ec[4])), 1)
        h = self.linear(F.gelu(self.linear(h, p + "ff.net.0.proj"), approximate="tanh"),
                        p + "ff.net.2")
        return x + ex[5] * h[:, :n], c + ec[5] * h[:, n:]

    def __call__(self, x, t, text):
        b, ch, f, h, w = x.shape
        p = self.patch
        tokens = x.view(b, ch, f, h // p, p, w // p, p).permute(0, 2, 3, 5, 1, 4, 6).reshape(b, -1,
            ch * p * p)
        omega = 10000.0 ** (-torch.arange(128, dtype=torch.float64) / 128)
        a = t.double()[:, None] * omega
        e = torch.cat((a.cos(), a.sin()), 1).float()
        c = self.linear(F.layer_norm(text, text.shape[-1:], eps=1e-6), "text_embed.proj")
        pooled = self.linear(c[:, 0] + c.mean(1), "text_embed.pooled")
        e = F.silu(self.linear(F.silu(self.linear(e, "time_embed.linear_1")),
                               "time_embed.linear_2") + pooled)
        m = self.linear(e, "time_proj").view(b, 6, -1)
        cos, sin = self.rope(f, h // p, w // p)
        y = self.linear(tokens, "patch_embed.proj") + self.linear(self.places(f, h // p, w // p),
            "patch_embed.pos")
        for i in range(self.layers):
            y, c = self.block(i, y, c, m, cos, sin)
        s = self.linear(e, "norm_out.linear").view(b, 2, -1).chunk(2, 1)
        y = self.linear(self.norm(y, s[0], s[1]), "proj_out") + tokens * self.linear(e,
            "skip_gate")[:, None]
        return y.view(b, f, h // p, w // p, ch, p, p).permute(0, 4, 1, 2, 5, 3, 6).reshape(x.shape)


def load_trace(path):
    with safe_open(path, "pt") as f:
        return {k: f.get_tensor(k) for k in f.keys()}


def loss_of(model, trace):
    out = model(trace["noisy_latents"], trace["timesteps"], trace["encoder_hidden_states"])
    return out, (trace["loss_weight"] * (out - trace["target"]) ** 2).mean()


def check(trace, model):
    out, loss = loss_of(model, trace)
    loss.backward()
    worst = [("model_output", error(out, trace["model_output"])),
             ("loss", error(loss, trace["loss"]))]
    worst += [(k, error(w.grad, trace["grad/" + k])) for k,
              w in model.w.items() if "grad/" + k in trace]
    worst.sort(key=lambda row: -row[1])
    for name, e in worst[:8]:
        print("%-50s %.3g" % (name, e))
    print("%d tensors compared; largest relative error %.3g" % (len(worst), worst[0][1]))
    return worst[0][1]


def error(got, want):
    if want.norm() == 0:
        return float(got.detach().norm())
    got = got.detach()
    return float((got.reshape(want.shape) - want).norm() / want.norm())


def bench(trace, model, steps):
    optimizer = torch.optim.AdamW(model.w.values(), lr=1e-5, fused=True)
    best = math.inf
    for _ in range(steps):
        begin = time.perf_counter()
        optimizer.zero_grad(set_to_none=False)
        loss_of(model, trace)[1].backward()
        torch.nn.utils.clip_grad_norm_(model.w.values(), 1.0)
        optimizer.step()
        best = min(best, time.perf_counter() - begin)
    print("%.6f" % best)


def main():
    if len(sys.argv) < 4 or sys.argv[1] not in ("check", "bench"):
        sys.exit(__doc__)
    trace, model = load_trace(sys.argv[2]), DiT(sys.argv[3])
    if sys.argv[1] == "check":
        sys.exit(check(trace, model) > 1e-4)
    bench(trace, model, int(sys.argv[4]))


main()
