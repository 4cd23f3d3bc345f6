# SPDX-License-Identifier: Apache-2.0
"""Measures steps of training on cpu and in PyTorch, by turns, for `./dev peers bench training`, and compares their results.

    python bench_training.py serve FOLDER                  PyTorch, a server with turns.py's commands
    python bench_training.py write FOLDER NETWORK          writes the values that both sides begin with
    python bench_training.py compare FOLDER NETWORK        compares the results that both servers wrote

A step is the forward, the gradients of all parameters and the update by SGD, on the same batch each time, in f32. Our side is
train_steps.c, whose step is one compiled program; PyTorch runs eagerly, with its gradients and its optimiser. Both sides
begin with the same values. `./dev peers test --all` compares the results alone.
"""
import os
import subprocess
import sys
import time

import turns

STEPS, RATE = 2, 0.01  # as in train_steps.c
THREADS, TARGET = (1, 2), 1.0
BUDGET = 240
# Parameters are compared by what the steps added to them, as are statistics: the length of the difference may be a part of the
# length of what was added. Sums of K products in f32, in another order, are wrong by about sqrt(K) 2^-24: 8e-6 for the K of
# 16,384 of a gradient of filters. The errors of some 50 layers, forward and backward, twice, are independent and add up to ten
# times that: 1e-3 leaves a factor of ten. Each step also rounds a parameter, by 2^-24.
# Where the input of relu is 0 but for rounding, one side passes a gradient on that the other one does not: of a million inputs
# about one in each layer, as errors are 1e-6 of an input. One of the 65,536 inputs of the MLP's layers changes the length of a
# gradient by 1 / sqrt(65,536) = 4e-3. Networks with relu may have 25 of these: 5 times 4e-3.
SMOOTH, RELU, ROUNDING = 1e-3, 2e-2, STEPS * 2 ** -24


class Values:
    """The values of a network in the order of its file: made from a seed, or read from that file."""

    def __init__(self, name, path=None):
        import numpy  # pylint: disable=import-outside-toplevel

        self.numpy, self.path, self.at = numpy, path, 0
        self.random = numpy.random.default_rng(list(name.encode()))
        self.batch, self.parameters, self.statistics = [], [], []

    def read(self, kind, shape):
        array = self.numpy.fromfile(self.path, kind, int(self.numpy.prod(shape)), offset=self.at).reshape(shape)
        self.at += array.nbytes
        return array

    def normal(self, *shape, scale=1.0, middle=0.0):
        if self.path:
            return self.read(self.numpy.float32, shape)
        return (middle + scale * self.random.standard_normal(shape)).astype(self.numpy.float32)

    def given(self, *shape):
        self.batch.append(self.normal(*shape))

    def labels(self, n, classes):
        self.batch.append(self.read(self.numpy.int64, (n,)) if self.path else self.random.integers(0, classes, n))

    def weight(self, *shape):
        self.parameters.append(self.normal(*shape, scale=(2 / self.numpy.prod(shape[1:])) ** 0.5))

    def vector(self, n, middle=0.0):
        self.parameters.append(self.normal(n, scale=0.1, middle=middle))

    def linear(self, n_in, n_out, bias=True):
        self.weight(n_out, n_in)
        if bias:
            self.vector(n_out)

    def conv(self, channels, filters, window):
        self.weight(filters, channels, window, window)
        self.norm(filters)
        self.statistics += [self.numpy.full(filters, first, self.numpy.float32) for first in (0, 1)]

    def norm(self, n):
        self.vector(n, 1)
        self.vector(n)


# ---- networks: their values, and their losses in PyTorch. Both take parameters in the same order as train_steps.c.

BLOCKS = ((64, 64, 1), (64, 64, 1), (64, 128, 2), (128, 128, 1), (128, 256, 2), (256, 256, 1))


def mlp_values(v):
    v.given(128, 784)
    v.labels(128, 10)
    for n_in, n_out in ((784, 512), (512, 512), (512, 10)):
        v.linear(n_in, n_out)


def mlp_loss(f, x, label, take, _):
    x = f.relu(f.linear(x, take(), take()))
    x = f.relu(f.linear(x, take(), take()))
    return f.cross_entropy(f.linear(x, take(), take()), label)


def resnet_values(v):
    v.given(16, 3, 32, 32)
    v.labels(16, 10)
    v.conv(3, 64, 3)
    for channels, filters, _ in BLOCKS:
        v.conv(channels, filters, 3)
        v.conv(filters, filters, 3)
        if channels != filters:
            v.conv(channels, filters, 1)
    v.linear(256, 10)


