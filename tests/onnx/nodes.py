# SPDX-License-Identifier: Apache-2.0
"""Tests models of one node: older versions of operators, other types, attributes beside the common ones. The
expected outputs are numpy's."""
import itertools

import numpy as np
from onnx import TensorProto

import kit
from kit import node

rng = np.random.default_rng(7)
CASES = []
E4M3, E4M3FNUZ, E5M2, E5M2FNUZ, E8M0 = 17, 18, 19, 20, 24  # types that this version of the onnx package lacks


def case(name, op, opset, inputs, outputs, domain="", **attributes):
    """inputs, outputs: arrays; None is an absent input, or an output that the node does not name."""
    CASES.append((name, op, opset, inputs, outputs, domain, attributes))


def values(*shape, dtype=np.float32):
    if np.issubdtype(dtype, np.integer):
        return rng.integers(1, 20, shape).astype(dtype)
    return rng.standard_normal(shape).astype(dtype)


def softmax(x, axis):
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


def reductions():
    x = values(3, 4, 5)
    i = values(3, 4, 5, dtype=np.int64)
    both = (0, 2)
    case("reduce_sum_1_axes", "ReduceSum", 1, [x], [x.sum(both)], axes=[0, 2], keepdims=0)
    case("reduce_sum_11_negative", "ReduceSum", 11, [x], [x.sum(2, keepdims=True)], axes=[-1])
    case("reduce_mean_18_input", "ReduceMean", 18, [x, np.array([1])], [x.mean(1, keepdims=True)])
    case("reduce_max_18_all", "ReduceMax", 18, [x], [x.max(keepdims=True)])
    case("reduce_min_18_noop", "ReduceMin", 18, [x], [x], noop_with_empty_axes=1)
    case("reduce_l2_18_noop", "ReduceL2", 18, [x, np.zeros(0, np.int64)], [np.abs(x)],
         noop_with_empty_axes=1)
    case("reduce_sum_square_18_noop", "ReduceSumSquare", 18, [x], [x * x], noop_with_empty_axes=1)
    case("reduce_mean_i64", "ReduceMean", 13, [i], [np.trunc(i.mean(1)).astype(np.int64)],
         axes=[1], keepdims=0)
    case("reduce_l1_u32", "ReduceL1", 13, [i.astype(np.uint32)],
         [i.sum(0, keepdims=True).astype(np.uint32)], axes=[0])
    case("reduce_l1_i32", "ReduceL1", 13, [-i.astype(np.int32)], [i.sum((1, 2)).astype(np.int32)],
         axes=[1, 2], keepdims=0)
    case("reduce_l2_i64", "ReduceL2", 13, [i], [np.sqrt((i * i).sum(2)).astype(np.int64)],
         axes=[2], keepdims=0)
    case("reduce_sum_square_f64", "ReduceSumSquare", 13, [x.astype(np.float64)],
         [(x.astype(np.float64) ** 2).sum(keepdims=True)])
    case("reduce_max_u8", "ReduceMax", 12, [i.astype(np.uint8)],
         [i.astype(np.uint8).max(1, keepdims=True)], axes=[1])
    nothing = np.zeros((2, 0, 3), np.float32)
    for op, best in (("ReduceMax", -np.inf), ("ReduceMin", np.inf)):
        name = "_".join(("reduce", op[6:].lower(), "empty"))
        full = np.full((2, 3), best, np.float32)
        case(name, op, 20, [nothing, np.array([1])], [full[:, None]])
        case(name + "_f16", op, 13, [nothing.astype(np.float16)], [full[0, 0].astype(np.float16)], keepdims=0)
        case(name + "_two", op, 13, [nothing], [full[0]], axes=[-2, 0], keepdims=0)
        case(name + "_other_axis", op, 13, [nothing], [np.zeros((2, 0), np.float32)], axes=[2], keepdims=0)
        for kind in (np.int8, np.uint8, np.int64, np.uint64):
            limit = np.iinfo(kind).min if op == "ReduceMax" else np.iinfo(kind).max
            case("%s_%s" % (name, kind.__name__), op, 18, [nothing.astype(kind), np.array([1])],
                 [np.full((2, 1, 3), limit, kind)])
        case(name + "_bool", op, 20, [nothing > 0, np.array([1])], [np.full((2, 3), op == "ReduceMin")], keepdims=0)
    case("reduce_max_bool", "ReduceMax", 20, [x > 1, np.array([1])], [(x > 1).max(1)], keepdims=0)
    case("argmax_1", "ArgMax", 1, [x], [x.argmax(1)[:, None]], axis=1)
    case("argmin_12_last", "ArgMin", 12, [np.array([[1, 0, 0], [2, 3, 2]], np.int32)],
         [np.array([2, 2])], axis=-1, keepdims=0, select_last_index=1)


def lines():
    x = values(2, 3, 4)
    flat = x.reshape(2, 12)
    case("softmax_1", "Softmax", 1, [x], [softmax(flat, 1).reshape(x.shape)])
    case("softmax_11_axis_2", "Softmax", 11, [x], [softmax(x, 2)], axis=2)
    case("softmax_11_axis_0", "Softmax", 11, [x], [softmax(x.reshape(1, 24), 1).reshape(x.shape)],
         axis=0)
    case("log_softmax_11_negative", "LogSoftmax", 11, [x],
         [np.log(softmax(flat, 1)).reshape(x.shape)], axis=-2)
    hard = np.zeros((2, 12), np.float32)
    hard[range(2), flat.argmax(1)] = 1
    case("hardmax_1", "Hardmax", 1, [x], [hard.reshape(x.shape)])
    case("cumsum_i32_axis_input", "CumSum", 11, [np.arange(12, dtype=np.int32).reshape(3, 4),
                                                 np.array(-2, np.int32)],
         [np.arange(12, dtype=np.int32).reshape(3, 4).cumsum(0, dtype=np.int32)])
    order = np.argsort(-x, axis=2, kind="stable")[..., :2]
    top = np.take_along_axis(x, order, 2)
    case("topk_1", "TopK", 1, [x], [top, order], k=2)
    case("topk_10", "TopK", 10, [x, np.array([2])], [top, order])
    case("topk_11_values_only", "TopK", 11, [x, np.array([2])], [top])
    low = np.sort(x, axis=1)[:, :2]
    case("topk_11_smallest", "TopK", 11, [x, np.array([2])],
         [low, np.argsort(x, axis=1, kind="stable")[:, :2]], axis=1, largest=0)


