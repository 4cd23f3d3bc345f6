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

import training_networks as networks
import turns

STEPS, RATE = 2, 0.01  # as in train_steps.c
THREADS = 1, 2
BUDGET = 480
# Parameters are compared by what the steps added to them, as are statistics: the length of the difference may be a part of the
# length of what was added. Sums of K products in f32, in another order, are wrong by about sqrt(K) 2^-24: 8e-6 for the K of
# 16,384 of a gradient of filters. The errors of some 50 layers, forward and backward, twice, are independent and add up to ten
# times that: 1e-3 leaves a factor of ten. Each step also rounds a parameter, by 2^-24.
# Where the input of relu is 0 but for rounding, one side passes a gradient on that the other one does not: of a million inputs
# about one in each layer, as errors are 1e-6 of an input. One of the 65,536 inputs of the MLP's layers changes the length of a
# gradient by 1 / sqrt(65,536) = 4e-3. Networks with relu may have 25 of these: 5 times 4e-3.
# Deep networks amplify these errors. PyTorch therefore does the same steps in f64 too: a result may be as far from those as
# AMPLIFIED times PyTorch's own result in f32 is.
SMOOTH, RELU, ROUNDING, AMPLIFIED = 1e-3, 2e-2, STEPS * 2 ** -24, 4

# Title: the name in train_networks.c, the values, the loss, the tolerance, the ratio of times that our side may take.
NETWORKS = {
    "MLP 784-512-512-10, batch 128": ("mlp", networks.mlp_values, networks.mlp_loss, RELU, 1.0),
    "ResNet-18 of 3 stages, 32x32, batch 16": ("resnet", networks.resnet_values, networks.resnet_loss, RELU, 1.0),
    "transformer layer, 8x128x256, 8 heads": ("transformer", networks.transformer_values, networks.transformer_loss, SMOOTH, 1.0),
    "ResNet-50, 224x224, batch 4": ("resnet50", networks.resnet50_values, networks.resnet50_loss, RELU, 1.0),
    "BERT-base, 128 tokens, batch 4": ("bert", networks.bert_values, networks.bert_loss, SMOOTH, 0.9),
}


def network_of(name):
    return next(network for network in NETWORKS.values() if network[0] == name)


# ---- in the environment's python

def values_of(name, path=None):
    values = networks.Values(name, path)
    network_of(name)[1](values)
    return values


def write(folder, name):
    values = values_of(name)
    with open(os.path.join(folder, f"{name}.bin"), "wb") as file:
        for array in (*values.batch, *values.parameters):
            array.tofile(file)
    return 0


class Theirs:
    """A network in PyTorch. exact: in f64."""

    def __init__(self, path, exact=False):
        import torch  # pylint: disable=import-outside-toplevel

        torch.set_num_threads(int(os.environ["BP_THREADS"]))
        name = os.path.basename(path)
        values = values_of(name, f"{path}.bin")
        self.function, self.record = torch.nn.functional, network_of(name)[2]
        self.batch, self.statistics, self.parameters = (
            [torch.from_numpy(array.astype("f8") if exact and array.dtype == "f4" else array) for array in arrays]
            for arrays in (values.batch, values.statistics, values.parameters))
        for parameter in self.parameters:
            parameter.requires_grad_()
        self.optimiser, self.loss = torch.optim.SGD(self.parameters, RATE), None

    def step(self):
        self.loss = self.record(self.function, *self.batch, iter(self.parameters).__next__, iter(self.statistics).__next__)
        self.optimiser.zero_grad()
        self.loss.backward()
        self.optimiser.step()

    def begin(self, path):
        """Trains STEPS steps and writes their results."""
        for _ in range(STEPS):
            self.step()
        with open(path, "wb") as file:
            for tensor in (self.loss, *self.statistics, *self.parameters):
                tensor.detach().numpy().tofile(file)
        return self


def serve(folder):
    theirs = None
    for line in sys.stdin:
        command, value, *more = line.rstrip("\n").split("\t")
        seconds = 0
        if command == "open":
            Theirs(more[0], True).begin(os.path.join(folder, f"{value}.exact.bin"))
            theirs = Theirs(more[0]).begin(os.path.join(folder, f"{value}.theirs.bin"))
        elif command == "run":
            begin = time.perf_counter()
            for _ in range(int(value)):
                theirs.step()
            seconds = (time.perf_counter() - begin) / int(value)
        print(seconds, flush=True)
    return 0


def difference(title, tolerance, begun, got, theirs, exact):
    """Why a result is wrong, or None. begun: the value before the steps."""
    import numpy  # pylint: disable=import-outside-toplevel

    begun, got, theirs = (array.astype(numpy.float64) for array in (begun, got, theirs))
    length = numpy.linalg.norm
    limit = max(tolerance * length(exact - begun), AMPLIFIED * length(theirs - exact)) + ROUNDING * length(exact)
    if length(theirs - begun) == 0:
        return f"{title}: PyTorch's steps left it as it was"
    if not length(got - exact) <= limit:  # NaN too
        return (f"{title}: the difference is {length(got - exact):.3g}, expected at most {limit:.3g}; PyTorch's is "
                f"{length(theirs - exact):.3g}")
    return None


def results_of(path, like, kind):
    """The arrays in a file of results, one by one."""
    import numpy  # pylint: disable=import-outside-toplevel

    at, size = 0, sum(array.size for array in like) * numpy.dtype(kind).itemsize
    if os.path.getsize(path) != size:
        raise ValueError(f"{path} has {os.path.getsize(path)} bytes, expected {size}")
    for array in like:
        yield numpy.fromfile(path, kind, array.size, offset=at).reshape(array.shape)
        at += array.size * numpy.dtype(kind).itemsize


def compare(folder, name):
    """Prints `right` or the first difference: of the loss, the statistics, the parameters."""
    import numpy  # pylint: disable=import-outside-toplevel

    values = values_of(name)
    begun = [numpy.zeros((), numpy.float32), *values.statistics, *values.parameters]
    sides = [results_of(os.path.join(folder, f"{name}.{side}.bin"), begun, kind)
             for side, kind in (("ours", "f4"), ("theirs", "f4"), ("exact", "f8"))]
    try:
        wrong = next((text for text in (
            difference(f"result {number} of {len(begun)}", network_of(name)[3], *arrays)
            for number, arrays in enumerate(zip(begun, *sides))) if text), None)
    except ValueError as error:
        wrong = str(error)
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
    target = NETWORKS[title][4]
    note += ": missed" if ratio > target else ""
    return f"| {title} | {threads} | {1e3 * ours:.2f} | {1e3 * theirs:.2f} | {ratio_text}{note} | {target:.2f} |"


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
