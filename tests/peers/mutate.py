# SPDX-License-Identifier: Apache-2.0
"""Mutates ONNX models, for mutants.py. The environment's python runs it, because it needs onnx.

    mutate.py LIST SUITE SEED MODELS RUNS OUT

Takes MODELS models of the file LIST (a JSON list of folders below SUITE), chosen by SEED, and writes RUNS mutants of them
as OUT/NUMBER.model.onnx and OUT/NUMBER.input_N.pb. OUT/mutants.json lists the model of each mutant and its mutations. The
same seed writes the same files.

A mutation is a function of a random number generator and a Case. It changes the case and returns a description, or
returns None if the case has nothing to which it applies. TAME mutations usually leave a model that runs; WILD ones
usually do not.
"""
import json
import os
import random
import sys

import numpy
import onnx
from onnx import AttributeProto, TensorProto, helper, numpy_helper

INTEGERS = (0, 1, -1, 2, -2, 3, 7, 16, 64, 255, 1000, -1000, 4096, 65536, 10**6, 10**8, 2**31 - 1, 2**31, -2**31, 2**32, 2**40, 2**62, 2**63 - 1,
            -2**63)
SMALL = (-3, -2, -1, 0, 1, 2, 3, 4, 5)
FLOATS = (0.0, -0.0, 1.0, -1.0, 0.5, 1e-45, 1e38, -1e38, 1e300, float("nan"), float("inf"), float("-inf"))
TEXTS = ("", "SAME_UPPER", "SAME_LOWER", "VALID", "NOTSET", "constant", "reflect", "edge", "wrap", "linear", "nearest",
         "cubic", "add", "mul", "max", "min", "none", "sum", "mean", "tanh", "bilinear", "asymmetric", "half_pixel",
         "align_corners", "floor", "round_prefer_ceil", "forward", "reverse", "bidirectional", "DCR", "CRD", "left",
         "ij,jk->ik", "...->", "i->ii", "%n%s", "x" * 5000)
NAMES = ("axis", "axes", "keepdims", "group", "pads", "strides", "dilations", "kernel_shape", "auto_pad", "ceil_mode",
         "to", "perm", "mode", "alpha", "beta", "epsilon", "direction", "hidden_size", "blocksize", "num_outputs", "largest",
         "allowzero", "value", "equation", "output_padding", "count_include_pad", "exclusive", "select_last_index")
DTYPES = tuple(range(0, 28)) + (99, -1)
PLAIN = (TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16, TensorProto.INT32, TensorProto.INT64,
         TensorProto.INT8, TensorProto.UINT8, TensorProto.BOOL)
OPSETS = (-1, 0, 1, 5, 6, 7, 9, 10, 11, 12, 13, 14, 17, 18, 20, 21, 23, 24, 25, 28, 29, 1000, 2**63 - 1)
ALIKE = (("Relu", "Sigmoid", "Tanh", "Abs", "Neg", "Exp", "Sqrt", "Floor", "Ceil", "Sign", "Identity", "Elu", "Softplus",
          "Erf", "Round", "Sin", "Reciprocal", "HardSwish", "Softsign", "Log", "IsNaN", "Not", "BitwiseNot", "NonZero",
          "Shape", "Size", "Flatten", "Softmax", "LogSoftmax", "Hardmax", "Transpose", "GlobalAveragePool", "Det"),
         ("Add", "Sub", "Mul", "Div", "Pow", "Max", "Min", "Mod", "PRelu", "MatMul", "Equal", "Less", "Greater", "And",
          "BitShift", "BitwiseXor", "Gemm", "Gather", "Expand", "Reshape", "Tile", "GatherND", "GatherElements"),
         ("ReduceSum", "ReduceMean", "ReduceMax", "ReduceProd", "ReduceL2", "ReduceLogSumExp", "ReduceSumSquare", "CumSum",
          "Squeeze", "Unsqueeze", "Split", "ArgMax", "ArgMin", "TopK"),
         ("MaxPool", "AveragePool", "LpPool", "Conv", "ConvTranspose", "GlobalMaxPool"),
         ("ScatterElements", "ScatterND", "Where", "Clip", "Slice", "Pad"), ("LSTM", "GRU", "RNN"))