def elementwise():
    x, y = values(3, 4), values(3, 4)
    case("swish_24", "Swish", 24, [x], [x / (1 + np.exp(-x))])
    case("swish_24_alpha", "Swish", 24, [x], [x / (1 + np.exp(-2.5 * x))], alpha=2.5)
    case("swiglu_28", "SwiGLU", 28, [x, y], [x / (1 + np.exp(-0.5 * x)) * y], alpha=0.5)
    i = np.arange(-6, 6, dtype=np.int32).reshape(3, 4)
    case("bit_cast_26_i32", "BitCast", 26, [i], [i.view(np.uint32)], to=TensorProto.UINT32)
    case("bit_cast_26_u8", "BitCast", 26, [i.astype(np.uint8)], [i.astype(np.int8)], to=TensorProto.INT8)
    wide = values(3, 4).astype(np.float64)
    case("bit_cast_26_f16", "BitCast", 26, [x.astype(np.float16)], [x.astype(np.float16).view(np.uint16)], to=TensorProto.UINT16)
    case("bit_cast_26_to_f32", "BitCast", 26, [x.view(np.int32)], [x], to=TensorProto.FLOAT)
    case("bit_cast_26_f64", "BitCast", 26, [wide], [wide.view(np.uint64)], to=TensorProto.UINT64)
    case("bit_cast_26_c64", "BitCast", 26, [wide], [wide.view(np.complex64)], to=TensorProto.COMPLEX64)
    case("bit_cast_26_to_bool", "BitCast", 26, [(x > 0).view(np.int8)], [x > 0], to=TensorProto.BOOL)
    case("bit_cast_26_bool", "BitCast", 26, [x > 0], [(x > 0).view(np.uint8)], to=TensorProto.UINT8)
    case("cumprod_26", "CumProd", 26, [x, np.array(1)], [x.cumprod(1)])
    before = np.concatenate([x[:, 1:], np.ones((3, 1), np.float32)], 1)
    case("cumprod_26_reverse_exclusive", "CumProd", 26, [x, np.array(-1, np.int32)],
         [before[:, ::-1].cumprod(1)[:, ::-1]], reverse=1, exclusive=1)


def zeros(folder):
    """Tests the sign of a remainder that is 0: its reciprocal is an infinity of the same sign."""
    x = np.array([6, -6, 0, -0.0, 5, -5], np.float32)
    for dtype in (np.float16, np.float32, np.float64):
        for divisor in (3, -3):
            y = np.full(1, divisor, dtype)
            rest = np.copysign(np.array([0, 0, 0, 0, 2, 1] if divisor > 0 else [0, 0, 0, 0, 1, 2], dtype), y)
            with np.errstate(divide="ignore"):
                folder.add(f"mod_sign_{y.itemsize}_{divisor}", 13, [node("Mod", "x y", "z"), node("Reciprocal", "z", "r")],
                           {"x": x.astype(dtype), "y": y}, {"r": 1 / rest})


def indices():
    x = values(3, 4)
    case("gather_1_scalar", "Gather", 1, [x, np.array(2, np.int32)], [x[:, 2]], axis=1)
    at = np.array([[0, 2], [-1, 1]])
    case("gather_nd_slices", "GatherND", 12, [x, np.array([[1], [-3]])], [x[[1, -3]]])
    case("scatter_9", "Scatter", 9, [x, at, np.full((2, 2), 9, np.float32)],
         [scattered(x, at, 9)], axis=1)
    case("scatter_elements_16_add", "ScatterElements", 16,
         [x, np.array([[1, 1]]), np.array([[2, 3]], np.float32)],
         [x + np.array([[0, 5, 0, 0], [0] * 4, [0] * 4], np.float32)], axis=1, reduction="add")
    b = np.array([True, False, True])
    case("scatter_elements_bool", "ScatterElements", 13,
         [b, np.array([0, 1]), np.array([False, True])], [np.array([False, True, True])])
    i = values(3, 4, dtype=np.int32)
    m = i.copy()
    m[1, 2] *= 6
    m[2, 0] *= 5
    case("scatter_nd_mul_twice", "ScatterND", 16,
         [i, np.array([[1, 2], [-1, 0], [1, -2]]), np.array([2, 5, 3], np.int32)], [m],
         reduction="mul")
    rows = i.copy()
    rows[2] *= np.array([1, 2, 3, 4], np.int32)
    case("scatter_nd_mul_rows", "ScatterND", 16,
         [i, np.array([[2]]), np.array([[1, 2, 3, 4]], np.int32)], [rows], reduction="mul")
    case("scatter_nd_none_bool", "ScatterND", 11,
         [b, np.array([[1]]), np.array([True])], [np.array([True] * 3)])
    extremes(x, i)
    case("one_hot_9_float", "OneHot", 9,
         [np.array([0, 7, -1], np.float32), np.array([4], np.float32), np.array([2, 5], np.int8)],
         [np.array([[5, 2, 2, 2], [2, 2, 2, 2], [2, 2, 2, 5]], np.int8)])
    case("one_hot_axis_0", "OneHot", 11, [np.array([1, 0]), np.array(3), np.array([0, 1.5])],
         [np.array([[0, 1.5], [1.5, 0], [0, 0]])], axis=0)
    case("compress_9_short", "Compress", 9, [x, np.array([False, True])], [x[:, 1:2]], axis=1)
    case("compress_9_none", "Compress", 9, [x, np.array([False, False])],
         [np.zeros((0, 4), np.float32)], axis=0)
    case("compress_9_flat", "Compress", 9, [x, np.array([True, False, False, False, True])],
         [x.reshape(-1)[[0, 4]]])
    case("non_zero_bool", "NonZero", 9, [x > 0], [np.array(np.nonzero(x > 0))])
    case("non_zero_none", "NonZero", 13, [np.zeros((2, 3), np.int32)], [np.zeros((2, 0), np.int64)])
    case("reverse_sequence_3d", "ReverseSequence", 10, [values_3d(), np.array([1, 3])],
         [reversed_3d()], batch_axis=0, time_axis=1)
    case("shrink_i32", "Shrink", 9, [np.arange(-3, 4, dtype=np.int32)],
         [np.array([-2, -1, 0, 0, 0, 1, 2], np.int32)], lambd=1.5, bias=1.0)


