# SPDX-License-Identifier: Apache-2.0
"""Tests operators of the domain com.microsoft, which optimisers of models write."""
import math

import numpy as np

from heads import attention, flat, rotated
from kit import node

DOMAIN = "com.microsoft"
B, L, HEADS, D = 2, 3, 4, 8


def add(f, name, op, inputs, outputs, **attributes):
    """inputs, outputs: the value of each port; None: the node does not have it."""
    ports = [" ".join(f"{letter}{n}" if v is not None else "_" for n, v in enumerate(values))
             for letter, values in (("i", inputs), ("o", outputs))]
    given, made = ({f"{letter}{n}": v for n, v in enumerate(values) if v is not None}
                   for letter, values in (("i", inputs), ("o", outputs)))
    f.add("ms_" + name, 1, [node(op, *ports, domain=DOMAIN, **attributes)], given, made, domain=DOMAIN)


def split(x, heads):
    return x.reshape(*x.shape[:2], heads, -1).swapaxes(1, 2)


def small(f, rng):
    a, b, x, bias = (rng.uniform(-2, 2, s).astype(np.float32) for s in ((2, 3, 4), (2, 5, 3), (2, 3, 8), 8))
    add(f, "matmul", "FusedMatMul", [a, b], [0.25 * np.einsum("bij,bki->bjk", a, b)], transA=1, transB=1, alpha=0.25)
    add(f, "matmul_vector", "FusedMatMul", [a[0, 0], a[0]], [a[0] @ a[0, 0]], transA=1, transB=1)

    def exact(v):
        return (v / 2 * (1 + np.vectorize(math.erf)(v / math.sqrt(2)))).astype(np.float32)

    def fast(v):
        return (v / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) * (v + 0.044715 * v ** 3)))).astype(np.float32)
    add(f, "gelu", "Gelu", [x], [exact(x)])
    add(f, "bias_gelu", "BiasGelu", [x, bias], [exact(x + bias)])
    add(f, "fast_gelu", "FastGelu", [x], [fast(x)])
    add(f, "fast_gelu_bias", "FastGelu", [x, bias], [fast(x + bias)])
    for name, more in (("", {}), ("_alpha", {"alpha": 0.5})):
        add(f, "quick_gelu" + name, "QuickGelu", [x], [x / (1 + np.exp(-more.get("alpha", 1.702) * x))], **more)


def skips(f, rng):
    x, skip, gamma, beta, bias = (rng.uniform(-2, 2, s).astype(np.float32) for s in ((2, 3, 8), (2, 3, 8), 8, 8, 8))

    def layer(v, scale, shift, epsilon):
        v = v.astype(float)
        return ((v - v.mean(-1, keepdims=True)) / np.sqrt(v.var(-1, keepdims=True) + epsilon) * scale + shift).astype(x.dtype)

    def rms(v, scale, epsilon):
        v = v.astype(float)
        return (v / np.sqrt((v * v).mean(-1, keepdims=True) + epsilon) * scale).astype(x.dtype)
    both = x + skip + bias
    add(f, "skip_layer_norm", "SkipLayerNormalization", [x, skip, gamma, beta, bias],
        [layer(both, gamma, beta, 0.01), None, None, both], epsilon=0.01)
    add(f, "skip_layer_norm_plain", "SkipLayerNormalization", [x, skip[0], gamma], [layer(x + skip[0], gamma, 0, 1e-12)])
    add(f, "skip_rms_norm", "SkipSimplifiedLayerNormalization", [x, skip, gamma, bias], [rms(both, gamma, 0.01), None, None, both],
        epsilon=0.01)
    add(f, "skip_rms_norm_plain", "SkipSimplifiedLayerNormalization", [x, skip, gamma], [rms(x + skip, gamma, 1e-12)])
    for kind in (np.float32, np.float16): # an operator of ONNX Runtime in the domain of ONNX
        f.add("ms_rms_norm_f%d" % (8 * np.dtype(kind).itemsize), 17, [node("SimplifiedLayerNormalization", "x s", "y", epsilon=0.01)],
              {"x": x.astype(kind), "s": gamma.astype(kind)},
              {"y": rms(x.astype(kind).astype(float), gamma.astype(kind).astype(float), 0.01).astype(kind)})
    half = [a.astype(np.float16) for a in (x, skip, gamma, bias)]
    wide = sum(half[i].astype(float) for i in (0, 1, 3))
    add(f, "skip_rms_norm_f16", "SkipSimplifiedLayerNormalization", half,
        [rms(wide, half[2].astype(float), 0.01).astype(np.float16), None, None, wide.astype(np.float16)], epsilon=0.01)


