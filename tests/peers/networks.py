# SPDX-License-Identifier: Apache-2.0
"""Writes known networks as ONNX models with random weights, as their exporters write them, for bench_models.py.

    python networks.py FOLDER NETWORK [open]     FOLDER/NETWORK.onnx, or FOLDER/NETWORK.open.onnx

Weights have the variance 2 / fan-in (He), norms the statistics of such weights, so that values keep their size from layer
to layer. `open` makes inputs of the graph of all weights of convolutions and products, which no side may change or pack
before a run then. The sources are the papers that the functions name.
"""
import os
import sys

OPSET = 17


class Network:
    """A graph that grows by nodes. Calls return the name of the node's output."""

    def __init__(self, name, inputs):
        import numpy  # pylint: disable=import-outside-toplevel

        self.numpy, self.name, self.inputs = numpy, name, inputs
        self.random = numpy.random.default_rng(list(name.encode()))
        self.nodes, self.fixed, self.products, self.outputs = [], {}, set(), []

    def add(self, op, *inputs, **attributes):
        from onnx import helper  # pylint: disable=import-outside-toplevel

        out = f"{op.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [out], out, **attributes))
        return out

    def numbers(self, values, kind="int64"):
        """A constant that is no weight: extents, axes, exponents."""
        array = self.numpy.array(values, kind)
        name = f"{kind}_{'x'.join(str(v) for v in array.reshape(-1))}_{array.ndim}"
        self.fixed[name] = array
        return name

    def weight(self, shape, fan_in):
        name = f"weight_{len(self.fixed)}"
        self.fixed[name] = self.random.standard_normal(shape, self.numpy.float32) * self.numpy.float32((2 / fan_in) ** 0.5)
        self.products.add(name)
        return name

    def vector(self, n, least, most):
        name = f"vector_{len(self.fixed)}"
        self.fixed[name] = self.random.uniform(least, most, n).astype(self.numpy.float32)
        return name

    # -- images

    def conv(self, x, channels, filters, window, step=1, group=1, bias=False):
        w = self.weight((filters, channels // group, window, window), channels // group * window * window)
        inputs = [x, w, self.vector(filters, -0.1, 0.1)] if bias else [x, w]
        return self.add("Conv", *inputs, kernel_shape=[window] * 2, strides=[step] * 2, pads=[window // 2] * 4, group=group)

    def norm(self, x, channels):
        return self.add("BatchNormalization", x, self.vector(channels, 0.8, 1.2), self.vector(channels, -0.1, 0.1),
                        self.vector(channels, -0.1, 0.1), self.vector(channels, 0.8, 1.2), epsilon=1e-5)

    def relu(self, x):
        return self.add("Relu", x)

    def pool(self, x, window, step, pad=0, kind="MaxPool"):
        return self.add(kind, x, kernel_shape=[window] * 2, strides=[step] * 2, pads=[pad] * 4)

    def classify(self, x, channels, classes=1000):
        return self.gemm(self.add("Flatten", self.add("GlobalAveragePool", x)), channels, classes)

    def gemm(self, x, n_in, n_out):
        return self.add("Gemm", x, self.weight((n_out, n_in), n_in), self.vector(n_out, -0.1, 0.1), transB=1)

    # -- sequences

    def linear(self, x, n_in, n_out):
        product = self.add("MatMul", x, self.weight((n_in, n_out), 2 * n_in))
        return self.add("Add", self.vector(n_out, -0.1, 0.1), product)

    def layer_norm(self, x, n, epsilon=1e-5):
        return self.add("LayerNormalization", x, self.vector(n, 0.8, 1.2), self.vector(n, -0.1, 0.1), epsilon=epsilon)

    def gelu(self, x):
        ratio = self.add("Erf", self.add("Div", x, self.numbers(2 ** 0.5, "float32")))
        return self.add("Mul", self.add("Mul", x, self.add("Add", ratio, self.numbers(1, "float32"))),
                        self.numbers(0.5, "float32"))

    def heads(self, x, n, width, order=(0, 2, 1, 3)):
        return self.add("Transpose", self.add("Reshape", x, self.numbers([0, 0, n, width])), perm=list(order))

    def attend(self, q, k, v, width, mask=None):
        """softmax(q k / sqrt(width) + mask) v. k has its last two axes swapped."""
        scores = self.add("Div", self.add("MatMul", q, k), self.numbers(width ** 0.5, "float32"))
        if mask:
            scores = self.add("Add", scores, mask)
        mixed = self.add("MatMul", self.add("Softmax", scores, axis=-1), v)
        return self.add("Reshape", self.add("Transpose", mixed, perm=[0, 2, 1, 3]), self.numbers([0, 0, -1]))

    def self_attention(self, x, hidden, n, mask=None):
        width = hidden // n
        q, k, v = (self.heads(self.linear(x, hidden, hidden), n, width, order)
                   for order in ((0, 2, 1, 3), (0, 2, 3, 1), (0, 2, 1, 3)))
        return self.linear(self.attend(q, k, v, width, mask), hidden, hidden)

    def feed_forward(self, x, hidden, activation):
        return self.linear(activation(self.linear(x, hidden, 4 * hidden)), 4 * hidden, hidden)

    # -- the file

    def model(self, is_open):
        from onnx import TensorProto, helper, numpy_helper  # pylint: disable=import-outside-toplevel

        given = self.products if is_open else set()
        kinds = {"float32": TensorProto.FLOAT, "int64": TensorProto.INT64}
        ports = [helper.make_tensor_value_info(name, kinds[kind], shape) for name, (kind, shape) in self.inputs.items()]
        ports += [helper.make_tensor_value_info(name, TensorProto.FLOAT, self.fixed[name].shape) for name in sorted(given)]
        outputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in self.outputs]
        fixed = [numpy_helper.from_array(array, name) for name, array in self.fixed.items() if name not in given]
        graph = helper.make_graph(self.nodes, self.name, ports, outputs, fixed)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=8)


def image(n, extent=224):
    return Network(n, {"x": ("float32", ["batch", 3, extent, extent])})


def resnet50():
    """He et al. 2016, with the stride in the 3x3 convolution (version 1.5)."""
    n = image("resnet50")
    x = n.pool(n.relu(n.norm(n.conv("x", 3, 64, 7, 2), 64)), 3, 2, 1)
    channels = 64
    for stage, blocks in enumerate((3, 4, 6, 3)):
        width = 64 << stage
        for block in range(blocks):
            step = 2 if stage and not block else 1
            y = n.relu(n.norm(n.conv(x, channels, width, 1), width))
            y = n.relu(n.norm(n.conv(y, width, width, 3, step), width))
            y = n.norm(n.conv(y, width, 4 * width, 1), 4 * width)
            x = x if block else n.norm(n.conv(x, channels, 4 * width, 1, step), 4 * width)
            x, channels = n.relu(n.add("Add", y, x)), 4 * width
    n.outputs = [n.classify(x, channels)]
    return n


def vgg19():
    """Simonyan and Zisserman 2015, configuration E."""
    n = image("vgg19")
    x, channels = "x", 3
    for filters, convolutions in ((64, 2), (128, 2), (256, 4), (512, 4), (512, 4)):
        for _ in range(convolutions):
            x, channels = n.relu(n.conv(x, channels, filters, 3, bias=True)), filters
        x = n.pool(x, 2, 2)
    x = n.relu(n.gemm(n.add("Flatten", x), 512 * 7 * 7, 4096))
    n.outputs = [n.gemm(n.relu(n.gemm(x, 4096, 4096)), 4096, 1000)]
    return n


def densenet121():
    """Huang et al. 2017."""
    n = image("densenet121")
    x, channels = n.pool(n.relu(n.norm(n.conv("x", 3, 64, 7, 2), 64)), 3, 2, 1), 64
    for stage, layers in enumerate((6, 12, 24, 16)):
        if stage:
            x = n.conv(n.relu(n.norm(x, channels)), channels, channels // 2, 1)
            x, channels = n.pool(x, 2, 2, kind="AveragePool"), channels // 2
        for _ in range(layers):
            y = n.conv(n.relu(n.norm(x, channels)), channels, 128, 1)
            y = n.conv(n.relu(n.norm(y, 128)), 128, 32, 3)
            x, channels = n.add("Concat", x, y, axis=1), channels + 32
    n.outputs = [n.classify(n.relu(n.norm(x, channels)), channels)]
    return n


def squeeze(n, x, channels, width, activation, gate):
    """A squeeze-and-excitation block (Hu et al. 2018)."""
    y = activation(n.conv(n.add("GlobalAveragePool", x), channels, width, 1, bias=True))
    return n.add("Mul", x, n.add(gate, n.conv(y, width, channels, 1, bias=True), **({"alpha": 1 / 6} if "Hard" in gate else {})))


def inverted(n, x, shape, squeezed, activation, gate="Sigmoid"):
    """An inverted residual block. shape: channels, wide channels, filters, window, step."""
    channels, wide, filters, window, step = shape
    y = activation(n.norm(n.conv(x, channels, wide, 1), wide)) if wide != channels else x
    y = activation(n.norm(n.conv(y, wide, wide, window, step, wide), wide))
    if squeezed:
        y = squeeze(n, y, wide, squeezed, n.relu if gate == "HardSigmoid" else activation, gate)
    y = n.norm(n.conv(y, wide, filters, 1), filters)
    return n.add("Add", x, y) if step == 1 and channels == filters else y


def mobilenet_v3():
    """Howard et al. 2019, large."""
    n = image("mobilenet_v3")

    def swish(x):
        return n.add("HardSwish", x)

    x = swish(n.norm(n.conv("x", 3, 16, 3, 2), 16))
    for channels, wide, filters, window, step, squeezed, activation in (
            (16, 16, 16, 3, 1, 0, n.relu), (16, 64, 24, 3, 2, 0, n.relu), (24, 72, 24, 3, 1, 0, n.relu),
            (24, 72, 40, 5, 2, 24, n.relu), (40, 120, 40, 5, 1, 32, n.relu), (40, 120, 40, 5, 1, 32, n.relu),
            (40, 240, 80, 3, 2, 0, swish), (80, 200, 80, 3, 1, 0, swish), (80, 184, 80, 3, 1, 0, swish),
            (80, 184, 80, 3, 1, 0, swish), (80, 480, 112, 3, 1, 120, swish), (112, 672, 112, 3, 1, 168, swish),
            (112, 672, 160, 5, 2, 168, swish), (160, 960, 160, 5, 1, 240, swish), (160, 960, 160, 5, 1, 240, swish)):
        x = inverted(n, x, (channels, wide, filters, window, step), squeezed, activation, "HardSigmoid")
    x = n.add("GlobalAveragePool", swish(n.norm(n.conv(x, 160, 960, 1), 960)))
    n.outputs = [n.gemm(swish(n.gemm(n.add("Flatten", x), 960, 1280)), 1280, 1000)]
    return n


def efficientnet_b0():
    """Tan and Le 2019. Exporters write SiLU as Sigmoid and Mul."""
    n = image("efficientnet_b0")

    def silu(x):
        return n.add("Mul", x, n.add("Sigmoid", x))

    x, channels = silu(n.norm(n.conv("x", 3, 32, 3, 2), 32)), 32
    for factor, filters, window, step, layers in ((1, 16, 3, 1, 1), (6, 24, 3, 2, 2), (6, 40, 5, 2, 2), (6, 80, 3, 2, 3),
                                                  (6, 112, 5, 1, 3), (6, 192, 5, 2, 4), (6, 320, 3, 1, 1)):
        for layer in range(layers):
            shape = (channels, factor * channels, filters, window, 1 if layer else step)
            x, channels = inverted(n, x, shape, channels // 4, silu), filters
    n.outputs = [n.classify(silu(n.norm(n.conv(x, 320, 1280, 1), 1280)), 1280)]
    return n


def unet():
    """Ronneberger et al. 2015, with padded convolutions and norms, 32 to 512 channels, for 256x256."""
    n = image("unet", 256)

    def double(x, channels, filters):
        for given in (channels, filters):
            x = n.relu(n.norm(n.conv(x, given, filters, 3), filters))
        return x

    x, channels, kept = "x", 3, []
    for filters in (32, 64, 128, 256):
        x, channels = double(x, channels, filters), filters
        kept.append(x)
        x = n.pool(x, 2, 2)
    x, channels = double(x, channels, 512), 512
    for filters in (256, 128, 64, 32):
        w = n.weight((channels, filters, 2, 2), channels)
        x = n.add("ConvTranspose", x, w, n.vector(filters, -0.1, 0.1), kernel_shape=[2, 2], strides=[2, 2])
        x, channels = double(n.add("Concat", kept.pop(), x, axis=1), 2 * filters, filters), filters
    n.outputs = [n.conv(x, channels, 2, 1, bias=True)]
    return n


def vit_b16():
    """Dosovitskiy et al. 2021. The class token is a row that Concat puts before the patches."""
    n, hidden = image("vit_b16"), 768
    w = n.weight((hidden, 3, 16, 16), 768)
    x = n.add("Conv", "x", w, n.vector(hidden, -0.1, 0.1), kernel_shape=[16, 16], strides=[16, 16])
    x = n.add("Transpose", n.add("Reshape", x, n.numbers([0, hidden, -1])), perm=[0, 2, 1])
    batch = n.add("Slice", n.add("Shape", "x"), n.numbers([0]), n.numbers([1]))
    token = n.add("Expand", n.add("Reshape", n.vector(hidden, -1, 1), n.numbers([1, 1, hidden])),
                  n.add("Concat", batch, n.numbers([1, hidden]), axis=0))
    x = n.add("Add", n.add("Concat", token, x, axis=1), n.weight((1, 197, hidden), 50))
    for _ in range(12):
        x = n.add("Add", n.self_attention(n.layer_norm(x, hidden), hidden, 12), x)
        x = n.add("Add", n.feed_forward(n.layer_norm(x, hidden), hidden, n.gelu), x)
    first = n.add("Gather", n.layer_norm(x, hidden), n.numbers(0), axis=1)
    n.outputs = [n.gemm(first, hidden, 1000)]
    return n


def bert_base():
    """Devlin et al. 2019, encoder, 12 layers; the embeddings of 30,522 words, positions and a mask of int64."""
    n, hidden = Network("bert_base", {"ids": ("int64", ["batch", 128]), "mask": ("int64", ["batch", 128])}), 768
    hidden_places = n.add("Sub", n.numbers(1, "float32"), n.add("Cast", "mask", to=1))
    mask = n.add("Mul", n.add("Unsqueeze", hidden_places, n.numbers([1, 2])), n.numbers(-10000, "float32"))
    x = n.add("Add", n.add("Gather", n.weight((30522, hidden), 50), "ids"), n.weight((1, 128, hidden), 50))
    x = n.layer_norm(x, hidden, 1e-12)
    for _ in range(12):
        x = n.layer_norm(n.add("Add", n.self_attention(x, hidden, 12, mask), x), hidden, 1e-12)
        x = n.layer_norm(n.add("Add", n.feed_forward(x, hidden, n.gelu), x), hidden, 1e-12)
    n.outputs = [x]
    return n


def gpt2():
    """Radford et al. 2019, small: one token, the keys and values of `past` tokens, and those with the token's as outputs."""
    hidden, heads, width, layers, words = 768, 12, 64, 12, 50257
    cache = ("float32", ["batch", heads, "past", width])
    n = Network("gpt2", {"ids": ("int64", ["batch", 1]), "position": ("int64", ["batch", 1]),
                         **{f"{part}.{i}": cache for i in range(layers) for part in ("key", "value")}})

    def gelu(x):  # by tanh
        inner = n.add("Add", x, n.add("Mul", n.add("Pow", x, n.numbers(3, "float32")), n.numbers(0.044715, "float32")))
        ratio = n.add("Tanh", n.add("Mul", inner, n.numbers((2 / 3.141592653589793) ** 0.5, "float32")))
        return n.add("Mul", n.add("Mul", x, n.numbers(0.5, "float32")), n.add("Add", ratio, n.numbers(1, "float32")))

    x = n.add("Add", n.add("Gather", n.weight((words, hidden), 50), "ids"), n.add("Gather", n.weight((1088, hidden), 50), "position"))
    present = []
    for i in range(layers):
        joined = n.linear(n.layer_norm(x, hidden), hidden, 3 * hidden)
        q, k, v = (n.heads(n.add("Slice", joined, n.numbers([part * hidden]), n.numbers([(part + 1) * hidden]), n.numbers([2])),
                           heads, width) for part in range(3))
        k, v = (n.add("Concat", f"{part}.{i}", new, axis=2) for part, new in (("key", k), ("value", v)))
        present += [k, v]
        mixed = n.attend(q, n.add("Transpose", k, perm=[0, 1, 3, 2]), v, width)
        x = n.add("Add", x, n.linear(mixed, hidden, hidden))
        x = n.add("Add", x, n.feed_forward(n.layer_norm(x, hidden), hidden, gelu))
    n.outputs = [n.add("MatMul", n.layer_norm(x, hidden), n.weight((hidden, words), hidden)), *present]
    return n


NETWORKS = {build.__name__: build for build in (
    resnet50, vgg19, densenet121, mobilenet_v3, efficientnet_b0, unet, vit_b16, bert_base, gpt2)}


def main(folder, name, *more):
    import onnx  # pylint: disable=import-outside-toplevel

    network = NETWORKS[name]()
    network.numpy.savez(os.path.join(folder, f"{name}.weights.npz"),
                        **{weight: network.fixed[weight] for weight in sorted(network.products)} if more else {})
    onnx.save(network.model(bool(more)), os.path.join(folder, f"{name}.open.onnx" if more else f"{name}.onnx"))


if __name__ == "__main__":
    main(*sys.argv[1:])