def extremes(x, i):
    """Tests the reductions max and min: indices that occur several times, negative ones too, and positions
    without an index."""
    at = np.array([[0, 2, -4], [1, -3, 1]])
    new = np.array([[-9, 3, 2], [-1, 0.25, 0.5]], np.float32)
    slices = np.arange(-6, 18, 2, dtype=np.int32).reshape(3, 4)
    for word, best in (("max", np.maximum), ("min", np.minimum)):
        y, columns, rows = x.copy(), i.copy(), i.copy()
        best.at(y, (np.arange(2)[:, None], at), new)
        case(f"scatter_elements_18_{word}", "ScatterElements", 18, [x, at, new], [y], axis=1, reduction=word)
        best.at(columns, (at.T % 3, np.arange(2)), slices[:, :2])
        case(f"scatter_elements_18_{word}_i32", "ScatterElements", 18, [i, at.T % 3, slices[:, :2]], [columns],
             reduction=word)
        best.at(rows, [2, 0, -1], slices)
        case(f"scatter_nd_18_{word}", "ScatterND", 18, [i, np.array([[2], [0], [-1]]), slices], [rows],
             reduction=word)


def scattered(x, at, value):
    y = x.copy()
    for row in range(at.shape[0]):
        y[row, at[row]] = value
    return y


def values_3d():
    return np.arange(24, dtype=np.float32).reshape(2, 3, 4)


def reversed_3d():
    y = values_3d()
    y[1] = y[1, ::-1]
    return y


def uniques():
    x = np.array([[2, 1, 2], [1, 1, 1], [2, 1, 2], [0, 5, 5]], np.int64)
    y, first, inverse, count = np.unique(x, axis=0, return_index=True, return_inverse=True,
                                         return_counts=True)
    case("unique_axis_0", "Unique", 11, [x], [y, first, inverse.reshape(-1), count], axis=0)
    case("unique_axis_0_unsorted", "Unique", 11, [x],
         [x[[0, 1, 3]], np.array([0, 1, 3]), np.array([0, 1, 0, 2]), np.array([2, 1, 1])],
         axis=0, sorted=0)
    case("unique_axis_1", "Unique", 11, [x], [x[:, [1, 0, 2]], None, np.array([1, 0, 2])], axis=1)
    case("unique_bool", "Unique", 11, [np.array([True, True])],
         [np.array([True]), np.array([0]), np.array([0, 0]), np.array([2])])
    case("unique_unsorted_counts", "Unique", 11, [np.array([3, 1, 3, 2.5])],
         [np.array([3, 1, 2.5]), None, None, np.array([2, 1, 1])], sorted=0)
    case("unique_nothing", "Unique", 11, [np.zeros(0, np.float32)], [np.zeros(0, np.float32)],
         sorted=0)


def quantised():
    x = np.array([-300.0, -1.5, 0.5, 1.5, 300.0], np.float32)
    scale = np.array(1, np.float32)
    case("quantize_10_no_zero", "QuantizeLinear", 10, [x, scale],
         [np.array([0, 0, 0, 2, 255], np.uint8)])
    case("quantize_10_i8", "QuantizeLinear", 10, [x, scale, np.array(1, np.int8)],
         [np.array([-128, -1, 1, 3, 127], np.int8)])
    case("quantize_13_i32", "QuantizeLinear", 13,
         [np.array([-7, 5, 700], np.int32), np.array([2], np.float32), np.array([3], np.uint8)],
         [np.array([0, 5, 255], np.uint8)])
    case("quantize_13_axis_0", "QuantizeLinear", 13,
         [np.array([[4, 8], [4, 8]], np.float32), np.array([2, 4], np.float32),
          np.array([0, 1], np.uint8)], [np.array([[2, 4], [2, 3]], np.uint8)], axis=0)
    case("quantize_scalar", "QuantizeLinear", 13,
         [np.array(9, np.float32), np.array(3, np.float32), np.array(0, np.uint8)],
         [np.array(3, np.uint8)])
    case("dequantize_10_i32", "DequantizeLinear", 10,
         [np.array([-5, 1 << 20], np.int32), np.array(0.5, np.float32)],
         [np.array([-2.5, 1 << 19], np.float32)])
    case("dequantize_13_last_axis", "DequantizeLinear", 13,
         [np.array([[1, 2], [3, 4]], np.int8), np.array([2, 3], np.float32),
          np.array([1, 0], np.int8)], [np.array([[0, 6], [4, 12]], np.float32)], axis=-1)
    x = rng.integers(-128, 128, (5, 4)).astype(np.int8)
    scale, zero = np.exp2(values(3, 4).round()), rng.integers(-9, 9, (3, 4)).astype(np.int8)
    wide, shift = scale.repeat(2, 0)[:5], zero.astype(np.float32).repeat(2, 0)[:5]
    case("dequantize_21_blocks", "DequantizeLinear", 21, [x, scale, zero], [(x - shift) * wide],
         axis=0, block_size=2)
    case("dequantize_21_blocks_no_zero", "DequantizeLinear", 21, [x.T, scale.T.astype(np.float16)],
         [(x * wide).T.astype(np.float16)], axis=-1, block_size=2)


    case("quantize_21_blocks", "QuantizeLinear", 21, [(x - shift) * wide, scale, zero], [x], axis=0, block_size=2)
    y = 50 * values(4, 5)
    case("quantize_21_blocks_u16", "QuantizeLinear", 21, [y, scale.T],
         [np.clip((y / wide.T).round(), 0, 65535).astype(np.uint16)], axis=1, block_size=2, output_dtype=TensorProto.UINT16)