def rotary(f, rng):
    x = rng.uniform(-2, 2, (B, HEADS, L, D)).astype(np.float32)
    angle = rng.uniform(-3, 3, (9, 4)).astype(np.float32)
    c, s = np.cos(angle), np.sin(angle)
    ids, first = np.array([[5, 1, 0], [6, 7, 8]]), np.array([4])
    run = np.arange(4, 4 + L)[None].repeat(B, 0)
    add(f, "rotary", "RotaryEmbedding", [x, ids, c, s], [rotated(x, c[ids], s[ids])])
    add(f, "rotary_pairs", "RotaryEmbedding", [flat(x), first, c, s], [flat(rotated(x, c[run], s[run], True))], interleaved=1)
    add(f, "rotary_part", "RotaryEmbedding", [flat(x), first, c[:, :3], s[:, :3]], [flat(rotated(x, c[run][..., :3], s[run][..., :3]))],
        num_heads=HEADS, rotary_embedding_dim=6)


def multi_head(f, rng):
    q, k, v, pk, pv = (rng.uniform(-2, 2, s).astype(np.float32) for s in (
        (B, HEADS, L, D), (B, HEADS, 5, D), (B, HEADS, 5, 6), (B, HEADS, 4, D), (B, HEADS, 4, 6)))
    see, flats = np.ones((B, HEADS, L, 5), bool), [flat(a) for a in (q, k, v)]
    bias = rng.uniform(-1, 1, HEADS * (D + D + 6)).astype(np.float32)
    parts = np.split(bias, [HEADS * D, 2 * HEADS * D])
    y = attention(*(split(a + b, HEADS) for a, b in zip(flats, parts)), see, scale=0.3)[0]
    add(f, "attention_bias", "MultiHeadAttention", [*flats, bias], [flat(y)], num_heads=HEADS, scale=0.3)
    keys = np.array([[1, 0, 1, 1, 0], [0] * 5], np.int32)
    rows = rng.integers(0, 2, (B, L, 5)).astype(np.int32)
    added = rng.uniform(-1, 1, (1, HEADS, L, 5)).astype(np.float32)
    for name, mask, wide in (("keys", keys, keys[:, None, None]), ("rows", rows, rows[:, None]),
                             ("ends", np.array([2, 5], np.int32), np.arange(5) < np.array([2, 5])[:, None, None, None])):
        y = attention(q, k, v, see, np.where(wide, 0, -3.0) + added)[0]
        add(f, "attention_" + name, "MultiHeadAttention", [*flats, None, mask, added], [flat(y)], num_heads=HEADS,
            mask_filter_value=-3.0)
    y = attention(q, k, v, np.arange(5) <= np.arange(L)[:, None] + see * 0)[0]
    add(f, "attention_one_way", "MultiHeadAttention", flats, [flat(y)], num_heads=HEADS, unidirectional=1)
    new = [a[:, :, :L] for a in (k, v)]
    all_k, all_v = np.concatenate([pk, new[0]], 2), np.concatenate([pv, new[1]], 2)
    y = attention(q, all_k, all_v, np.broadcast_to(np.arange(7) <= np.arange(L)[:, None] + 4, (B, HEADS, L, 7)))[0]
    add(f, "attention_past", "MultiHeadAttention", [flat(q), *map(flat, new), None, None, None, pk, pv], [flat(y), all_k, all_v],
        num_heads=HEADS, unidirectional=1)
    add(f, "attention_encoder", "MultiHeadAttention", [flats[0], k, v], [flat(attention(q, k, v, see)[0])], num_heads=HEADS)


