# SPDX-License-Identifier: Apache-2.0
"""Tests Resize and related operators in opsets and modes that ONNX's own test models lack."""
import itertools
import math

import numpy as np

from kit import const, node

RNG = np.random.default_rng(3)
X = RNG.uniform(-1, 1, (1, 2, 5, 4)).astype(np.float32)


def place(mode, j, n, m, s, roi):
    """Returns the position in the input (n elements) of element j of the result (m elements); s is the scale."""
    if mode == "half_pixel":
        return (j + 0.5) / s - 0.5
    if mode == "half_pixel_symmetric":
        return n / 2 * (1 - m / (s * n)) + (j + 0.5) / s - 0.5
    if mode == "pytorch_half_pixel":
        return (j + 0.5) / s - 0.5 if m > 1 else 0
    if mode == "align_corners":
        return j * (n - 1) / (s * n - 1) if m > 1 else 0
    if mode == "asymmetric":
        return j / s
    if mode == "tf_half_pixel_for_nn":
        return (j + 0.5) / s
    start, end = roi
    if m == 1:
        return 0.5 * (start + end) * (n - 1)
    return start * (n - 1) + j * (end - start) * (n - 1) / (m - 1)


def kernel(how, d):
    d = abs(d)
    if how["mode"] == "linear":
        return max(0, 1 - d)
    a = how.get("cubic_coeff_a", -0.75)
    if d <= 1:
        return (a + 2) * d ** 3 - (a + 3) * d ** 2 + 1
    return a * (d ** 3 - 5 * d ** 2 + 8 * d - 4) if d < 2 else 0


ROUND = {"round_prefer_floor": lambda p: math.ceil(p - 0.5),
         "round_prefer_ceil": lambda p: math.floor(p + 0.5),
         "floor": math.floor, "ceil": math.ceil}


def weights(how, p, n, s):
    """Returns the input elements that contribute to position p, with their weights."""
    if how["mode"] == "nearest":
        t = ROUND[how.get("nearest_mode", "round_prefer_floor")](p)
        return {min(max(t, 0), n - 1): 1.0}
    narrow = min(1, s) if how.get("antialias") else 1
    reach = math.ceil(2 / narrow) + 1
    around = [(t, kernel(how, narrow * (t - p))) for t in range(math.floor(p) - reach,
                                                                math.floor(p) + reach + 2)]
    if how.get("exclude_outside"):
        around = [(t, k) for t, k in around if 0 <= t < n]
    total = sum(k for _, k in around)
    out = {}
    for t, k in around:
        t = min(max(t, 0), n - 1)
        out[t] = out.get(t, 0) + k / total
    return out


def resized(x, changes, how):
    """Resizes x. changes: by axis, (extent, scale, roi)."""
    y = x.astype(float)
    mode = how.get("coordinate_transformation_mode", "half_pixel")
    for axis, (m, s, roi) in changes.items():
        n = x.shape[axis]
        rows = []
        for j in range(m):
            p = place(mode, j, n, m, s, roi)
            row = sum(k * y.take(t, axis) for t, k in weights(how, p, n, s).items())
            if mode == "tf_crop_and_resize" and not 0 <= p <= n - 1:
                row = np.full_like(row, how.get("extrapolation_value", 0))
            rows.append(row)
        y = np.stack(rows, axis)
    return y.astype(np.float32)


def by_scales(f):
    """Tests all coordinate modes with larger, smaller and fractional scales."""
    modes = [{"mode": "linear"}, {"mode": "cubic"}, {"mode": "cubic", "cubic_coeff_a": -0.5,
                                                     "exclude_outside": 1}]
    modes += [{"mode": "nearest", "nearest_mode": m} for m in ROUND]
    places = ["half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric"]
    for number, (how, mode, scales) in enumerate(itertools.product(modes, places, ((1.7, 0.6),
                                                                                   (0.25, 2.3)))):
        how = dict(how, coordinate_transformation_mode=mode)
        scales = [float(np.float32(s)) for s in scales]
        changes = {a: (int(X.shape[a] * s), s, (0, 1)) for a, s in zip((2, 3), scales)}
        f.add("resize_%d" % number, 13, [node("Resize", "x _ scales", "y", **how)], {"x": X},
              {"y": resized(X, changes, how)}, [const("scales", [1, 1, *scales])])
    tf = {"mode": "nearest", "coordinate_transformation_mode": "tf_half_pixel_for_nn"}
    for name in ("floor", "round_prefer_floor"):
        how = dict(tf, nearest_mode=name)
        changes = {a: (m, m / X.shape[a], (0, 1)) for a, m in ((2, 7), (3, 3))}
        f.add("resize_tf_" + name, 11, [node("Resize", "x none none sizes", "y", **how)], {"x": X},
              {"y": resized(X, changes, how)}, [const("none", []), const("sizes", [1, 2, 7, 3],
                                                                         np.int64)])