def resnet_loss(f, x, label, take, statistic):
    def conv(x, step=1, pad=1):
        x = f.conv2d(x, take(), stride=step, padding=pad)
        scale, bias, mean, variance = take(), take(), statistic(), statistic()
        return f.batch_norm(x, mean, variance, scale, bias, training=True, momentum=0.1)

    x = f.relu(conv(x))
    for channels, filters, step in BLOCKS:
        y = conv(f.relu(conv(x, step)))
        x = f.relu(y + (x if channels == filters else conv(x, step, 0)))
    return f.cross_entropy(f.linear(x.mean((2, 3)), take(), take()), label)


def transformer_values(v):
    v.given(8, 128, 256)
    v.given(8, 128, 256)
    for _ in range(3):
        v.linear(256, 256, False)
    v.linear(256, 256)
    v.norm(256)
    v.linear(256, 1024)
    v.linear(1024, 256)
    v.norm(256)


def transformer_loss(f, x, target, take, _):
    q, k, v = (f.linear(x, take()).view(8, 128, 8, 32).transpose(1, 2) for _ in range(3))
    y = f.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(8, 128, 256)
    x = f.layer_norm(f.linear(y, take(), take()) + x, (256,), take(), take())
    y = f.linear(f.gelu(f.linear(x, take(), take())), take(), take())
    return f.mse_loss(f.layer_norm(y + x, (256,), take(), take()), target)


# Title: the name in train_steps.c, the values, the loss, the tolerance.
NETWORKS = {
    "MLP 784-512-512-10, batch 128": ("mlp", mlp_values, mlp_loss, RELU),
    "ResNet-18 of 3 stages, 32x32, batch 16": ("resnet", resnet_values, resnet_loss, RELU),
    "transformer layer, 8x128x256, 8 heads": ("transformer", transformer_values, transformer_loss, SMOOTH),
}


def network_of(name):
    return next(network for network in NETWORKS.values() if network[0] == name)


# ---- in the environment's python

def values_of(name, path=None):
    values = Values(name, path)
    network_of(name)[1](values)
    return values


def write(folder, name):
    values = values_of(name)
    with open(os.path.join(folder, f"{name}.bin"), "wb") as file:
        for array in (*values.batch, *values.parameters):
            array.tofile(file)
    return 0


class Theirs:
    """A network in PyTorch."""

    def __init__(self, path):
        import torch  # pylint: disable=import-outside-toplevel

        torch.set_num_threads(int(os.environ["BP_THREADS"]))
        name = os.path.basename(path)
        values = values_of(name, f"{path}.bin")
        self.function, self.record = torch.nn.functional, network_of(name)[2]
        self.batch, self.statistics, self.parameters = (
            [torch.from_numpy(array) for array in arrays] for arrays in (values.batch, values.statistics, values.parameters))
        for parameter in self.parameters:
            parameter.requires_grad_()
        self.optimiser, self.loss = torch.optim.SGD(self.parameters, RATE), None

    def step(self):
        self.loss = self.record(self.function, *self.batch, iter(self.parameters).__next__, iter(self.statistics).__next__)
        self.optimiser.zero_grad()
        self.loss.backward()
        self.optimiser.step()

    def write(self, path):
        with open(path, "wb") as file:
            for tensor in (self.loss, *self.statistics, *self.parameters):
                tensor.detach().numpy().tofile(file)


def serve(folder):
    theirs = None
    for line in sys.stdin:
        command, value, *more = line.rstrip("\n").split("\t")
        seconds = 0
        if command == "open":
            theirs = Theirs(more[0])
            for _ in range(STEPS):
                theirs.step()
            theirs.write(os.path.join(folder, f"{value}.theirs.bin"))
        elif command == "run":
            begin = time.perf_counter()
            for _ in range(int(value)):
                theirs.step()
            seconds = (time.perf_counter() - begin) / int(value)
        print(seconds, flush=True)
    return 0


def difference(title, tolerance, begun, got, expected):
    """Why a result is wrong, or None. begun: the value before the steps."""
    import numpy  # pylint: disable=import-outside-toplevel

    begun, got, expected = (array.astype(numpy.float64) for array in (begun, got, expected))
    length = numpy.linalg.norm
    limit = tolerance * length(expected - begun) + ROUNDING * length(expected)
    if length(expected - begun) == 0:
        return f"{title}: PyTorch's steps left it as it was"
    if not length(got - expected) <= limit:  # NaN too
        return f"{title}: the difference is {length(got - expected):.3g}, expected at most {limit:.3g}"
    return None


