# SPDX-License-Identifier: Apache-2.0
"""Tests nodes with attention heads: rotary embeddings, caches, and attention whose products are capped, given as
a result or restricted to a window. The expected outputs are computed with loops over the heads or the keys."""
import numpy as np

from kit import node

B, HEADS, L, D = 2, 3, 4, 8


def rotated(x, cos, sin, interleaved=False):
    """Rotates each head of x (B heads L D). cos, sin: B L H; the first 2 H elements of a head are rotated."""
    y = x.astype(float)
    half = cos.shape[-1]
    for i in range(half):
        a, b = (2 * i, 2 * i + 1) if interleaved else (i, i + half)
        c, s = cos[:, None, :, i], sin[:, None, :, i]
        y[..., a], y[..., b] = x[..., a] * c - x[..., b] * s, x[..., a] * s + x[..., b] * c
    return y.astype(x.dtype)


def flat(x):
    """B heads L D to B L (heads D)."""
    return x.swapaxes(1, 2).reshape(x.shape[0], x.shape[2], -1)


def rotary(f):
    rng = np.random.default_rng(21)
    x = rng.uniform(-2, 2, (B, HEADS, L, D)).astype(np.float32)
    ids = np.array([[5, 6, 7, 8], [0, 3, 1, 2]])
    for name, half, more in (("halves", 4, {}), ("pairs", 4, {"interleaved": 1}), ("part", 3, {"rotary_embedding_dim": 6}),
                             ("part_pairs", 2, {"rotary_embedding_dim": 4, "interleaved": 1})):
        angle = rng.uniform(-3, 3, (9, half)).astype(np.float32)
        c, s = np.cos(angle), np.sin(angle)
        y = rotated(x, c[ids], s[ids], "interleaved" in more)
        f.add("rotary_" + name, 23, [node("RotaryEmbedding", "x c s i", "y", **more)], {"x": x, "c": c, "s": s, "i": ids}, {"y": y})
        f.add("rotary_%s_flat" % name, 23, [node("RotaryEmbedding", "x c s", "y", num_heads=HEADS, **more)],
              {"x": flat(x), "c": c[ids], "s": s[ids]}, {"y": flat(y)})
    half = [a.astype(np.float16) for a in (x, c, s)]
    f.add("rotary_f16", 23, [node("RotaryEmbedding", "x c s i", "y", **more)], {**dict(zip("xcs", half)), "i": ids},
          {"y": rotated(half[0], half[1][ids].astype(float), half[2][ids].astype(float), True)})


def scattered(cache, update, at, axis, circular=False):
    y = np.moveaxis(cache, axis, 1).copy()
    for b, new in enumerate(np.moveaxis(update, axis, 1)):
        for j, slice_of in enumerate(new):
            y[b, (at[b] + j) % y.shape[1] if circular else at[b] + j] = slice_of
    return np.moveaxis(y, 1, axis)


def caches(f):
    rng = np.random.default_rng(22)
    cache, new = (rng.uniform(-2, 2, (2, 3, n, 4)).astype(np.float32) for n in (6, 2))
    zero, at = np.zeros(2, np.int64), np.array([4, 1])
    f.add("scatter_24_first", 24, [node("TensorScatter", "c n", "y")], {"c": cache, "n": new}, {"y": scattered(cache, new, zero, 2)})
    f.add("scatter_24_linear", 24, [node("TensorScatter", "c n i", "y", axis=-2)], {"c": cache, "n": new, "i": at},
          {"y": scattered(cache, new, at, 2)})
    f.add("scatter_24_circular", 24, [node("TensorScatter", "c n i", "y", mode="circular")], {"c": cache, "n": new, "i": at + 7},
          {"y": scattered(cache, new, at + 7, 2, True)})
    f.add("scatter_24_axis_bool", 24, [node("TensorScatter", "c n i", "y", axis=1)],
          {"c": cache > 0, "n": new[:, :2].repeat(3, 2) > 0, "i": np.array([1, 0])},
          {"y": scattered(cache > 0, new[:, :2].repeat(3, 2) > 0, [1, 0], 1)})