def grouped_case(f, rng, name, length, past, starts, packed=False, rotary=0, window=-1, softcap=0.0, bias=False):
    """One call of 2 heads of keys. past: positions of the past; starts: the position of the first new token of
    each batch."""
    batch, kv = len(starts), 2
    total, room = max(starts) + length, max(past, max(starts) + length)
    q, k, v, pk, pv = (rng.uniform(-2, 2, (batch, h, n, D)).astype(np.float32) for h, n in (
        (HEADS, length), (kv, length), (kv, length), (kv, past), (kv, past)))
    flats = [flat(a) for a in (q, k, v)]
    inputs = [np.concatenate(flats, 2), None, None] if packed else flats
    inputs += [pk, pv, np.array(starts, np.int32) + length - 1, np.array(total, np.int32)]
    more, added = {}, 0
    if rotary:
        angle = rng.uniform(-3, 3, (16, rotary)).astype(np.float32)
        c, s = np.cos(angle), np.sin(angle)
        at = np.array(starts)[:, None] + np.arange(length)
        q, k = (rotated(a, c[at], s[at], packed) for a in (q, k))
        inputs += [c, s]
        more = {"do_rotary": 1, "rotary_interleaved": int(packed)}
    if bias:
        added = rng.uniform(-1, 1, (batch, 1, length, total)).astype(np.float32)
        inputs += [None] * (10 - len(inputs)) + [added]
        added = np.pad(added, ((0, 0), (0, 0), (0, 0), (0, room - total)))
    all_k, all_v = (np.pad(a, ((0, 0), (0, 0), (0, room - past), (0, 0))) for a in (pk, pv))
    for b, start in enumerate(starts):
        all_k[b, :, start:start + length], all_v[b, :, start:start + length] = k[b], v[b]
    position = (np.array(starts)[:, None] + np.arange(length))[:, None, :, None]
    see = (np.arange(room) <= position) & (np.arange(room) > position - (window if window > 0 else room))
    y = attention(q, all_k, all_v, np.broadcast_to(see, (batch, HEADS, length, room)), added, softcap=softcap)[0]
    add(f, "group_" + name, "GroupQueryAttention", inputs, [flat(y), all_k, all_v], num_heads=HEADS, kv_num_heads=kv,
        local_window_size=window, softcap=softcap, **more)


def grouped(f, rng):
    grouped_case(f, rng, "prompt", 5, 0, [0], rotary=4)
    grouped_case(f, rng, "prompts", 5, 0, [0, 0], packed=True, rotary=3)
    grouped_case(f, rng, "prompt_window", 5, 0, [0], window=2, softcap=2.0)
    grouped_case(f, rng, "decode", 1, 6, [6], rotary=4)
    grouped_case(f, rng, "chunk", 3, 6, [6], rotary=4, window=3, bias=True)
    grouped_case(f, rng, "decode_lengths", 1, 6, [6, 3, 0], rotary=2, softcap=2.0)
    grouped_case(f, rng, "decode_lengths_window", 1, 6, [6, 2], packed=True, window=3, bias=True)
    grouped_case(f, rng, "buffer", 1, 12, [6], rotary=4, bias=True)
    grouped_case(f, rng, "buffer_prompt", 3, 12, [0, 0])
    grouped_case(f, rng, "buffer_lengths", 2, 12, [6, 4], rotary=4)


def add_all(f):
    rng = np.random.default_rng(31)
    for family in (small, skips, rotary, multi_head, grouped):
        family(f, rng)
