# SPDX-License-Identifier: Apache-2.0
"""Tests recurrent layers in all directions and layouts, with weights that distinguish the gates, attention, and
opsets of normalisations that ONNX's own test models lack."""
import numpy as np
from onnx import TensorProto

from kit import bf16_of, const, node

T, B, I, H = 4, 3, 2, 5
REAL = 4, 16, 40, 64  # T, B, I, H of a size for which vendor libraries are used
GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}


def sigmoid(a):
    return 1 / (1 + np.exp(-a))


def rnn_step(p, x, h, c):
    f = np.tanh if p["activation"] == "Tanh" else lambda a: np.maximum(a, 0)
    return f(x @ p["w"].T + h @ p["r"].T + p["wb"] + p["rb"]), c


def gru_step(p, x, h, c):
    wz, wr, wh = np.split(p["w"], 3)
    rz, rr, rh = np.split(p["r"], 3)
    bz, br, bh = np.split(p["wb"], 3)
    cz, cr, ch = np.split(p["rb"], 3)
    z = sigmoid(x @ wz.T + h @ rz.T + bz + cz)
    r = sigmoid(x @ wr.T + h @ rr.T + br + cr)
    if p["before"]:
        n = np.tanh(x @ wh.T + r * (h @ rh.T + ch) + bh)
    else:
        n = np.tanh(x @ wh.T + (r * h) @ rh.T + ch + bh)
    return (1 - z) * n + z * h, c


def lstm_step(p, x, h, c):
    i, o, f, g = np.split(x @ p["w"].T + h @ p["r"].T + p["wb"] + p["rb"], 4, axis=1)
    pi, po, pf = np.split(p["p"], 3)
    c_new = sigmoid(f + pf * c) * c + sigmoid(i + pi * c) * np.tanh(g)
    return sigmoid(o + po * c_new) * np.tanh(c_new), c_new


STEP = {"RNN": rnn_step, "GRU": gru_step, "LSTM": lstm_step}


def one_direction(op, p, x, h, c, lengths, backwards):
    """Runs one sequence at a time, for its own number of steps."""
    y = np.zeros((*x.shape[:2], h.shape[1]))
    for b in range(x.shape[1]):
        steps = range(lengths[b])
        for t in reversed(steps) if backwards else steps:
            h[b:b + 1], c[b:b + 1] = STEP[op](p, x[t, b:b + 1], h[b:b + 1], c[b:b + 1])
            y[t, b] = h[b]
    return y, h, c


def recurrent(f, op, name, direction, layout=0, lengths=None, full=True, known=True, size=(T, B, I, H),
              **attributes):
    T, B, I, H = size
    rng = np.random.default_rng(5)
    n = 2 if direction == "bidirectional" else 1
    g = GATES[op]
    draw = {"W": (n, g * H, I), "R": (n, g * H, H), "B": (n, 2 * g * H), "h": (n, B, H),
            "c": (n, B, H), "P": (n, 3 * H)}
    most = min(1, 2 / H ** 0.5)  # sums do not saturate the gates
    # Products with x are exact, so that states near 0 are not dominated by rounding errors.
    v = {k: (rng.uniform(-most, most, shape) * 256).round().astype(np.float32) / 256 for k, shape in draw.items()}
    if not full:
        for k in ("B", "h", "c", "P"):
            v[k][:] = 0
    x = (rng.uniform(-2, 2, (T, B, I)) * 64).round().astype(np.float32) / 64
    y, hs, cs = [], [], []
    for d in range(n):
        p = {"w": v["W"][d], "r": v["R"][d], "wb": v["B"][d][:g * H], "rb": v["B"][d][g * H:],
             "p": v["P"][d], "before": attributes.get("linear_before_reset", 0),
             "activation": attributes.get("activations", ["Tanh"] * n)[d]}
        made = one_direction(op, p, x, v["h"][d].astype(float), v["c"][d].astype(float),
                             lengths or [T] * B, d > 0 or direction == "reverse")
        for all_of, one in zip((y, hs, cs), made):
            all_of.append(one.astype(np.float32))
    y, hs, cs = np.stack(y, 1), np.stack(hs), np.stack(cs)
    if layout:
        x, y = x.swapaxes(0, 1), y.transpose(2, 0, 1, 3)
        hs, cs, v["h"], v["c"] = (a.swapaxes(0, 1) for a in (hs, cs, v["h"], v["c"]))
    names = "x W R B L h c P" if full else "x W R _ L"
    names = names if lengths else names.replace("L", "_")
    names = names if op == "LSTM" else names.replace(" c P", "")
    used = {k: v[k] for k in names.split() if k in v}
    weights = [const(k, a) for k, a in used.items()] if known else []
    weights += [const("L", lengths, np.int32)] if lengths else []
    outputs = {"y": y, "yh": hs, "yc": cs}
    if op != "LSTM":
        del outputs["yc"]
    attributes = dict(attributes, hidden_size=H, direction=direction, layout=layout)
    f.add("%s_%s" % (op.lower(), name), 14,
          [node(op, names, " ".join(outputs), **attributes)],
          {"x": x, **({} if known else used)}, outputs, weights)