def attention(q, k, v, see, added=0, scale=None, softcap=0):
    """Returns the result and the products: raw, capped, masked, and the probabilities. see: B heads L S."""
    k, v = (np.repeat(a.astype(float), q.shape[1] // a.shape[1], 1) for a in (k, v))
    raw = np.einsum("bhld,bhsd->bhls", q.astype(float), k) * (scale or q.shape[3] ** -0.5)
    capped = softcap * np.tanh(raw / softcap) if softcap else raw
    masked = np.where(see, capped + added, -np.inf)
    p = np.zeros(masked.shape)
    for at in np.ndindex(masked.shape[:3]):
        seen = masked[at] > -np.inf
        if seen.any():
            e = np.exp(masked[at][seen] - masked[at][seen].max())
            p[at][seen] = e / e.sum()
    return [a.astype(q.dtype) for a in (p @ v, raw, capped, masked, p)]


def products(f):
    """Tests capped products, and products as a result, with 2 heads of queries for each head of keys."""
    rng = np.random.default_rng(23)
    q, k, v, pk, pv = (rng.uniform(-3, 3, s).astype(np.float32) for s in (
        (2, 4, 3, 8), (2, 2, 5, 8), (2, 2, 5, 6), (2, 2, 4, 8), (2, 2, 4, 6)))
    see = rng.uniform(0, 1, (2, 1, 3, 5)) < 0.6
    see[1, 0, 2] = False
    added = rng.uniform(-1, 1, (4, 3, 5)).astype(np.float32)
    all_seen = np.ones((2, 4, 3, 5), bool)
    given = {"q": q, "k": k, "v": v}
    for name, mask in (("none", None), ("bool", see), ("float", added)):
        more = {} if mask is None else {"m": mask}
        ins = "q k v m" if more else "q k v"
        y = attention(q, k, v, see if name == "bool" else all_seen, added if name == "float" else 0, softcap=2)
        f.add("attention_capped_" + name, 23, [node("Attention", ins, "y", softcap=2.0)], {**given, **more}, {"y": y[0]})
        for mode in range(4):
            f.add("attention_product_%s_%d" % (name, mode), 23,
                  [node("Attention", ins, "y _ _ p", softcap=2.0, qk_matmul_output_mode=mode)], {**given, **more},
                  {"y": y[0], "p": y[1 + mode]})
    all_k, all_v = np.concatenate([pk, k], 2), np.concatenate([pv, v], 2)
    causal = np.broadcast_to(np.arange(9) <= np.arange(3)[:, None] + 4, (2, 4, 3, 9))
    y = attention(q, all_k, all_v, causal, softcap=1.5, scale=0.25)
    f.add("attention_capped_past", 23,
          [node("Attention", "q k v _ pk pv", "y yk yv p", softcap=1.5, scale=0.25, is_causal=1, qk_matmul_output_mode=2)],
          {**given, "pk": pk, "pv": pv}, {"y": y[0], "yk": all_k, "yv": all_v, "p": y[3]})
    half = [a.astype(np.float16) for a in (q, k, v)]
    y = attention(*half, all_seen, softcap=2)
    f.add("attention_capped_f16", 23, [node("Attention", "q k v", "y", softcap=2.0)], dict(zip("qkv", half)), {"y": y[0]})


def windows(f):
    """Tests bounds of the keys that a query sees: windows, and numbers of keys that are no padding."""
    rng = np.random.default_rng(24)
    q, k, v = (rng.uniform(-3, 3, s).astype(np.float32) for s in ((2, 4, 3, 8), (2, 2, 7, 8), (2, 2, 7, 6)))
    short = rng.uniform(-1, 1, (3, 6)).astype(np.float32)
    short_bias = np.concatenate([short, np.full((3, 1), -np.inf)], 1)
    i, j = np.arange(3)[:, None], np.arange(7)
    ends = np.array([6, 2])
    position = i + (ends - 3)[:, None, None, None]
    inside = j < ends[:, None, None, None]

    def add(name, opset, ins, see, added=0, more=None, keys=7, **attributes):
        """With qk_matmul_output_mode the products are a result too."""
        see = np.broadcast_to(see, (2, 4, 3, keys)) & np.isfinite(added)
        given = {"q": q, "k": k[:, :, :keys], "v": v[:, :, :keys], **(more or {})}
        y = attention(q, given["k"], given["v"], see, np.where(np.isfinite(added), added, 0),
                      softcap=abs(attributes.get("softcap", 0)))
        mode = attributes.get("qk_matmul_output_mode")
        f.add("attention_" + name, opset, [node("Attention", ins, "y" if mode is None else "y _ _ p", **attributes)], given,
              {"y": y[0]} if mode is None else {"y": y[0], "p": y[1 + mode]})

    add("24_ends", 24, "q k v _ _ _ n", inside, more={"n": ends})
    add("24_ends_causal", 24, "q k v _ _ _ n", inside & (j <= position), more={"n": ends}, is_causal=1)
    add("24_short_mask", 24, "q k v m _ _ n", inside, short_bias, more={"m": short, "n": ends})
    add("24_short_float", 24, "q k v m", np.ones((3, 7), bool), short_bias, more={"m": short})
    add("24_short_bool", 24, "q k v m", np.concatenate([short > 0, np.zeros((3, 1), bool)], 1), more={"m": short > 0})
    add("25_window", 25, "q k v", (j >= i - 1) & (j <= i + 2), left_window_size=1, right_window_size=2)
    add("25_window_causal", 25, "q k v", (j >= i - 1) & (j <= i), left_window_size=1, right_window_size=2, is_causal=1)
    add("25_window_ends", 25, "q k v _ _ _ n", inside & (j >= position - 2) & (j <= position + 1), more={"n": ends},
        left_window_size=2, right_window_size=1)
    add("24_ends_capped", 24, "q k v _ _ _ n", inside, more={"n": ends}, softcap=1.5)
    add("25_window_left", 25, "q k v", j >= i - 1, left_window_size=1)
    add("25_window_few_keys", 25, "q k v", (j >= i - 1)[:, :2], keys=2, left_window_size=1)
    add("25_window_few_keys_right", 25, "q k v", ((j >= i - 1) & (j <= i + 1))[:, :2], keys=2, left_window_size=1,
        right_window_size=1)
    add("25_window_capped", 25, "q k v", (j >= i - 1) & (j <= i), softcap=-2.5, left_window_size=1, is_causal=1)
    add("25_window_ends_mask", 25, "q k v m _ _ n", inside & (j >= position - 2) & (j <= position), short_bias,
        more={"m": short, "n": ends}, left_window_size=2, is_causal=1)
    for mode in (2, 3):
        add("25_product_window_%d" % mode, 25, "q k v", (j >= i - 1) & (j <= i + 2), left_window_size=1, right_window_size=2,
            qk_matmul_output_mode=mode)
        add("25_product_ends_%d" % mode, 25, "q k v _ _ _ n", inside & (j >= position - 2) & (j <= position + 1),
            more={"n": ends}, left_window_size=2, right_window_size=1, qk_matmul_output_mode=mode)


def add_all(f):
    rotary(f)
    caches(f)
    products(f)
    windows(f)