class Case:
    """A model and the values of its inputs, in the order of the graph's inputs."""

    def __init__(self, model, values):
        self.model, self.values = model, values

    def copy(self):
        model = onnx.ModelProto()
        model.CopyFrom(self.model)
        values = []
        for value in self.values:
            values.append(type(value)())
            values[-1].CopyFrom(value)
        return Case(model, values)

    def nodes(self):
        """(graph, node) of all nodes, with those of the bodies of loops and branches."""
        stack = [self.model.graph]
        while stack:
            graph = stack.pop()
            for node in graph.node:
                yield graph, node
                stack += [a.g for a in node.attribute if a.HasField("g")]

    def attributes(self, *kinds):
        return [(node, a) for _, node in self.nodes() for a in node.attribute if not kinds or a.type in kinds]

    def tensors(self):
        """All tensors: values of inputs, initialisers, attributes."""
        return ([v for v in self.values if isinstance(v, TensorProto)] + list(self.model.graph.initializer)
                + [a.t for _, a in self.attributes(AttributeProto.TENSOR)])

    def ports(self):
        """The (declaration, value) of the inputs that are tensors."""
        return [(port, value) for port, value in zip(self.model.graph.input, self.values)
                if isinstance(value, TensorProto) and port.type.HasField("tensor_type")]


def array_of(tensor):
    """The numbers of a tensor that numpy has a type for, or None."""
    if tensor.data_type not in PLAIN or tensor.data_location == TensorProto.EXTERNAL:
        return None
    try:
        return numpy_helper.to_array(tensor)
    except (ValueError, TypeError, OverflowError):
        return None


def fill(tensor, array):
    """Sets the numbers of a tensor; its name stays."""
    name = tensor.name
    tensor.CopyFrom(numpy_helper.from_array(numpy.ascontiguousarray(array).reshape(array.shape), name))


def shape_text(dims):
    return "x".join(map(str, dims)) or "scalar"


def declare(port, dtype=None, shape=None):
    """Changes the declared type of an input. Extents of None are open."""
    kind = port.type.tensor_type
    if dtype is not None:
        kind.elem_type = dtype
    if shape is not None:
        kind.shape.Clear()
        for extent in shape:
            dim = kind.shape.dim.add()
            if extent is not None:
                dim.dim_value = extent


def pick(rng, items):
    items = list(items)
    return rng.choice(items) if items else None


# ---- mutations that usually leave a model that runs

def values_special(rng, case):
    """Some numbers become special ones."""
    tensor = pick(rng, [t for t in case.tensors() if array_of(t) is not None and array_of(t).size])
    if tensor is None:
        return None
    array = array_of(tensor).copy()
    flat = array.reshape(-1)
    for _ in range(rng.choice((1, 1, 2, 8))):
        at = rng.randrange(flat.size)
        if array.dtype.kind == "f":
            with numpy.errstate(all="ignore"):
                flat[at] = numpy.float64(rng.choice(FLOATS))
        elif array.dtype.kind == "b":
            flat[at] = not flat[at]
        else:
            limits = numpy.iinfo(array.dtype)
            near = int(flat[at]) + rng.choice((-1, 1))
            flat[at] = max(limits.min, min(limits.max, rng.choice((near, near, *SMALL, *INTEGERS))))
    fill(tensor, flat.reshape(array.shape))
    return f"special values in '{tensor.name}'"


def values_scaled(rng, case):
    """All floats of an input are scaled, shifted or permuted."""
    tensor = pick(rng, [t for t in case.tensors() if array_of(t) is not None and array_of(t).dtype.kind == "f"])
    if tensor is None:
        return None
    array, way = array_of(tensor), rng.randrange(4)
    with numpy.errstate(all="ignore"):
        changed = (array * array.dtype.type(rng.choice((-1, 100, 1e-3, 1e4))), array[..., ::-1] if array.ndim else array,
                   numpy.zeros_like(array), array + array.dtype.type(rng.choice((-2, 0.5, 30))))[way]
    fill(tensor, changed)
    return f"other values in '{tensor.name}'"