def recurrents(f):
    for op in GATES:
        recurrent(f, op, "forward", "forward")
        recurrent(f, op, "plain", "reverse", full=False)
        recurrent(f, op, "lengths", "reverse", lengths=[4, 1, 2])
        recurrent(f, op, "both", "bidirectional", lengths=[2, 4, 3], known=False)
        recurrent(f, op, "batches", "bidirectional", layout=1)
        recurrent(f, op, "real", "bidirectional", size=REAL)
    recurrent(f, "GRU", "before", "bidirectional", linear_before_reset=1)
    recurrent(f, "RNN", "relu", "bidirectional", activations=["Relu", "Tanh"])


def norms(f):
    rng = np.random.default_rng(7)
    x = rng.uniform(-2, 2, (2, 6, 3, 4)).astype(np.float32)
    apart = x.astype(float).reshape(2, 3, -1)
    h = (apart - apart.mean(2, keepdims=True)) / np.sqrt(apart.var(2, keepdims=True) + 0.01)
    for opset, n in ((18, 3), (20, 3), (21, 6)):
        scale, bias = (rng.uniform(-2, 2, n).astype(np.float32) for _ in range(2))
        wide = [np.repeat(a, 6 // n).reshape(6, 1, 1) for a in (scale, bias)]
        f.add("group_norm_%d" % opset, opset,
              [node("GroupNormalization", "x scale bias", "y", num_groups=3, epsilon=0.01)],
              {"x": x, "scale": scale, "bias": bias},
              {"y": (h.reshape(x.shape) * wide[0] + wide[1]).astype(np.float32)})
    zero = x.copy()
    zero[0, 1] = 0
    for p in (1, 2):
        size = (np.abs(zero.astype(float)) ** p).sum(3, keepdims=True) ** (1 / p)
        f.add("lp_norm_zero_%d" % p, 13, [node("LpNormalization", "x", "y", axis=-1, p=p)], {"x": zero},
              {"y": (zero / np.where(size == 0, 1, size)).astype(np.float32)})
    scale = rng.uniform(-2, 2, (3, 4)).astype(np.float32)
    rms = np.sqrt((x.astype(float) ** 2).mean((2, 3), keepdims=True) + 1e-5)
    f.add("rms_norm", 23, [node("RMSNormalization", "x scale", "y", axis=-2)],
          {"x": x, "scale": scale}, {"y": (x / rms * scale).astype(np.float32)})


def batch_norm_inputs(rng, dtype, dtype_of_scale, dtype_of_mean):
    """Returns inputs of BatchNormalization, in the types of X, of scale and B, and of mean and var."""
    values = {"x": (rng.uniform(-2, 2, (2, 6, 3, 4)), dtype), "s": (rng.uniform(-2, 2, 6), dtype_of_scale),
              "b": (rng.uniform(-2, 2, 6), dtype_of_scale), "m": (rng.uniform(-1, 1, 6), dtype_of_mean),
              "v": (rng.uniform(0.5, 2, 6), dtype_of_mean)}
    return {name: a.astype(kind) for name, (a, kind) in values.items()}


def batch_norms(f):
    """One type for all inputs, as opsets 7 to 14 require, and different types from 15 on."""
    rng = np.random.default_rng(11)
    half, single, double = np.float16, np.float32, np.float64
    for opset, types in ((7, (half,) * 3), (9, (half,) * 3), (13, (half,) * 3), (14, (half,) * 3), (14, (half, half, single)),
                         (15, (half, single, single)), (15, (half, single, half)), (15, (single, half, half)),
                         (15, (double, single, single)), (9, (double,) * 3)):
        name = "batch_norm_%d_%s" % (opset, "_".join("f%d" % (8 * np.dtype(t).itemsize) for t in types))
        given = batch_norm_inputs(rng, *types)
        x, s, b, m, v = (a.astype(float) for a in given.values())
        wide = [a.reshape(6, 1, 1) for a in (s, b, m, v)]
        y = (x - wide[2]) / np.sqrt(wide[3] + 0.01) * wide[0] + wide[1]
        f.add(name, opset, [node("BatchNormalization", "x s b m v", "y", epsilon=0.01)], given, {"y": y.astype(types[0])})
        weights = [const(n, given[n], given[n].dtype) for n in "sbmv"]
        f.add(name + "_weights", opset, [node("BatchNormalization", "x s b m v", "y", epsilon=0.01)], {"x": given["x"]},
              {"y": y.astype(types[0])}, weights)
    given = batch_norm_inputs(rng, half, half, single)
    x, s, b, m, v = (a.astype(float) for a in given.values())
    mean, var = x.mean((0, 2, 3)), x.var((0, 2, 3))
    y = (x - mean.reshape(6, 1, 1)) / np.sqrt(var.reshape(6, 1, 1) + 0.01) * s.reshape(6, 1, 1) + b.reshape(6, 1, 1)
    for kind in (half, single):
        given = dict(given, m=m.astype(kind), v=v.astype(kind))
        f.add("batch_norm_train_f%d" % (8 * np.dtype(kind).itemsize), 14,
              [node("BatchNormalization", "x s b m v", "y mean var", epsilon=0.01, training_mode=1)], given,
              {"y": y.astype(half), "mean": (0.9 * m + 0.1 * mean).astype(kind), "var": (0.9 * v + 0.1 * var).astype(kind)})
    bf16 = TensorProto.BFLOAT16
    x = rng.integers(-8, 8, (2, 2, 3)).astype(single) # bf16 represents these numbers exactly
    scale, bias, mean, var = (np.array(a, single) for a in ((2, -1), (3, 0.5), (1, -2), (4, 0.25)))
    y = (x - mean[:, None]) / np.sqrt(var[:, None]) * scale[:, None] + bias[:, None]
    f.add("batch_norm_bf16", 14,
          [node("Cast", n, n + "h", to=bf16) for n in "xsbmv"]
          + [node("BatchNormalization", "xh sh bh mh vh", "yh", epsilon=1e-12), node("Cast", "yh", "y", to=TensorProto.FLOAT)],
          {"x": x, "s": scale, "b": bias, "m": mean, "v": var}, {"y": y})


def half_norms(f):
    """Tests norms of half types, with the types that ONNX declares for their other ports."""
    rng = np.random.default_rng(13)
    half, single = np.float16, np.float32
    x = rng.uniform(-2, 2, (2, 6, 3, 4)).astype(half)
    s, b = (rng.uniform(-2, 2, 6).astype(half) for _ in range(2))
    ws, wb = (a.astype(float).reshape(6, 1, 1) for a in (s, b))
    wide = x.astype(float)

    def normal(axes, shape=x.shape):
        a = wide.reshape(shape)
        return ((a - a.mean(axes, keepdims=True)) / np.sqrt(a.var(axes, keepdims=True) + 0.01)).reshape(x.shape)

    f.add("instance_norm_f16", 6, [node("InstanceNormalization", "x s b", "y", epsilon=0.01)], {"x": x, "s": s, "b": b},
          {"y": (normal((2, 3)) * ws + wb).astype(half)})
    f.add("group_norm_f16", 21, [node("GroupNormalization", "x s b", "y", num_groups=3, epsilon=0.01)],
          {"x": x, "s": s, "b": b}, {"y": (normal(2, (2, 3, 24)) * ws + wb).astype(half)})
    ls, lb = (rng.uniform(-2, 2, 4).astype(half) for _ in range(2))
    statistics = {"mean": wide.mean(3, keepdims=True), "inv": 1 / np.sqrt(wide.var(3, keepdims=True) + 0.01)}
    f.add("layer_norm_f16", 17, [node("LayerNormalization", "x s b", "y mean inv", epsilon=0.01)], {"x": x, "s": ls, "b": lb},
          {"y": (normal(3) * ls.astype(float) + lb.astype(float)).astype(half),
           **{n: a.astype(single) for n, a in statistics.items()}})
    f.add("layer_norm_f64", 17, [node("LayerNormalization", "x s b", "y mean inv", epsilon=0.01)],
          {"x": wide, "s": ls.astype(float), "b": lb.astype(float)},
          {"y": normal(3) * ls.astype(float) + lb.astype(float), **{n: a.astype(single) for n, a in statistics.items()}})
    f.add("group_norm_18_f16", 18, [node("GroupNormalization", "x s b", "y", num_groups=6, epsilon=0.01)],
          {"x": x, "s": s, "b": b}, {"y": (normal((2, 3)) * ws + wb).astype(half)})
    f.add("lp_norm_f16", 1, [node("LpNormalization", "x", "y", axis=2)], {"x": x},
          {"y": (wide / np.sqrt((wide ** 2).sum(2, keepdims=True))).astype(half)})
    near = sum(np.pad(wide ** 2, ((0, 0), (1, 1), (0, 0), (0, 0)))[:, i:i + 6] for i in range(3))
    f.add("lrn_f16", 1, [node("LRN", "x", "y", size=3, alpha=0.3, beta=0.5)], {"x": x},
          {"y": (wide / np.sqrt(1 + 0.1 * near)).astype(half)})
    f.add("layer_norm_f16_stash", 17, [node("LayerNormalization", "x s b", "y mean", epsilon=0.01, stash_type=1)],
          {"x": x, "s": ls, "b": lb},
          {"y": (normal(3) * ls.astype(float) + lb.astype(float)).astype(half), "mean": statistics["mean"].astype(single)})
    f.add("mean_variance_f16", 13, [node("MeanVarianceNormalization", "x", "y")], {"x": x},
          {"y": ((wide - wide.mean((0, 2, 3), keepdims=True)) / wide.std((0, 2, 3), keepdims=True)).astype(half)})
    rms = wide / np.sqrt((wide ** 2).mean(3, keepdims=True) + 1e-5)
    for kind in (half, single):
        f.add("rms_norm_f16_f%d" % (8 * np.dtype(kind).itemsize), 23, [node("RMSNormalization", "x s", "y")],
              {"x": x, "s": ls.astype(kind)}, {"y": (rms * ls.astype(float)).astype(kind)})


def bf16_norms(f):
    """Tests norms of bf16 between casts. The inputs are exact in bf16, and the expected outputs are rounded to
    it."""
    bf16, single = TensorProto.BFLOAT16, np.float32
    rng = np.random.default_rng(17)
    x, s, b = (rng.integers(-64, 64, shape).astype(single) / 16 for shape in ((2, 4, 3, 5), 4, 4))
    ls = rng.integers(-64, 64, 5).astype(single) / 16
    wide, ws, wb = x.astype(float), s.reshape(4, 1, 1), b.reshape(4, 1, 1)

    def normal(axes, shape=x.shape):
        a = wide.reshape(shape)
        return ((a - a.mean(axes, keepdims=True)) / np.sqrt(a.var(axes, keepdims=True) + 0.01)).reshape(x.shape)

    near = sum(np.pad(wide ** 2, ((0, 0), (1, 1), (0, 0), (0, 0)))[:, i:i + 4] for i in range(3))
    tests = {
        "instance": (22, "InstanceNormalization", {"s": s, "b": b}, {"epsilon": 0.01}, normal((2, 3)) * ws + wb),
        "group": (21, "GroupNormalization", {"s": s, "b": b}, {"epsilon": 0.01, "num_groups": 2},
                  normal(2, (2, 2, 30)) * ws + wb),
        "layer": (17, "LayerNormalization", {"s": ls}, {"epsilon": 0.01}, normal(3) * ls),
        "rms": (23, "RMSNormalization", {"s": ls}, {"epsilon": 0.01},
                wide / np.sqrt((wide ** 2).mean(3, keepdims=True) + 0.01) * ls),
        "mean_variance": (13, "MeanVarianceNormalization", {}, {},
                          (wide - wide.mean((0, 2, 3), keepdims=True)) / wide.std((0, 2, 3), keepdims=True)),
        "lp": (22, "LpNormalization", {}, {"axis": 2}, wide / np.sqrt((wide ** 2).sum(2, keepdims=True))),
        "lrn": (13, "LRN", {}, {"size": 3, "alpha": 0.3, "beta": 0.5}, wide / np.sqrt(1 + 0.1 * near)),
    }
    for name, (opset, op, weights, attributes, y) in tests.items():
        given = {"x": x, **weights}
        f.add(name + "_norm_bf16", opset,
              [*(node("Cast", n, n + "h", to=bf16) for n in given),
               node(op, " ".join(n + "h" for n in given), "yh", **attributes), node("Cast", "yh", "y", to=bf16)],
              given, {"y": bf16_of(y)})


def attended(q, k, v, mask, scale):
    """Computes attention. mask: is added to the products. Each head of k and v belongs to equally many
    neighbouring heads of q. A query that sees no key gives 0."""
    k, v = (np.repeat(a.astype(float), q.shape[1] // a.shape[1], 1) for a in (k, v))
    s = scale * (q @ k.swapaxes(2, 3)) + mask
    most = s.max(3, keepdims=True)
    e = np.exp(s - np.where(np.isinf(most), 0, most))
    total = e.sum(3, keepdims=True)
    return (e / np.where(total == 0, 1, total) @ v).astype(q.dtype)


def causal_bias(rows, columns, past):
    """Query i of this call comes after `past` keys: it sees key j up to i + past."""
    return np.where(np.arange(columns) <= np.arange(rows)[:, None] + past, 0, -np.inf)


def attention_plain(f, q, k, v, added, see):
    """Tests calls without a past: query i sees key j up to i, for any number of keys."""
    bias = causal_bias(3, 5, 0)
    usual = 8 ** -0.5
    f.add("attention_mask", 23, [node("Attention", "q k v m", "y", scale=0.7)],
          {"q": q, "k": k, "v": v, "m": added}, {"y": attended(q, k, v, added, 0.7)})
    f.add("attention_causal", 23, [node("Attention", "q k v", "y", is_causal=1)],
          {"q": q, "k": k[:, :, :3], "v": v[:, :, :3]},
          {"y": attended(q, k[:, :, :3], v[:, :, :3], bias[:, :3], usual)})
    f.add("attention_fewer_keys", 23, [node("Attention", "q k v", "y", is_causal=1)],
          {"q": q, "k": k[:, :, :2], "v": v[:, :, :2]},
          {"y": attended(q, k[:, :, :2], v[:, :, :2], bias[:, :2], usual)})
    for name, mask, bias_of_mask in (("bool", see, np.where(see, 0, -np.inf)), ("float", added, added),
                                     ("row", added[:, :, :1], added[:, :, :1])):
        f.add("attention_causal_%s" % name, 23, [node("Attention", "q k v m", "y", is_causal=1)],
              {"q": q, "k": k, "v": v, "m": mask}, {"y": attended(q, k, v, bias + bias_of_mask, usual)})
    hidden = see.copy()
    hidden[1] = False
    for name, mask in (("bool", hidden), ("float", np.where(hidden, np.float32(0), np.float32(-np.inf)))):
        f.add("attention_hidden_%s" % name, 23, [node("Attention", "q k v m", "y")],
              {"q": q, "k": k, "v": v, "m": mask},
              {"y": attended(q, k, v, np.where(hidden, 0, -np.inf), usual)})


def attention_short(f, q, k, v, added, see):
    """Tests masks with fewer keys than k: from opset 24 on the other keys are not visible, also beside a mask of one
    key. In opset 23 an extent of 1 is a value for all keys."""
    usual = 8 ** -0.5
    for keys in (1, 2, 3):
        for name, mask, bias in (("bool", see[:, :keys], np.where(see, 0, -np.inf)), ("float", added[..., :keys], added)):
            hidden = np.where(np.arange(5) < keys, bias, -np.inf)
            f.add("attention_24_%s_%d" % (name, keys), 24, [node("Attention", "q k v m", "y")],
                  {"q": q, "k": k, "v": v, "m": mask}, {"y": attended(q, k, v, hidden, usual)})
    f.add("attention_23_one", 23, [node("Attention", "q k v m", "y")], {"q": q, "k": k, "v": v, "m": added[..., :1]},
          {"y": attended(q, k, v, added[..., :1], usual)})


def attention_past(f, q, k, v, pk, pv, rng):
    """Tests calls with a past: the keys of earlier calls come first."""
    all_k, all_v = np.concatenate([pk, k], 2), np.concatenate([pv, v], 2)
    usual = 8 ** -0.5
    added = rng.uniform(-1, 1, (2, 4, 3, 9)).astype(np.float32)
    see = rng.uniform(0, 1, (3, 9)) < 0.7
    past = {"q": q, "k": k, "v": v, "pk": pk, "pv": pv}
    cache = {"yk": all_k, "yv": all_v}
    bias = causal_bias(3, 9, 4)
    f.add("attention_past", 23, [node("Attention", "q k v _ pk pv", "y yk yv", is_causal=1)], past,
          {"y": attended(q, all_k, all_v, bias, usual), **cache})
    for name, mask, bias_of_mask in (("bool", see, np.where(see, 0, -np.inf)), ("float", added, added)):
        f.add("attention_past_%s" % name, 23, [node("Attention", "q k v m pk pv", "y yk yv", is_causal=1)],
              {"q": q, "k": k, "v": v, "m": mask, "pk": pk, "pv": pv},
              {"y": attended(q, all_k, all_v, bias + bias_of_mask, usual), **cache})
    for rows in (1, 3): # as many new keys as queries: decoder steps of one and of three tokens
        new_k, new_v, new_q = k[:, :, :rows], v[:, :, :rows], q[:, :, :rows]
        all_k, all_v = np.concatenate([pk, new_k], 2), np.concatenate([pv, new_v], 2)
        f.add("attention_decode_%d" % rows, 23, [node("Attention", "q k v _ pk pv", "y yk yv", is_causal=1)],
              {"q": new_q, "k": new_k, "v": new_v, "pk": pk, "pv": pv},
              {"y": attended(new_q, all_k, all_v, causal_bias(rows, 4 + rows, 4), usual), "yk": all_k, "yv": all_v})


def attention(f):
    rng = np.random.default_rng(9)
    q, k, v, pk, pv = (rng.uniform(-2, 2, shape).astype(np.float32) for shape in (
        (2, 4, 3, 8), (2, 2, 5, 8), (2, 2, 5, 6), (2, 2, 4, 8), (2, 2, 4, 6)))
    see = np.array([[1, 0, 1, 1, 0], [1, 1, 0, 1, 1], [1, 0, 0, 0, 1]], bool)
    added = rng.uniform(-1, 1, (2, 1, 3, 5)).astype(np.float32)
    attention_plain(f, q, k, v, added, see)
    attention_past(f, q, k, v, pk, pv, rng)
    attention_short(f, q, k, v, added, see)
    flat = {n: a.swapaxes(1, 2).reshape(2, a.shape[2], -1)
            for n, a in (("q", q), ("k", k), ("v", v),
                         ("y", attended(q, k, v, 0, 8 ** -0.5)))}
    y = flat.pop("y")
    f.add("attention_flat", 23, [node("Attention", "q k v", "y", q_num_heads=4, kv_num_heads=2)],
          flat, {"y": y})
    half = [a.astype(np.float16) for a in (q, k, v, added)]
    bias = half[3].astype(float) + causal_bias(3, 5, 0)
    f.add("attention_half", 23, [node("Attention", "q k v m", "y", is_causal=1)],
          dict(zip("qkvm", half)), {"y": attended(*half[:3], bias, 8 ** -0.5)})


def add_all(f):
    attention(f)
    recurrents(f)
    norms(f)
    batch_norms(f)
    half_norms(f)
    bf16_norms(f)