def float8(kind):
    """Returns the non-negative numbers of an 8-bit type, by code, and its largest number."""
    digits, bias, count = {E4M3: (3, 7, 127), E5M2: (2, 15, 124), E4M3FNUZ: (3, 8, 128), E5M2FNUZ: (2, 16, 128)}[kind]
    codes = np.arange(count)
    exponent, fraction = codes >> digits, codes & ((1 << digits) - 1)
    numbers = np.where(exponent, np.exp2(exponent - bias) * (1 + fraction / 2 ** digits), np.exp2(1.0 - bias - digits) * fraction)
    return numbers, numbers[-1]


def rounded(x, kind, saturate=True):
    """Rounds to an 8-bit type, ties to the even code; the number beyond the largest one is the limit of a tie."""
    numbers, most = float8(kind)
    size = np.abs(x.astype(np.float64))
    far = np.concatenate([numbers, [2 * most - numbers[-2]]])
    at = np.clip(np.searchsorted(far, size, side="right") - 1, 0, len(numbers) - 1)
    middle = (far[at] + far[at + 1]) / 2
    at = at + ((size > middle) | ((size == middle) & (at % 2 == 1)))
    beyond = np.inf if kind == E5M2 else np.nan
    y = np.where(at < len(numbers), far[at], most if saturate else beyond)
    y = np.copysign(np.where(np.isnan(x), np.nan, y), x).astype(np.float32)
    return y + 0 if kind in (E4M3FNUZ, E5M2FNUZ) else y  # without negative zeros


def small_floats(folder):
    """Tests 8-bit floats, which numpy lacks: a second node converts them to f32."""
    x = np.concatenate([values(40), 300 * values(40), 0.01 * values(40), 9e4 * values(20),
                        [0, -0.0, 448, 464, 465, -480, 57344, 61440, 61439, np.inf, -np.inf, np.nan, 240, 247, 248, -249,
                         1e-9, -1e-9]]).astype(np.float32)
    for kind, name in ((E4M3, "e4m3"), (E5M2, "e5m2"), (E4M3FNUZ, "e4m3fnuz"), (E5M2FNUZ, "e5m2fnuz")):
        for saturate in (0, 1):
            nodes = [node("Cast", "x", "q", to=kind, saturate=saturate), node("Cast", "q", "y", to=TensorProto.FLOAT)]
            folder.add(f"cast_19_{name}_{saturate}", 19, nodes, {"x": x}, {"y": rounded(x, kind, saturate)})
        nodes = [node("Cast", "x", "like", to=kind), node("CastLike", "x like", "q", saturate=0), node("Cast", "q", "y", to=1)]
        folder.add(f"cast_like_19_{name}", 19, nodes, {"x": x}, {"y": rounded(x, kind, False)})
        some = 100 * values(4, 6)
        scale = np.exp2(values(4).round()).astype(np.float32)
        nodes = [node("QuantizeLinear", "x s", "q", axis=0, output_dtype=kind), node("DequantizeLinear", "q s", "y", axis=0)]
        folder.add(f"quantize_21_{name}", 21, nodes, {"x": some, "s": scale},
                   {"y": rounded(some / scale[:, None], kind) * scale[:, None]})


def power(x, mode, saturate=True):
    """Rounds to a power of two between 2^-127 and 2^127."""
    x = x.astype(np.float64)
    low = np.exp2(np.floor(np.log2(np.clip(x, 2.0 ** -127, 2.0 ** 127))))
    up = {"up": x > low, "down": False, "nearest": x >= 1.5 * low}[mode]
    y = np.clip(np.where(up, 2 * low, low), 2.0 ** -127, 2.0 ** 127)
    outside = (x < 2.0 ** -127) | (x > 2.0 ** 127)
    return np.where(np.isnan(x) | (outside & (not saturate)), np.nan, y).astype(np.float32)


def raw(kind, codes):
    """A tensor of a one-byte type, with raw_data."""
    return TensorProto(dims=codes.shape, data_type=kind, raw_data=codes.astype(np.uint8).tobytes())