def batch_changed(rng, case):
    """The first extent of all inputs that share it changes; data are repeated."""
    ports = [(port, value) for port, value in case.ports() if value.dims and array_of(value) is not None]
    if not ports:
        return None
    old, new = rng.choice(ports)[1].dims[0], rng.choice((0, 1, 2, 3, 5, 17))
    if not old:
        return None
    for port, value in ports:
        if value.dims[0] == old:
            array = array_of(value)
            if array.size * max(new, 1) > 1 << 20:
                return None
            repeated = numpy.resize(array, (new, *array.shape[1:])) if array.size else array
            fill(value, repeated)
            declare(port, shape=[None] * repeated.ndim)
    return f"first extent {old} becomes {new}"


def axis_changed(rng, case):
    """One axis of one input gets another extent."""
    port, value = pick(rng, [(p, v) for p, v in case.ports() if v.dims and array_of(v) is not None]) or (None, None)
    if port is None:
        return None
    array, axis, new = array_of(value), rng.randrange(len(value.dims)), rng.choice((0, 1, 2, 3, 4, 8, 33))
    if not array.size or array.size // array.shape[axis] * new > 1 << 20:
        return None
    changed = numpy.take(array, [i % array.shape[axis] for i in range(new)], axis)
    fill(value, changed)
    declare(port, shape=[None] * changed.ndim)
    return f"'{port.name}' has shape {shape_text(changed.shape)}"


def shapes_open(rng, case):
    """No input declares its shape, or none declares its extents."""
    ports = [port for port, _ in case.ports()]
    if not ports:
        return None
    whole = rng.random() < 0.5
    for port in ports:
        if whole:
            port.type.tensor_type.ClearField("shape")
        else:
            for dim in port.type.tensor_type.shape.dim:
                dim.dim_param = rng.choice("nmk")
    return "undeclared shapes" if whole else "open extents"


def input_constant(rng, case):
    """An input becomes an initialiser, which loading may fold."""
    at = pick(rng, [i for i, (_, v) in enumerate(zip(case.model.graph.input, case.values)) if isinstance(v, TensorProto)])
    if at is None:
        return None
    port, value = case.model.graph.input[at], case.values.pop(at)
    value.name = port.name
    case.model.graph.initializer.append(value)
    del case.model.graph.input[at]
    return f"input '{value.name}' becomes an initialiser"


def constant_input(rng, case):
    """An initialiser becomes an input."""
    at = pick(rng, range(len(case.model.graph.initializer)))
    if at is None:
        return None
    tensor = TensorProto()
    tensor.CopyFrom(case.model.graph.initializer[at])
    del case.model.graph.initializer[at]
    if tensor.name not in [port.name for port in case.model.graph.input]:
        case.model.graph.input.append(helper.make_tensor_value_info(tensor.name, tensor.data_type, list(tensor.dims)))
        case.values.append(tensor)
    return f"initialiser '{tensor.name}' becomes an input"


def type_changed(rng, case):
    """All inputs of one type get another."""
    ports = [(port, value) for port, value in case.ports() if array_of(value) is not None]
    if not ports:
        return None
    old, new = rng.choice(ports)[1].data_type, rng.choice(PLAIN)
    kind = helper.tensor_dtype_to_np_dtype(new)
    for port, value in ports:
        if value.data_type == old:
            with numpy.errstate(all="ignore"):
                fill(value, array_of(value).astype(kind))
            declare(port, dtype=new)
    for port in case.model.graph.output:
        port.type.tensor_type.elem_type = port.type.tensor_type.elem_type if rng.random() < 0.5 else 0
    return f"inputs of type {old} become {new}"


def node_between(rng, case):
    """A node that changes layout or nothing stands before an input of a node."""
    graph, node = pick(rng, [(g, n) for g, n in case.nodes() if any(n.input)]) or (None, None)
    if node is None:
        return None
    at = pick(rng, [i for i, name in enumerate(node.input) if name])
    name, between = node.input[at], f"mutant_{rng.randrange(1 << 30)}"
    kind = rng.choice(("Identity", "Transpose", "twice", "Neg", "Abs", "Cast", "Sum"))
    made = {"Identity": lambda: [helper.make_node("Identity", [name], [between])],
            "Transpose": lambda: [helper.make_node("Transpose", [name], [between])],
            "twice": lambda: [helper.make_node("Transpose", [name], [f"{between}t"]),
                              helper.make_node("Identity", [f"{between}t"], [f"{between}i"]),
                              helper.make_node("Transpose", [f"{between}i"], [between])],
            "Neg": lambda: [helper.make_node("Neg", [name], [between])],
            "Abs": lambda: [helper.make_node("Abs", [name], [between])],
            "Cast": lambda: [helper.make_node("Cast", [name], [between], to=rng.choice(PLAIN))],
            "Sum": lambda: [helper.make_node("Sum", [name, name], [between])]}[kind]()
    index = next(i for i, n in enumerate(graph.node) if n is node or n == node)
    node.input[at] = between
    nodes = list(graph.node)
    copies = []
    for n in nodes[:index] + made + nodes[index:]:
        copies.append(onnx.NodeProto())
        copies[-1].CopyFrom(n)
    del graph.node[:]
    graph.node.extend(copies)
    return f"{kind} before input {at} of {node.op_type}"


