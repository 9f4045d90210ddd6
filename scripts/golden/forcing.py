"""The distribution of the noise levels of diffusion forcing: `mean` and `spread` (standard
deviation) [4,5] of the levels of 2 to 5 frames, a row each, as shares of T levels, where all
non-decreasing lists of levels are counted.

A frame and its level are drawn evenly; the frames before have one of the non-decreasing lists of
levels up to it, the frames behind one of those from it on, all equally likely. The numbers follow
from counts of such lists, by dynamic programming as in the papers (AR-Diffusion, SkyReels V2), and
hold for many levels.
"""
import numpy as np

import golden

FRAMES, LEVELS = 5, 400


def below(n, top):
    """Probabilities [n,top] of the levels 1..top of each of n frames, of non-decreasing lists."""
    ways = np.ones((n + 1, top + 1))                  # ways[k][t]: lists of k levels up to t
    for k in range(1, n + 1):
        ways[k] = np.cumsum(np.concatenate([[0.0], ways[k - 1][1:]]))
    p = np.zeros((n, top))
    for j in range(n):                                # j levels up to t, and n - 1 - j from t on
        for t in range(1, top + 1):
            p[j, t - 1] = ways[j][t] * ways[n - 1 - j][top - t + 1]
        p[j] /= p[j].sum()
    return p


def moments(n):
    share = np.arange(1, LEVELS + 1) / LEVELS
    first, second = np.zeros(n), np.zeros(n)
    for at in range(n):
        for t in range(1, LEVELS + 1):
            p = np.zeros((n, LEVELS))
            p[:at, :t] = below(at, t) if at else 0
            p[at, t - 1] = 1
            if at < n - 1:                            # the mirror image
                p[at + 1:, t - 1:] = below(n - 1 - at, LEVELS - t + 1)[::-1, ::-1]
            first += p @ share
            second += p @ share**2
    first, second = first / n / LEVELS, second / n / LEVELS
    return first, np.sqrt(second - first**2)


def make(out):
    t = {"mean": np.zeros((FRAMES - 1, FRAMES), np.float32),
         "spread": np.zeros((FRAMES - 1, FRAMES), np.float32)}
    for n in range(2, FRAMES + 1):
        t["mean"][n - 2, :n], t["spread"][n - 2, :n] = moments(n)
    golden.save(out / "forcing.safetensors", t)