def powers_of_two(folder):
    """Tests FLOAT8E8M0: casts in each way of rounding, and scales, the common use of the type."""
    x = np.concatenate([np.abs(values(40)), 1000 * np.abs(values(20)), [0, 1, 1.5, 1.25, 0.75, 3, 2.0 ** 127, 1.25 * 2.0 ** 127,
                        2.0 ** -126, 1.5 * 2.0 ** -127, 2.0 ** -127, np.nan]]).astype(np.float32)
    x = np.concatenate([x, np.array([np.inf, 2.0 ** -130], np.float32)])
    for mode in ("up", "down", "nearest", None):
        for saturate in (1, 0):
            how = {"round_mode": mode} if mode else {}
            nodes = [node("Cast", "x", "q", to=E8M0, saturate=saturate, **how), node("Cast", "q", "y", to=TensorProto.FLOAT)]
            folder.add(f"cast_24_e8m0_{mode}_{saturate}", 24, nodes, {"x": x}, {"y": power(x, mode or "up", saturate)})
    nodes = [node("Cast", "x", "like", to=E8M0), node("CastLike", "x like", "q", round_mode="down"),
             node("Identity", "q", "i"), node("Cast", "i", "y", to=TensorProto.DOUBLE)]
    folder.add("cast_like_24_e8m0", 24, nodes, {"x": x}, {"y": power(x, "down").astype(np.float64)})
    codes = np.array([[120, 127], [130, 128], [126, 125]])
    q, scale = (20 * values(6, 2)).astype(np.int8), np.exp2(codes - 127.0).astype(np.float32)
    for dtype in (np.float32, np.float16):
        nodes = [node("DequantizeLinear", "q s", "y", axis=0, block_size=2, output_dtype=TensorProto.FLOAT if dtype == np.float32
                      else TensorProto.FLOAT16)]
        folder.add(f"dequantize_24_e8m0_{dtype.__name__}", 24, nodes, {"q": q, "s": raw(E8M0, codes)},
                   {"y": (q * scale.repeat(2, 0)).astype(dtype)})
    some = (100 * values(6, 2)).astype(np.float32)
    nodes = [node("QuantizeLinear", "x s", "q", axis=0, block_size=2, output_dtype=E4M3FNUZ),
             node("DequantizeLinear", "q s", "y", axis=0, block_size=2, output_dtype=TensorProto.FLOAT)]
    weight = TensorProto(name="s", dims=codes.shape, data_type=E8M0, int32_data=codes.ravel().tolist())
    wide = scale.repeat(2, 0)
    folder.add("quantize_24_e8m0", 24, nodes, {"x": some}, {"y": rounded(some / wide, E4M3FNUZ) * wide}, [weight])