def operator_alike(rng, case):
    """An operator becomes another of its kind."""
    pairs = [(node, group) for _, node in case.nodes() for group in ALIKE if node.op_type in group]
    node, group = pick(rng, pairs) or (None, None)
    if node is None:
        return None
    old, node.op_type = node.op_type, rng.choice(group)
    return f"{old} becomes {node.op_type}"


def attribute_near(rng, case):
    """A number of an attribute changes by a small amount."""
    node, a = pick(rng, case.attributes(AttributeProto.INT, AttributeProto.INTS, AttributeProto.FLOAT)) or (None, None)
    if node is None or (a.type == AttributeProto.INTS and not a.ints):
        return None
    if a.type == AttributeProto.INT:
        a.i = max(-2**63, min(2**63 - 1, rng.choice((a.i + 1, a.i - 1, *SMALL))))
    elif a.type == AttributeProto.FLOAT:
        a.f = rng.choice((a.f + 0.5, -a.f, 0.0, 2.0))
    else:
        at = rng.randrange(len(a.ints))
        a.ints[at] = max(-2**63, min(2**63 - 1, rng.choice((a.ints[at] + 1, a.ints[at] - 1, 0, 1, 2, 3))))
    return f"{node.op_type}: attribute {a.name} changes slightly"


def attribute_dropped(rng, case):
    node = pick(rng, [n for _, n in case.nodes() if n.attribute])
    if node is None:
        return None
    at = rng.randrange(len(node.attribute))
    name = node.attribute[at].name
    del node.attribute[at]
    return f"{node.op_type}: no attribute {name}"


def value_as_output(rng, case):
    """A value of the graph becomes one more output, or an output is removed."""
    graph = case.model.graph
    if len(graph.output) > 1 and rng.random() < 0.4:
        at = rng.randrange(len(graph.output))
        name = graph.output[at].name
        del graph.output[at]
        return f"no output '{name}'"
    names = [n for node in graph.node for n in node.output if n] + [port.name for port in graph.input]
    name = pick(rng, names)
    if name is None:
        return None
    graph.output.add().name = name
    return f"'{name}' is one more output"


# ---- mutations that usually leave a model that must be refused

def attribute_wild(rng, case):
    """A value of an attribute becomes an extreme one, or its list gets another length."""
    node, a = pick(rng, case.attributes()) or (None, None)
    if node is None:
        return None
    if a.type == AttributeProto.INT:
        a.i = rng.choice(INTEGERS)
    elif a.type == AttributeProto.FLOAT:
        a.f = min(max(rng.choice(FLOATS), -3e38), 3e38) if rng.random() < 0.5 else rng.choice((float("nan"), float("inf")))
    elif a.type == AttributeProto.STRING:
        a.s = rng.choice((rng.choice(TEXTS).encode(), b"\xff\xfe\x00x"))
    elif a.type == AttributeProto.INTS:
        ints_wild(rng, a)
    elif a.type == AttributeProto.STRINGS:
        a.strings.append(rng.choice(TEXTS).encode())
    elif a.type == AttributeProto.FLOATS:
        a.floats.append(rng.choice((float("nan"), 0.0, -1.0)))
    elif a.type == AttributeProto.GRAPH:
        graph_wild(rng, a.g)
    elif a.type == AttributeProto.TENSOR:
        tensor_wild(rng, a.t)
    return f"{node.op_type}: attribute {a.name} is extreme"