def crops(f):
    roi = [0, 0, 0.25, -0.25, 1, 1, 0.75, 1]
    sizes = {"two": (6, 6), "one": (1, 4)}
    for name, (high, wide) in sizes.items():
        for mode in ("linear", "cubic", "nearest"):
            how = {"mode": mode, "coordinate_transformation_mode": "tf_crop_and_resize",
                   "extrapolation_value": 7.5}
            changes = {2: (high, high / 5, (0.25, 0.75)), 3: (wide, wide / 4, (-0.25, 1))}
            f.add("crop_%s_%s" % (name, mode), 13,
                  [node("Resize", "x roi _ sizes", "y", **how)], {"x": X},
                  {"y": resized(X, changes, how)},
                  [const("roi", roi), const("sizes", [1, 2, high, wide], np.int64)])
    how = {"mode": "linear", "coordinate_transformation_mode": "tf_crop_and_resize"}
    f.add("crop_scales", 13, [node("Resize", "x roi scales", "y", **how)], {"x": X},
          {"y": resized(X, {2: (5, 2, (0.25, 0.75)), 3: (10, 2, (-0.25, 1))}, how)},
          [const("roi", roi), const("scales", [1, 1, 2, 2])])


def newer(f):
    """Tests opsets 18 and 19: axes, one scale for all axes, antialias, symmetric half pixels."""
    how = {"mode": "linear"}
    for policy, high, s in (("not_larger", 7, 7 / 5), ("not_smaller", 8, 6 / 4)):
        f.add("resize_" + policy, 18,
              [node("Resize", "x _ _ sizes", "y", axes=[-1, 2], keep_aspect_ratio_policy=policy,
                    **how)], {"x": X},
              {"y": resized(X, {2: (high, s, (0, 1)), 3: (6, s, (0, 1))}, how)},
              [const("sizes", [6, 7], np.int64)])
    for mode in ("linear", "cubic"):
        how = {"mode": mode, "antialias": 1}
        for scales in ((0.6, 0.5), (0.4, 1.5)):
            scales = [float(np.float32(s)) for s in scales]
            changes = {a: (int(X.shape[a] * s), s, (0, 1)) for a, s in zip((2, 3), scales)}
            f.add("antialias_%s_%d" % (mode, 10 * scales[1]), 18,
                  [node("Resize", "x _ scales", "y", axes=[2, 3], **how)], {"x": X},
                  {"y": resized(X, changes, how)}, [const("scales", scales)])
        how = {"mode": mode, "coordinate_transformation_mode": "half_pixel_symmetric"}
        s = float(np.float32(0.45))
        f.add("symmetric_" + mode, 19, [node("Resize", "x _ scales", "y", axes=[2], **how)],
              {"x": X}, {"y": resized(X, {2: (2, s, (0, 1))}, how)}, [const("scales", [0.45])])


def older(f):
    """Tests Upsample, and the first version of Resize."""
    how = {"mode": "nearest", "nearest_mode": "floor",
           "coordinate_transformation_mode": "asymmetric"}
    linear = dict(how, mode="linear")
    up = {2: (7, 1.5, (0, 1)), 3: (8, 2, (0, 1))}
    f.add("upsample_1", 1, [node("Upsample", "x", "y", height_scale=1.5, width_scale=2.0)],
          {"x": X}, {"y": resized(X, up, how)})
    f.add("upsample_7", 7, [node("Upsample", "x", "y", mode="linear", scales=[1.0, 1.0, 1.5, 2.0])],
          {"x": X}, {"y": resized(X, up, linear)})
    scales = const("scales", [1, 1, 1.5, 2])
    for name, opset in (("Upsample", 9), ("Resize", 10)):
        for mode, ways in (("nearest", how), ("linear", linear)):
            f.add("%s_%d_%s" % (name.lower(), opset, mode), opset,
                  [node(name, "x scales", "y", mode=mode)], {"x": X}, {"y": resized(X, up, ways)},
                  [scales])


def first_resize(f):
    """For a scale below 1, Resize of opset 10 rounds positions up: ceil."""
    ways = {a: {"mode": "nearest", "nearest_mode": a,
                "coordinate_transformation_mode": "asymmetric"} for a in ("floor", "ceil")}
    s = float(np.float32(0.6))
    y = resized(X, {2: (3, s, (0, 1))}, ways["ceil"])
    f.add("resize_10_down", 10, [node("Resize", "x scales", "y")], {"x": X},
          {"y": resized(y, {3: (6, 1.5, (0, 1))}, ways["floor"])},
          [const("scales", [1, 1, 0.6, 1.5])])


def grids(f):
    theta = RNG.uniform(-1, 1, (2, 2, 3)).astype(np.float32)
    for corners in (0, 1):
        axis = [np.linspace(-1, 1, n) if corners else (2 * np.arange(n) + 1) / n - 1
                for n in (3, 4)]
        y, x = np.meshgrid(*axis, indexing="ij")
        places = np.stack([x, y, np.ones_like(x)], -1)
        f.add("affine_%d" % corners, 20,
              [node("AffineGrid", "theta size", "y", align_corners=corners)], {"theta": theta},
              {"y": np.einsum("hwk,njk->nhwj", places, theta).astype(np.float32)},
              [const("size", [2, 1, 3, 4], np.int64)])


def add_all(f):
    by_scales(f)
    crops(f)
    newer(f)
    older(f)
    first_resize(f)
    grids(f)