def folded(x, image, block, stride, dilation, pad):
    """Adds block number l, of C channels, to the places of the image that it covers."""
    n, places = len(image), [range(i + a + b - d * (k - 1)) for i, k, d, a, b in zip(image, block, dilation, pad, pad[len(image):])]
    wide = np.zeros((x.shape[0], x.shape[1] // np.prod(block), *(i + a + b for i, a, b in zip(image, pad, pad[n:]))), x.dtype)
    x = x.reshape(*wide.shape[:2], *block, x.shape[2])
    for l, first in enumerate(itertools.product(*(p[::s] for p, s in zip(places, stride)))):
        at = tuple(slice(f, f + d * (k - 1) + 1, d) for f, d, k in zip(first, dilation, block))
        wide[(..., *at)] += x[..., l]
    return wide[(..., *(slice(a, a + i) for a, i in zip(pad, image)))]


def blocks():
    """Tests Col2Im with 1, 2 and 3 spatial axes whose parameters all differ, and CenterCropPad."""
    for image, block, blocks_of, stride, dilation, pad in (
            ([9], [3], 5, [2], [1], [1, 1]), ([6, 7], [2, 3], 6, [2, 3], [3, 1], [0, 1, 1, 1]),
            ([4, 5, 8], [2, 3, 2], 45, [1, 1, 2], [1, 1, 2], [0, 1, 0, 0, 1, 0])):
        x = values(2, 3 * int(np.prod(block)), blocks_of)
        case("col2im_18_%dd" % len(image), "Col2Im", 18, [x, np.array(image), np.array(block)],
             [folded(x, image, block, stride, dilation, pad)], strides=stride, dilations=dilation, pads=pad)
    x = values(2, 4, 3)
    case("col2im_18_plain", "Col2Im", 18, [x, np.array([2, 4]), np.array([2, 2])],
         [folded(x, [2, 4], [2, 2], [1, 1], [1, 1], [0] * 4)])
    x = values(5, 4, 3)
    case("center_crop_pad_18", "CenterCropPad", 18, [x, np.array([2, 7, 3], np.int32)],
         [np.pad(x[1:3], ((0, 0), (1, 2), (0, 0)))])
    case("center_crop_pad_18_bool", "CenterCropPad", 18, [x > 0, np.array([4, 0])], [np.pad(x[:, :0] > 0, ((0, 0), (0, 0), (0, 1)))],
         axes=[-1, 1])


def pooled(x, rois, bins, scale):
    """Takes the largest element of each bin; a bin without elements gives 0."""
    y = np.zeros((len(rois), x.shape[1], *bins), x.dtype)
    for r, (image, *corners) in enumerate(rois):
        left, top, right, bottom = np.floor(np.array(corners) * scale + 0.5).astype(int)
        size = max(bottom - top + 1, 1), max(right - left + 1, 1)
        for i, j in np.ndindex(*bins):
            edge = [(start + int(np.floor(n * s / b)), start + int(np.ceil((n + 1) * s / b)))
                    for start, n, s, b in zip((top, left), (i, j), size, bins)]
            rows, columns = (slice(*np.clip(e, 0, end)) for e, end in zip(edge, x.shape[2:]))
            part = x[int(image), :, rows, columns]
            y[r, :, i, j] = part.max((1, 2)) if part.size else 0
    return y


def deform(x, w, offset, mask, groups, offset_groups):
    """A deformable convolution without padding, element by element. offset: N, 2 groups kh kw, oh ow."""
    n, m, oh, ow = x.shape[0], w.shape[0], *offset.shape[2:]
    kh, kw = w.shape[2:]
    offset = offset.reshape(n, offset_groups, kh, kw, 2, oh, ow)
    mask = mask.reshape(n, offset_groups, kh, kw, oh, ow)
    y = np.zeros((n, m, oh, ow))
    for b, f, p, q, c, i, j in itertools.product(*map(range, (n, m, oh, ow, w.shape[1], kh, kw))):
        channel = f // (m // groups) * w.shape[1] + c
        group = channel // (x.shape[1] // offset_groups)
        row, column = (p + i, q + j) + offset[b, group, i, j, :, p, q]
        low, left = int(np.floor(row)), int(np.floor(column))
        for r, s in itertools.product((low, low + 1), (left, left + 1)):
            if 0 <= r < x.shape[2] and 0 <= s < x.shape[3]:
                weight = (1 - abs(row - r)) * (1 - abs(column - s))
                y[b, f, p, q] += w[f, c, i, j] * mask[b, group, i, j, p, q] * weight * x[b, channel, r, s]
    return y


def regions():
    x = values(2, 3, 8, 9)
    rois = np.array([[0, 1, 2, 11, 9], [1, 0, 0, 4, 4], [1, 14, 12, 30, 30], [0, 6, 6, 5, 5]], np.float32)
    case("max_roi_pool_1", "MaxRoiPool", 1, [x, rois], [pooled(x, rois, (2, 3), 0.5)], pooled_shape=[2, 3], spatial_scale=0.5)
    case("max_roi_pool_22_f64", "MaxRoiPool", 22, [x.astype(np.float64), rois.astype(np.float64)],
         [pooled(x.astype(np.float64), rois, (1, 2), 1)], pooled_shape=[1, 2])
    x, w, bias = values(2, 4, 5, 6), values(6, 2, 2, 3), values(6)
    offset, mask = 1.5 * values(2, 24, 4, 4), values(2, 12, 4, 4)
    y = deform(x, w, offset, mask, 2, 2)
    case("deform_conv_19", "DeformConv", 19, [x, w, offset, bias, mask], [(y + bias[:, None, None]).astype(np.float32)],
         group=2, offset_group=2)
    case("deform_conv_22_f64", "DeformConv", 22, [a.astype(np.float64) for a in (x, w, offset)] + [None, mask.astype(np.float64)],
         [y], group=2, offset_group=2, kernel_shape=[2, 3])


def attended(q, k, v, state, decay, beta, scale):
    """Linear attention of unpacked heads, step by step: N T H D."""
    group, outputs = q.shape[2] // k.shape[2], []
    for t in range(q.shape[1]):
        if decay is not None:
            state = state * np.exp(decay[:, t])[..., None]
        u = v[:, t]
        if beta is not None:
            u = beta[:, t] * (u - np.einsum("nhde,nhd->nhe", state, k[:, t]))
        state = state + k[:, t][..., None] * u[..., None, :]
        outputs.append(scale * np.einsum("nhd,nhde->nhe", q[:, t], state.repeat(group, 1)))
    return np.stack(outputs, 1).astype(np.float32), state.astype(np.float32)


def states():
    n, t, h, d, e = 2, 5, 2, 4, 3
    q, k, v = values(n, t, 2 * h, d), 0.5 * values(n, t, h, d), values(n, t, h, e)
    state, decay, beta = values(n, h, d, e), -np.abs(values(n, t, h, d)), np.abs(values(n, t, h, 1)) / 2
    for rule, gates in (("linear", (None, None)), ("gated", (decay, None)), ("delta", (None, beta)),
                        ("gated_delta", (decay[..., :1], beta[:, :, :1]))):
        y, last = attended(q, k, v, state, *gates, 0.5)
        packed = [None if a is None else a.reshape(n, t, -1) for a in gates]
        case("linear_attention_27_" + rule, "LinearAttention", 27,
             [q.reshape(n, t, -1), k.reshape(n, t, -1), v.reshape(n, t, -1), state, *packed][:6 if gates[1] is not None else 5],
             [y.reshape(n, t, -1), last], q_num_heads=2 * h, kv_num_heads=h, update_rule=rule)
    y, last = attended(q[:, :, :h], k, v, np.zeros_like(state), None, None, 2)
    case("linear_attention_27_new", "LinearAttention", 27, [a.reshape(n, t, -1) for a in (q[:, :, :h], k, v)],
         [y.reshape(n, t, -1), last], q_num_heads=h, kv_num_heads=h, update_rule="linear", scale=2.0)
    x, w, bias, before = values(2, 3, 5), values(3, 1, 4), values(3), values(2, 3, 3)
    for name, past in (("", before), ("_new", None)):
        z = np.concatenate([np.zeros((2, 3, 3), np.float32) if past is None else past, x], 2)
        y = bias[:, None] + sum(w[:, 0, i, None] * z[:, :, i:i + 5] for i in range(4))
        case("causal_conv_27" + name, "CausalConvWithState", 27, [x, w, bias, past], [y, z[:, :, 5:]])
        case("causal_conv_27_silu" + name, "CausalConvWithState", 27, [x, w, bias, past], [y / (1 + np.exp(-y)), z[:, :, 5:]],
             activation="silu")


def flexible(folder):
    """Tests attention with graphs: a bias that depends on the distance, and probabilities that are halved."""
    q, k, v = values(2, 4, 5, 8), values(2, 2, 6, 8), values(2, 2, 6, 3)
    distance = (np.arange(5)[:, None] - np.arange(6)).astype(np.float32)
    dims = [kit.const(n, i, np.int64) for n, i in (("zero", 0), ("one", 1), ("two", 2), ("three", 3))]
    shapes = [kit.const("down", [-1, 1], np.int64), kit.const("across", [1, -1], np.int64)]
    score = kit.graph([node("Shape", "s", "n"), node("Gather", "n two", "l"), node("Gather", "n three", "m"),
                       node("Range", "zero l one", "r"), node("Range", "zero m one", "c"), node("Reshape", "r down", "rows"),
                       node("Reshape", "c across", "columns"), node("Sub", "rows columns", "d"), node("Cast", "d", "f", to=1),
                       node("Add", "s f", "t")], [kit.info("s")], [kit.info("t")], dims + shapes)
    half = kit.graph([node("Mul", "p half", "h")], [kit.info("p")], [kit.info("h")], [kit.const("half", 0.5)])
    scores = q @ k.repeat(2, 1).swapaxes(2, 3) / 8 ** 0.5
    for name, graphs, bias, by in (("", {}, 0, 1), ("_graphs", {"score_mod": score, "prob_mod": half}, distance, 0.5)):
        y = (by * softmax(scores + bias, -1) @ v.repeat(2, 1)).astype(np.float32)
        nodes = [node("FlexAttention", "q k v", "y", domain="ai.onnx.preview", **graphs)]
        folder.add("flex_attention" + name, 26, nodes, {"q": q, "k": k, "v": v}, {"y": y}, more_domains=["ai.onnx.preview"])


def losses():
    x = values(4, 3, 2)
    label = np.array([[0, 1], [2, 2], [5, 1], [0, 5]])
    weight = np.array([0.5, 2, 3], np.float32)
    log_p = np.log(softmax(x, 1))
    w = np.where(label == 5, 0, weight[label % 5]).astype(np.float32)
    each = -np.take_along_axis(log_p, (label % 5)[:, None], 1)[:, 0] * w
    case("sce_12_mean", "SoftmaxCrossEntropyLoss", 12, [x, label, weight],
         [np.float32(each.sum() / w.sum()), log_p], ignore_index=5)
    case("sce_13_i32_f64", "SoftmaxCrossEntropyLoss", 13,
         [x.astype(np.float64), label.astype(np.int32), weight.astype(np.float64)],
         [each.astype(np.float64)], ignore_index=5, reduction="none")
    case("nll_12_sum", "NegativeLogLikelihoodLoss", 12, [log_p, label, weight],
         [np.float32(each.sum())], ignore_index=5, reduction="sum")


def equations():
    a, b = values(2, 1, 3, 4), values(5, 4, 2)
    case("einsum_broadcast", "Einsum", 12, [a, b], [np.matmul(a, b)], equation="...ij,...jk->...ik")
    case("einsum_implied", "Einsum", 12, [a], [np.einsum("...ba->...ab", a)], equation="...ba")
    case("einsum_implied_hidden", "Einsum", 12, [a, b], [np.einsum("...ij,...jk", a, b)],
         equation="...ij, ...jk")
    case("einsum_hidden_summed", "Einsum", 12, [a[:, 0]], [a[:, 0].sum(0)], equation="nij->ij")
    case("einsum_three", "Einsum", 12, [values_3d()[0], values_3d()[1], np.ones(4, np.float32)],
         [np.einsum("ij,kj,j->ik", values_3d()[0], values_3d()[1], np.ones(4, np.float32))],
         equation="ij,kj,j->ik")
    case("einsum_trace_f64", "Einsum", 12, [np.arange(9.0).reshape(3, 3)], [np.float64(12)],
         equation="ii")
    case("einsum_upper", "Einsum", 12, [b], [np.einsum("Aab->bAa", b)], equation="Aab->bAa")


def pairs(z, dtype=np.float32):
    return np.stack([z.real, z.imag], -1).astype(dtype)


def transforms():
    x = values(2, 6, 5)
    z = x + 1j * values(2, 6, 5)
    case("dft_onesided", "DFT", 17, [x[..., None]], [pairs(np.fft.rfft(x, axis=1))], onesided=1)
    case("dft_axis_2_longer", "DFT", 17, [x[..., None], np.array(8)],
         [pairs(np.fft.fft(x, 8, axis=2))], axis=2)
    case("dft_shorter", "DFT", 17, [pairs(z), np.array(4)], [pairs(np.fft.fft(
        pairs(z)[..., 0].astype(complex) + 1j * pairs(z)[..., 1], 4, axis=1))])
    case("dft_20_inverse", "DFT", 20, [pairs(z)], [pairs(np.fft.ifft(z, axis=2))], inverse=1)
    case("dft_20_axis_f64", "DFT", 20, [pairs(z, np.float64), None, np.array(0)],
         [pairs(np.fft.fft(z, axis=0), np.float64)])
    half = np.fft.rfft(x, axis=2) * (1 + 0.5j) # numbers 0 and 3 ignore their imaginary parts
    case("dft_17_half", "DFT", 17, [pairs(half)], [np.fft.irfft(half, axis=2).astype(np.float32)[..., None]], axis=2, inverse=1,
         onesided=1)
    for n in (3, 5, 6, 9):
        case("dft_20_half_%d" % n, "DFT", 20, [pairs(half), np.array(n), np.array(-3)],
             [np.fft.irfft(half, n, axis=1).astype(np.float32)[..., None]], inverse=1, onesided=1)
    s = values(2, 20)
    frames = np.stack([s[:, i:i + 8] for i in range(0, 13, 3)], 1)
    window = np.hanning(8).astype(np.float32)
    case("stft_onesided", "STFT", 17, [s[..., None], np.array(3), window, np.array(8)],
         [pairs(np.fft.rfft(frames * window))])
    case("stft_window_only", "STFT", 17, [s[..., None], np.array(3), window],
         [pairs(np.fft.fft(frames * window))], onesided=0)
    zs = s + 1j * values(2, 20)
    frames = np.stack([zs[:, i:i + 8] for i in range(0, 13, 4)], 1)
    case("stft_complex", "STFT", 17, [pairs(zs), np.array(4), None, np.array(8)],
         [pairs(np.fft.fft(frames))], onesided=0)
    case("hann_f64", "HannWindow", 17, [np.array(5)], [np.hanning(6)[:5]], output_datatype=11)
    case("blackman_one", "BlackmanWindow", 17, [np.array(1)], [np.ones(1, np.float32)], periodic=0)


def training():
    domain = "ai.onnx.preview.training"
    x, g, v = values(3), values(3), values(3)
    h = np.abs(values(3))
    rate, count = np.float32(0.1), np.array(3)
    gr = 0.01 * x + g
    vn = 0.9 * v + 0.1 * gr
    hn = 0.999 * h + 0.001 * gr * gr
    r = rate * np.sqrt(1 - 0.999 ** 3) / (1 - 0.9 ** 3)
    xn = (x - r * vn / (np.sqrt(hn) + 1e-6)) * 0.98
    case("adam_third", "Adam", 1, [rate, count, x, g, v, h],
         [a.astype(np.float32) for a in (xn, vn, hn)], domain=domain, norm_coefficient=0.01,
         norm_coefficient_post=0.02)
    hn = h + g * g
    case("adagrad_decay", "Adagrad", 1, [rate, count, x, g, h],
         [(x - rate / 1.6 * g / (np.sqrt(hn) + 1e-6)).astype(np.float32), hn.astype(np.float32)],
         domain=domain, decay_factor=0.2)
    x, g, v = (a.astype(np.float64) for a in (x, g, v))
    vn = 0.5 * v + 0.25 * g
    case("momentum_third_f64", "Momentum", 1, [np.float64(0.1), count, x, g, v],
         [x - 0.1 * vn, vn], domain=domain, alpha=0.5, beta=0.25, norm_coefficient=0.0,
         mode="standard")


def draws():
    """Tests random operators with parameters for which only one result is possible."""
    p = np.array([[0, 1], [1, 0]], np.float64)
    case("bernoulli_i32", "Bernoulli", 15, [p], [p.astype(np.int32)], dtype=6)
    case("bernoulli_bool", "Bernoulli", 15, [p], [p.astype(np.bool_)], dtype=9)
    case("uniform", "RandomUniform", 1, [], [np.full((2, 3), 0.5, np.float64)], shape=[2, 3],
         dtype=11, low=0.5, high=0.5)
    case("normal", "RandomNormal", 1, [], [np.full(4, 3, np.float32)], shape=[4], mean=3.0,
         scale=0.0)
    case("uniform_like", "RandomUniformLike", 1, [p], [np.full((2, 2), 2, np.float64)], low=2.0,
         high=2.0)
    case("normal_like", "RandomNormalLike", 1, [p], [np.ones((2, 2), np.float32)], dtype=1,
         mean=1.0, scale=0.0)
    sure = np.array([[0, 500, 0], [500, 0, 0]], np.float32)
    case("multinomial", "Multinomial", 7, [sure], [np.array([[1] * 4, [0] * 4])], dtype=7,
         sample_size=4)


def ranges():
    """Tests half types: start, limit and delta are exact, and the elements are computed in stash_type."""
    for stash in ({}, {"stash_type": 1}, {"stash_type": 11}):
        name = "range_27_f16" + "".join("_%d" % s for s in stash.values())
        case(name, "Range", 27, [np.float16(2040), np.float16(2060), np.float16(1)],
             [np.arange(2040, 2060).astype(np.float16)], **stash)
        case(name + "_fraction", "Range", 27, [np.float16(0), np.float16(3), np.float16(0.1)],
             [(np.arange(31) * float(np.float16(0.1))).astype(np.float16)], **stash)
    tiny = 2.0 ** -24
    case("range_27_f16_tiny", "Range", 27, [np.float16(-tiny), np.float16(-4 * tiny), np.float16(-tiny)],
         [np.array([-1, -2, -3]).astype(np.float16) * np.float16(tiny)])
    case("range_27_f16_none", "Range", 27, [np.float16(3), np.float16(1), np.float16(1)], [np.zeros(0, np.float16)])


def changed():
    """Tests operators whose meaning has changed in opsets 24 to 28."""
    x = np.arange(48, dtype=np.float32).reshape(1, 2, 4, 6)
    blocks = x.reshape(1, 2, 2, 2, 3, 2)
    for name, mode, order in (("", {}, (0, 3, 5, 1, 2, 4)), ("_dcr", {"mode": "DCR"}, (0, 3, 5, 1, 2, 4)),
                              ("_crd", {"mode": "CRD"}, (0, 1, 3, 5, 2, 4))):
        case("space_to_depth_28" + name, "SpaceToDepth", 28, [x], [blocks.transpose(order).reshape(1, 8, 2, 3)],
             blocksize=2, **mode)
    for kind, bits in ((np.int8, 8), (np.int64, 64), (np.uint16, 16)):
        most = np.iinfo(kind).max
        i = np.array([most, 5, 0, 5, -7 & most, most, 5], kind)
        if kind != np.uint16:
            i[4] = -7
        by = np.array([1, 1, 3, bits, 1, bits - 1, bits - 2], kind)
        up = [(int(a) << int(b)) & (2 ** bits - 1) if b < bits else 0 for a, b in zip(i, by)]
        down = [int(a) >> int(b) if b < bits else 0 for a, b in zip(i, by)]
        case("bit_shift_28_left_%s" % kind.__name__, "BitShift", 28, [i, by], [np.array(up, "u%d" % (bits // 8)).view(kind)],
             direction="LEFT")
        case("bit_shift_28_right_%s" % kind.__name__, "BitShift", 28, [i, by], [np.array(down, kind)], direction="RIGHT")
    case("bit_shift_28_right_out", "BitShift", 28, [np.array([-9, -9, 9, 9], np.int32), np.array([32, -1, 32, -1], np.int32)],
         [np.array([-1, -1, 0, 0], np.int32)], direction="RIGHT")
    x = np.array([-5.5, 5.5, -2.25, 7], np.float32)
    y = np.array([2, -2, 0.5, 7], np.float32)
    case("mod_28_float", "Mod", 28, [x, y], [x - np.floor(x / y) * y])
    case("celu_28_f64", "Celu", 28, [x.astype(np.float64)], [np.where(x > 0, x, 2 * np.expm1(x.astype(np.float64) / 2))],
         alpha=2.0)


def named(letter, arrays):
    """Returns the names of a node's ports, and the array of each."""
    names = [f"{letter}{n}" if a is not None else "_" for n, a in enumerate(arrays)]
    return " ".join(names), {n: np.asarray(a) for n, a in zip(names, arrays) if n != "_"}


def add_all(folder):
    zeros(folder)
    small_floats(folder)
    powers_of_two(folder)
    flexible(folder)
    for make in (reductions, lines, elementwise, indices, uniques, quantised, blocks, regions, states, losses, equations,
                 transforms, training, draws, ranges, changed):
        make()
    for name, op, opset, inputs, outputs, domain, attributes in CASES:
        (ins, given), (outs, made) = named("i", inputs), named("o", outputs)
        nodes = [node(op, ins, outs, domain=domain, **attributes)]
        folder.add(name, opset, nodes, given, made, domain=domain)