def ints_wild(rng, a):
    way = rng.randrange(6)
    if way == 5:
        a.ints[:] = [rng.choice((100, 4096, 10**5, 2**31 - 1))] * len(a.ints)
    elif way == 0:
        a.ints.append(rng.choice(SMALL))
    elif way == 1 and a.ints:
        del a.ints[rng.randrange(len(a.ints))]
    elif way == 2:
        del a.ints[:]
    elif way == 3:
        a.ints.extend([rng.choice(SMALL)] * rng.choice((8, 70, 1000)))
    elif a.ints:
        a.ints[rng.randrange(len(a.ints))] = rng.choice(INTEGERS)


def graph_wild(rng, graph):
    """A body gets fewer or more ports."""
    ports = rng.choice((graph.input, graph.output))
    if ports and rng.random() < 0.5:
        del ports[rng.randrange(len(ports))]
    elif rng.random() < 0.5:
        ports.add().name = "mutant"
    elif graph.node:
        del graph.node[rng.randrange(len(graph.node))]


def attribute_added(rng, case):
    node = pick(rng, [n for _, n in case.nodes()])
    if node is None:
        return None
    name = rng.choice(NAMES)
    value = rng.choice((rng.choice(INTEGERS), rng.choice(SMALL), [rng.choice(SMALL) for _ in range(rng.randrange(1, 6))],
                        1.5, rng.choice(TEXTS)))
    node.attribute.append(helper.make_attribute(name, value))
    return f"{node.op_type}: attribute {name} is {str(value)[:40]}"


def attribute_kind(rng, case):
    """An attribute has another kind, with or without its value."""
    node, a = pick(rng, case.attributes()) or (None, None)
    if node is None:
        return None
    a.type = rng.choice((0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 13))
    return f"{node.op_type}: attribute {a.name} has kind {a.type}"


def input_dropped(rng, case):
    node = pick(rng, [n for _, n in case.nodes() if n.input])
    if node is None:
        return None
    at = rng.randrange(len(node.input))
    if rng.random() < 0.5:
        node.input[at] = ""
        return f"{node.op_type}: input {at} is absent"
    del node.input[at]
    return f"{node.op_type}: input {at} is removed"


def input_other(rng, case):
    """An input of a node becomes another value of the model, or two are exchanged, or there is one more."""
    graph, node = pick(rng, [(g, n) for g, n in case.nodes() if n.input]) or (None, None)
    if node is None:
        return None
    names = [name for n in graph.node for name in (*n.input, *n.output) if name] + ["unknown"]
    at, way = rng.randrange(len(node.input)), rng.randrange(4)
    if way == 0 and len(node.input) > 1:
        other = rng.randrange(len(node.input))
        node.input[at], node.input[other] = node.input[other], node.input[at]
        return f"{node.op_type}: inputs {at} and {other} are exchanged"
    if way == 1:
        node.input.extend([rng.choice(names)] * rng.choice((1, 1, 3, 40)))
        return f"{node.op_type}: {len(node.input)} inputs"
    node.input[at] = rng.choice(names)
    return f"{node.op_type}: input {at} is '{node.input[at]}'"


def outputs_other(rng, case):
    node = pick(rng, [n for _, n in case.nodes() if n.output])
    if node is None:
        return None
    way = rng.randrange(4)
    if way == 0:
        del node.output[rng.randrange(len(node.output))]
    elif way == 1:
        node.output.extend(["mutant"] * rng.choice((1, 1, 30)))
    elif way == 2:
        node.output[rng.randrange(len(node.output))] = ""
    else:
        node.output[rng.randrange(len(node.output))] = rng.choice(list(node.input) or ["mutant"])
    return f"{node.op_type}: outputs {list(node.output)[:4]}"


def nodes_other(rng, case):
    """A node is doubled or removed, or the nodes are reversed."""
    graph, node = pick(rng, list(case.nodes())) or (None, None)
    if node is None:
        return None
    copies = []
    for n in graph.node:
        copies.append(onnx.NodeProto())
        copies[-1].CopyFrom(n)
    at, way = rng.randrange(len(copies)), rng.randrange(4)
    if way == 0:
        copies.append(copies[at])
    elif way == 1:
        second = onnx.NodeProto()
        second.CopyFrom(copies[at])
        second.name += "_second"
        for i, name in enumerate(second.output):
            second.output[i] = f"{name}_second"
        copies.append(second)
        graph.output.add().name = second.output[0] if second.output else ""
    elif way == 2:
        del copies[at]
    else:
        copies.reverse()
    del graph.node[:]
    graph.node.extend(copies)
    return f"{('a node is doubled', 'a second node', 'a node is removed', 'nodes are reversed')[way]}: {node.op_type}"


