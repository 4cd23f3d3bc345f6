# SPDX-License-Identifier: Apache-2.0
"""Tests models whose windows, skips or regions are far larger than their inputs: results are right, and the run
time depends on the inputs only. Earlier versions visited all positions, which took minutes or never ended."""
import numpy as np

from kit import const, node

X = np.arange(16, dtype=np.float32).reshape(1, 1, 4, 4)
LRN_X = np.arange(12, dtype=np.float32).reshape(1, 6, 2)


def everywhere(value):
    return np.full(X.shape, value, np.float32)


def pools(f):
    for power in (31, 45, 62):
        for where in ([2**power, 1], [1, 2**power]):
            name = "%d_%s" % (power, "rows" if where[0] > 1 else "columns")
            axis = 2 if where[0] > 1 else 3
            for pad in ("SAME_UPPER", "SAME_LOWER"):
                of = {"kernel_shape": where, "auto_pad": pad}
                most = np.broadcast_to(X.max(axis, keepdims=True), X.shape)
                f.add(f"max_pool_{name}_{pad}", 13, [node("MaxPool", "x", "y", **of)], {"x": X}, {"y": most})
                mean = np.broadcast_to(X.mean(axis, keepdims=True), X.shape)
                f.add(f"average_pool_{name}_{pad}", 13, [node("AveragePool", "x", "y", **of)], {"x": X}, {"y": mean})
                norm = np.sqrt((X * X).sum(axis, keepdims=True))
                f.add(f"lp_pool_{name}_{pad}", 13, [node("LpPool", "x", "y", p=2, **of)], {"x": X},
                      {"y": np.broadcast_to(norm, X.shape)})
    wide = 2**31
    padded = {"kernel_shape": [wide, wide], "pads": [wide // 2] * 2 + [wide // 2 - 1] * 2}
    f.add("max_pool_pads", 13, [node("MaxPool", "x", "y i", **padded)], {"x": X},
          {"y": everywhere(15), "i": np.full(X.shape, 15, np.int64)})
    # The padding counts in the mean: 2^62 positions.
    f.add("average_pool_pads", 13, [node("AveragePool", "x", "y", count_include_pad=1, **padded),
                                    node("Mul", "y k", "z")], {"x": X}, {"z": everywhere(120)},
          [const("k", 2.0**62)])


def lrn(size):
    """Computes LRN with alpha 1, beta 0.5, bias 1."""
    square, n = LRN_X.astype(np.float64)**2, LRN_X.shape[1]
    s = np.array([square[:, max(0, c - (size - 1) // 2):min(n, c + size // 2 + 1)].sum(1) for c in range(n)])
    return (LRN_X / np.sqrt(1 + s.transpose(1, 0, 2) / size)).astype(np.float32)


def normalised(f):
    for size in (1, 2, 3, 4, 5, 7, 11, 12, 2**31 - 1):
        f.add("lrn_%d" % size, 13, [node("LRN", "x", "y", size=size, alpha=1.0, beta=0.5, bias=1.0)], {"x": LRN_X},
              {"y": lrn(size)})


def grams(f):
    row = np.array([1, 2, 9, 1, 9, 9, 2], np.int64)
    for skips, found in ((0, 1), (1, 1), (2, 2), (4, 2), (5, 3), (2**40, 3), (2**62, 3)):
        f.add("skips_%d" % skips, 9,
              [node("TfIdfVectorizer", "x", "y", min_gram_length=2, max_gram_length=2, max_skip_count=skips, mode="TF",
                    ngram_counts=[0, 0], ngram_indexes=[0], pool_int64s=[1, 2])],
              {"x": row}, {"y": np.array([found], np.float32)})


def regions(f):
    """x is all ones, so the mean is the fraction of the sampling positions that are inside x. A bin has at most
    4096 positions."""
    width = 4096
    for begin, end in ((-2e9, 2e9), (-4e9, 4e9), (-3e5, 5e5)):
        begin, end = (np.float32(v).astype(np.float64) for v in (begin, end))
        places = begin + (np.arange(4096) + 0.5) * (end - begin) / 4096
        part = np.mean((places >= -1) & (places <= width))
        f.add("region_%g" % end, 16,
              [node("RoiAlign", "x r b", "y", output_height=1, output_width=1, sampling_ratio=0, spatial_scale=1.0,
                    coordinate_transformation_mode="output_half_pixel")],
              {"x": np.ones((1, 64, 2, width), np.float32)}, {"y": np.full((1, 64, 1, 1), part, np.float32)},
              [const("r", [[begin, 0, end, 1]]), const("b", [0], np.int64)])
    f.add("region_everywhere", 16,
          [node("RoiAlign", "x r b", "y", output_height=1, output_width=1, sampling_ratio=0, spatial_scale=1.0)],
          {"x": np.ones((1, 64, 4, 4), np.float32)}, {"y": np.zeros((1, 64, 1, 1), np.float32)},
          [const("r", [[1e3, 1e3, 4e9, 4e9]]), const("b", [0], np.int64)])


def add_all(f):
    for part in (pools, normalised, grams, regions):
        part(f)