def compare(folder, name):
    """Prints `right` or the first difference: of the loss, the statistics, the parameters."""
    import numpy  # pylint: disable=import-outside-toplevel

    values = values_of(name)
    begun = [numpy.zeros((), numpy.float32), *values.statistics, *values.parameters]
    size = sum(array.nbytes for array in begun)
    files = [os.path.join(folder, f"{name}.{side}.bin") for side in ("ours", "theirs")]
    wrong = next((f"{path} has {os.path.getsize(path)} bytes, expected {size}" for path in files
                  if os.path.getsize(path) != size), None)
    at = 0
    for number, array in enumerate(begun):
        results = [numpy.fromfile(path, numpy.float32, array.size, offset=at).reshape(array.shape) for path in files]
        at += array.nbytes
        wrong = wrong or difference(f"result {number} of {len(begun)}", network_of(name)[3], array, *results)
    print(wrong or "right")
    return 0


# ---- in the process of peers.py

class Server(turns.Server):
    """One side of the measurement, at the same priority as the other one."""

    def __init__(self, peer, side, folder, threads):  # pylint: disable=super-init-not-called
        command = ([os.path.join(peer.build, "tests", "peers", "train_steps"), "cpu:0"] if side == "ours"
                   else [peer.python, os.path.abspath(__file__), "serve", folder])
        self.side = side
        self.process = subprocess.Popen(
            ["nice", "-n", "10", *command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env={**os.environ, **turns.settings_of(peer.build, threads), "OMP_NUM_THREADS": str(threads)})


def script(peer, *arguments):
    """The output of this file in the environment's python."""
    code, output = peer.call([peer.python, os.path.abspath(__file__), *arguments], turns.SERVER_SECONDS)
    if code:
        raise turns.ServerError(f"{' '.join(arguments)}: exit status {code}\n{output}")
    return output.strip()


def on_both(peer, title, threads, action):
    """The result of action(sides, name, path) on a network that both sides have, after a comparison that is counted."""
    folder, name = os.path.join(peer.folder, "training"), NETWORKS[title][0]
    os.makedirs(folder, exist_ok=True)
    sides = {}
    try:
        script(peer, "write", folder, name)
        sides.update((side, Server(peer, side, folder, threads)) for side in ("ours", "theirs"))
        result = action(sides, name, os.path.join(folder, name))
        text = script(peer, "compare", folder, name)
    except turns.ServerError as error:
        result, text = None, str(error)
    finally:
        for server in sides.values():
            server.close()
    if text == "right":
        peer.count.pass_()
    else:
        peer.count.fail(f"peers/training/{title}, {threads} threads", text)
    return result, text


def open_both(sides, name, path):
    for server in sides.values():
        server.ask("open", name, path)


def test(peer):
    with peer.step("networks", BUDGET):
        for title in NETWORKS:
            for threads in THREADS:
                on_both(peer, title, threads, open_both)


def line_of(title, threads, measured, text):
    ours, theirs, _ = measured
    ratio, ratio_text = turns.ratio_of(measured)
    note = "" if text == "right" else f": {text}"
    note += ": missed" if ratio > TARGET else ""
    return f"| {title} | {threads} | {1e3 * ours:.2f} | {1e3 * theirs:.2f} | {ratio_text}{note} | {TARGET:.2f} |"


def bench(peer, wanted):
    """Prints and writes the table of all networks whose titles contain `wanted`."""
    lines = ["| step of training, f32 | threads | ours, ms | PyTorch, ms | ratio of times | target |", "|---|---|---|---|---|---|"]
    print("\n".join(["", *lines]), flush=True)
    for title in NETWORKS:
        for threads in THREADS if wanted.lower() in title.lower() else ():
            measured, text = on_both(peer, title, threads, turns.measure)
            if measured:
                lines.append(line_of(title, threads, measured, text))
                print(lines[-1], flush=True)
    turns.write_table(os.path.join(peer.folder, "training.md"), lines)


if __name__ == "__main__":
    sys.exit({"serve": serve, "write": write, "compare": compare}[sys.argv[1]](*sys.argv[2:]))