def domain_other(rng, case):
    node = pick(rng, [n for _, n in case.nodes()])
    if node is None:
        return None
    if rng.random() < 0.5:
        node.domain = rng.choice(("ai.onnx", "ai.onnx.ml", "com.microsoft", "x", "ai.onnx.preview.training"))
        return f"{node.op_type}: domain {node.domain}"
    node.op_type = rng.choice(("", "Unknown", "x" * 3000, rng.choice(rng.choice(ALIKE))))
    return f"operator '{node.op_type[:20]}'"


def opset_other(rng, case):
    imports = case.model.opset_import
    if not imports or rng.random() < 0.1:
        del imports[:]
        return "no opset"
    imports[rng.randrange(len(imports))].version = rng.choice(OPSETS)
    if rng.random() < 0.2:
        case.model.ir_version = rng.choice((0, 1, 3, 100, 2**62))
    return f"opset {imports[0].version}, IR {case.model.ir_version}"


def tensor_other(rng, case):
    tensor = pick(rng, case.tensors())
    return tensor and tensor_wild(rng, tensor)


def tensor_wild(rng, tensor):
    way = rng.randrange(7)
    if way == 0 and tensor.raw_data:
        tensor.raw_data = tensor.raw_data[:rng.randrange(len(tensor.raw_data))]
    elif way == 1 and tensor.dims:
        tensor.dims[rng.randrange(len(tensor.dims))] = rng.choice(INTEGERS)
    elif way == 2:
        tensor.dims.extend([rng.choice((1, 1, 0, 2, -1))] * rng.choice((1, 1, 9, 70)))
    elif way == 3:
        tensor.data_type = rng.choice(DTYPES)
    elif way == 4:
        tensor.float_data.append(1.0)
        tensor.int64_data.append(1)
    elif way == 5:
        tensor.data_location = TensorProto.EXTERNAL
        tensor.external_data.add(key="location", value=rng.choice(("none.bin", "../input_0.pb", "/etc/passwd", "model.onnx")))
        tensor.external_data.add(key="length", value=rng.choice(("1", "-1", "99999999999999999999")))
    elif tensor.dims:
        del tensor.dims[rng.randrange(len(tensor.dims))]
    return f"tensor '{tensor.name}' changes in way {way}"


def port_other(rng, case):
    """An input's declaration contradicts its value."""
    port, value = pick(rng, case.ports()) or (None, None)
    if port is None:
        return None
    way = rng.randrange(4)
    if way == 0:
        declare(port, dtype=rng.choice(DTYPES[:-1]))
    elif way == 1:
        declare(port, shape=[rng.choice(INTEGERS) for _ in range(rng.choice((0, 1, 2, 4, 9, 70)))])
    elif way == 2:
        port.type.Clear()
    else:
        port.type.Clear()
        port.type.sequence_type.elem_type.tensor_type.elem_type = value.data_type if value.data_type > 0 else 1
    return f"input '{port.name}' is declared otherwise"


def values_other(rng, case):
    """An input has another input's value, a value of another rank, or none."""
    at = pick(rng, range(len(case.values)))
    if at is None:
        return None
    way = rng.randrange(3)
    if way == 0:
        case.values[at] = rng.choice(case.values)
        return f"input {at} has another's value"
    if way == 1:
        del case.values[at:]
        return f"no values from input {at} on"
    value = case.values[at]
    array = array_of(value) if isinstance(value, TensorProto) else None
    if array is None:
        return None
    fill(value, array.reshape(rng.choice(((-1,), (1, *array.shape), (*array.shape, 1), (1, 1, 1, -1)))) if array.size
         else array)
    return f"input {at} has shape {shape_text(value.dims)}"


TAME = (values_special, values_special, values_scaled, batch_changed, batch_changed, axis_changed, shapes_open, input_constant,
        input_constant, constant_input, type_changed, node_between, node_between, operator_alike, attribute_near,
        attribute_dropped, value_as_output)
WILD = (attribute_wild, attribute_wild, attribute_wild, attribute_added, attribute_kind, input_dropped, input_dropped, input_other,
        input_other, outputs_other, nodes_other, domain_other, opset_other, tensor_other, tensor_other, port_other, values_other)
TAME_SHARE = 0.65  # of the mutants
EXPANDED_RANK = 0.7  # how far behind the others they are, of 1
BYTES_SHARE = 0.03  # whose model file is damaged


def mutate(rng, case):
    """Changes a case by one to three mutations. Returns their descriptions."""
    tame = rng.random() < TAME_SHARE
    done, wanted = [], rng.choice((1, 1, 2, 3))
    for _ in range(30):
        if len(done) == wanted:
            break
        mutation = rng.choice(TAME if tame or (done and rng.random() < 0.5) else WILD)
        text = mutation(rng, case)
        if text:
            done.append(text)
    return done


def damage(rng, data):
    """Changes bytes of a file."""
    data = bytearray(data)
    for _ in range(rng.choice((1, 2, 5))):
        at = rng.randrange(len(data))
        way = rng.randrange(3)
        if way == 0:
            data[at] = rng.randrange(256)
        elif way == 1:
            del data[at:at + rng.randrange(1, 9)]
        else:
            data[at:at] = data[at:at + rng.randrange(1, 9)]
        if not data:
            break
    return bytes(data)


def places_of(model):
    """The names by which a message can name a part of the model."""
    case, names = Case(model, []), {"opset", "ir_version"}
    for _, node in case.nodes():
        names.update((node.name, node.op_type, *node.input, *node.output))
        names.update(a.t.name for a in node.attribute if a.type == AttributeProto.TENSOR)
        names.update(part.name for a in node.attribute if a.HasField("g") for part in (a.g, *a.g.input, *a.g.output))
    graph = model.graph
    names.update(part.name for part in (graph, *graph.initializer, *graph.input, *graph.output, *graph.value_info))
    return sorted(name for name in names if name)


# ---- files

def value_of(path):
    """An input's value. The kind of the file is the one that its bytes are the canonical form of."""
    with open(path, "rb") as file:
        data = file.read()
    for kind in (TensorProto, onnx.SequenceProto, onnx.OptionalProto):
        value = kind()
        try:
            value.ParseFromString(data)
        except Exception:  # pylint: disable=broad-exception-caught
            continue
        known = value.SerializeToString() == data and not (isinstance(value, TensorProto) and not value.data_type)
        if known:
            return value
    return None


def read_case(folder):
    model = onnx.load(os.path.join(folder, "model.onnx"), load_external_data=False)
    values = []
    for i in range(len(model.graph.input)):
        path = os.path.join(folder, "test_data_set_0", f"input_{i}.pb")
        value = value_of(path) if os.path.exists(path) else None
        if value is None:
            break
        values.append(value)
    return Case(model, values)


def write_case(rng, case, begin):
    """Writes the files whose paths have this beginning. Returns the description of damage, or None."""
    data = case.model.SerializeToString()
    damaged = rng.random() < BYTES_SHARE and data
    with open(f"{begin}model.onnx", "wb") as file:
        file.write(damage(rng, data) if damaged else data)
    for i, value in enumerate(case.values):
        with open(f"{begin}input_{i}.pb", "wb") as file:
            file.write(value.SerializeToString())
    return "bytes of the file" if damaged else None


def choose(rng, names, n):
    """n of the names. Few of them are functions written out as other operators, of which the suite has many."""
    ranked = sorted(names, key=lambda name: rng.random() + (EXPANDED_RANK if "_expanded" in name else 0))
    return ranked[:n]


def main(names, suite, seed, models, runs, out):
    with open(names, encoding="utf-8") as file:
        names = json.load(file)
    chosen = choose(random.Random(f"{seed} models"), names, int(models))
    cases = [read_case(os.path.join(suite, name)) for name in chosen]
    written = []
    for number in range(int(runs)):
        rng = random.Random(f"{seed} {number}")
        case = cases[number % len(cases)].copy()
        done = mutate(rng, case)
        damaged = write_case(rng, case, os.path.join(out, f"{number}."))
        written.append({"model": chosen[number % len(cases)], "mutations": done + ([damaged] if damaged else []),
                        "places": places_of(case.model)})
    with open(os.path.join(out, "mutants.json"), "w", encoding="utf-8") as file:
        json.dump(written, file)


if __name__ == "__main__":
    main(*sys.argv[1:])
