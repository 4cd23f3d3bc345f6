# SPDX-License-Identifier: Apache-2.0
"""Runs models on cpu and in ONNX Runtime by turns, and measures both: servers for the measurements of `./dev peers bench`.

    python turns.py theirs FOLDER                          ONNX Runtime, a server on standard input and output
    python turns.py ours FOLDER LIBBACKPLANE_ONNX [DEVICE] a caller of the library, the same
    python turns.py first theirs|ours FILE.onnx FOLDER FEEDS... [LIBBACKPLANE_ONNX]
                                                           prints seconds of load and first run, and MB at most
    python turns.py compare FOLDER NAME                    compares the outputs that both servers kept

Both sides are processes that live for the whole measurement. A server takes lines of words between tabs: `open NAME FILE
FEEDS...` loads a model with the inputs of FEEDS.npz, runs it and keeps its outputs in FOLDER/NAME.SIDE.npz, `bind N` makes
our side bind the caches of the models that are opened later, with N places (0: it binds none), `run N` runs a model N times and returns the seconds of one run, of `bp_model_run` with `bp_stream_synchronize` or `run_with_iobinding` alone.
Each round measures one side after the other, so that other users of the machine disturb both alike. A round begins after a
pause, in which the threads of the other side fall asleep: they wait for more work first, those of ONNX Runtime for some 25
ms, and one of two processors would run them.
"""
import contextlib
import ctypes
import functools
import os
import statistics
import subprocess
import sys
import threading
import time

import real_models

ROUNDS, ROUND_SECONDS, PAUSE_SECONDS = 9, 0.1, 0.1
SERVER_SECONDS = 120


# ---- the servers

class Theirs:
    """A model in ONNX Runtime."""

    def __init__(self, path, feeds):
        import onnxruntime  # pylint: disable=import-outside-toplevel

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = int(os.environ["BP_THREADS"]), 1
        options.log_severity_level = 3
        self.session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        self.binding = self.session.io_binding()
        for name, value in feeds.items():
            self.binding.bind_cpu_input(name, value)
        for port in self.session.get_outputs():
            self.binding.bind_output(port.name)

    def run(self):
        self.session.run_with_iobinding(self.binding)

    def outputs(self):
        return self.binding.copy_outputs_to_cpu()

    def close(self):
        self.binding = self.session = None


class Ours(real_models.Caller):
    """The same model on a device. Outputs are released when the next run begins."""

    def __init__(self, library, device, path, feeds):
        super().__init__(library, path, device)
        self.given = [self.tensor_of(feeds[name]) for name in self.names()]
        self.n_out = self.c.bp_model_outputs(self.model)
        self.out = (ctypes.c_void_p * self.n_out)()
        self.arguments = (ctypes.c_void_p * len(self.given))(*(t.value for t in self.given))

    def release(self):
        for i in range(self.n_out):
            self.c.bp_tensor_destroy(ctypes.c_void_p(self.out[i]))
            self.out[i] = None

    def run(self):
        self.release()
        self.call("bp_model_run", self.model, self.stream, self.arguments, ctypes.c_size_t(len(self.given)), self.out,
                  ctypes.c_size_t(self.n_out))
        self.call("bp_stream_synchronize", self.stream)

    def outputs(self):
        return [self.array_of(ctypes.c_void_p(tensor)) for tensor in self.out]

    def close(self):
        self.release()
        for tensor in self.given:
            self.c.bp_tensor_destroy(tensor)
        for kind in ("model", "stream", "device", "core"):
            getattr(self.c, f"bp_{kind}_destroy")(getattr(self, kind))


class Bound(Ours):
    """A decoder whose caches are bound: its inputs of four axes, and as many outputs behind the first. Each run gets
    the first places of the bound caches, as the run after `past` tokens does."""

    def __init__(self, library, device, path, feeds, capacity):
        super().__init__(library, device, path, feeds)
        names = list(self.names())
        caches = [i for i, name in enumerate(names) if feeds[name].ndim == 4]
        port = real_models.Port(size=ctypes.sizeof(real_models.Port))
        for output, i in enumerate(caches, 1):
            self.call("bp_model_output", self.model, output, ctypes.byref(port))
            self.call("bp_model_bind", self.model, port.name, names[i].encode(), ctypes.c_int64(capacity))
        self.run()
        for output, i in enumerate(caches, 1):
            self.c.bp_tensor_destroy(self.given[i])
            self.given[i] = self.make("bp_tensor_slice", ctypes.c_void_p(self.out[output]), ctypes.c_int64(2), ctypes.c_int64(0),
                                      ctypes.c_int64(feeds[names[i]].shape[2]), ctypes.c_int64(1))
            self.arguments[i] = self.given[i].value


def read_feeds(folder, names):
    """{input: array} of all files."""
    import numpy  # pylint: disable=import-outside-toplevel

    given = {}
    for name in names:
        with numpy.load(os.path.join(folder, f"{name}.npz")) as feeds:
            given.update({port: feeds[port] for port in feeds.files})
    return given


def make_caller(side, path, feeds, library=None, device="cpu:0", capacity=0):
    if side == "theirs":
        return Theirs(path, feeds)
    return Bound(library, device, path, feeds, capacity) if capacity else Ours(library, device, path, feeds)


def resident(key):
    """Megabytes of this process: VmRSS now, or VmHWM, the most there were."""
    with open("/proc/self/status", encoding="ascii") as file:
        return next(int(line.split()[1]) for line in file if line.startswith(key)) / 1024


def first(side, path, folder, *more):
    """Prints the seconds until the first run has ended, and by how many megabytes the process grew at most."""
    library = more[-1:] if side == "ours" else ()
    feeds = read_feeds(folder, more[:-1] if library else more)
    before, begin = resident("VmRSS"), time.perf_counter()
    make_caller(side, path, feeds, *library).run()
    print(time.perf_counter() - begin, resident("VmHWM") - before)
    return 0


def serve(side, folder, *library):
    import numpy  # pylint: disable=import-outside-toplevel

    caller, capacity = None, 0
    for line in sys.stdin:
        command, value, *more = line.rstrip("\n").split("\t")
        if command == "bind":
            capacity = int(value)
            print("0", flush=True)
        elif command == "open":
            if caller:
                caller.close()
            caller = make_caller(side, more[0], read_feeds(folder, more[1:]), *library, capacity=capacity)
            caller.run()
            numpy.savez(os.path.join(folder, f"{value}.{side}.npz"), *caller.outputs())
            print("0", flush=True)
        else:
            begin = time.perf_counter()
            for _ in range(int(value)):
                caller.run()
            print((time.perf_counter() - begin) / int(value), flush=True)
    return 0


def difference_of(got, expected, key):
    """The difference of an output, or None."""
    if key not in expected.files:
        return f"output {key} has no counterpart"
    return real_models.difference(key, got[key] if key in got.files else None, expected[key])


def compare(folder, number):
    """Prints `right` or the first difference between both sides' outputs, by real_models' tolerance: ONNX Runtime computes
    the positions of Resize in f32, which differs by 640 * 2^-24 where there are 640."""
    import numpy  # pylint: disable=import-outside-toplevel

    with numpy.load(os.path.join(folder, f"{number}.ours.npz")) as got, \
            numpy.load(os.path.join(folder, f"{number}.theirs.npz")) as expected:
        print(next((text for key in sorted({*expected.files, *got.files})
                    for text in [difference_of(got, expected, key)] if text), "right"))
    return 0


# ---- in the process of peers.py

class ServerError(Exception):
    """A server that ended or refused."""


class Server:
    """One side of the measurement. Any side but `theirs` is a caller of the library."""

    def __init__(self, peer, side, folder, threads, device="cpu:0", settings=None):
        command = ["nice", "-n", "10", peer.python, os.path.abspath(__file__), side, folder]
        if side != "theirs":
            command += [library_of(peer.build), device]
        self.side = side
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        env={**os.environ, **settings_of(peer.build, threads), **(settings or {})})

    def ask(self, *words):
        """The number that the server returns. The server ends if it takes too long."""
        late = threading.Timer(SERVER_SECONDS, self.process.kill)
        late.start()
        try:
            self.process.stdin.write("\t".join(words) + "\n")
            self.process.stdin.flush()
            return float(self.process.stdout.readline())
        except (ValueError, BrokenPipeError) as error:
            raise ServerError(f"{self.side}: no answer to `{' '.join(words)}`; see its message above") from error
        finally:
            late.cancel()

    def close(self):
        with contextlib.suppress(BrokenPipeError):  # a request that the server has not read
            self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait(SERVER_SECONDS)


def turn_of(server, times):
    time.sleep(PAUSE_SECONDS)
    return server.ask("run", str(times))


def measure(sides, name, path, *feeds, capacity=0):
    """(seconds of ours, of theirs, the ratios of all rounds) of one model with its inputs. capacity: as of Bound."""
    times = {}
    for side, server in sides.items():
        server.ask("bind", str(capacity))
        server.ask("open", name, path, *feeds)
        times[side] = max(1, min(1000, int(ROUND_SECONDS / server.ask("run", "3"))))
    rounds = [{side: turn_of(server, times[side]) for side, server in sides.items()} for _ in range(ROUNDS)]
    return (*(statistics.median(r[side] for r in rounds) for side in ("ours", "theirs")),
            sorted(r["ours"] / r["theirs"] for r in rounds))


def settings_of(build, threads):
    """The environment's variables that both sides read."""
    return {"BP_THREADS": str(threads), "BP_FALLBACK": "allow", "BP_PLUGIN_PATH": os.path.join(build, "plugins", "cpu")}


def process(peer, script, *arguments, threads=1):
    """The output of a process of one side, with the environment of the servers."""
    done = subprocess.run([peer.python, script, *arguments], stdout=subprocess.PIPE, text=True, timeout=SERVER_SECONDS,
                          env={**os.environ, **settings_of(peer.build, threads)}, check=False)
    if done.returncode:
        raise ServerError(f"{' '.join(arguments)}: exit status {done.returncode}; see its message above")
    return done.stdout


def library_of(build):
    return os.path.join(build, "sdk", "onnx", "libbackplane-onnx.so")


@contextlib.contextmanager
def both(peer, folder, threads, settings=None):
    """{side: server} of both sides with that many threads. settings: more variables of their environments."""
    sides = {side: Server(peer, side, folder, threads, settings=settings) for side in ("ours", "theirs")}
    try:
        yield sides
    finally:
        for server in sides.values():
            server.close()


def ratio_of(measured):
    """(median ratio, text of the ratio with its quartiles)."""
    ratios = measured[2]
    ratio, quarter = statistics.median(ratios), len(ratios) // 4
    return ratio, f"{ratio:.2f} ({ratios[quarter]:.2f} - {ratios[-1 - quarter]:.2f})"


def compare_outputs(peer, folder, name):
    """`right`, or the first difference."""
    return peer.call([peer.python, os.path.abspath(__file__), "compare", folder, name], SERVER_SECONDS)[1].strip()


def write_table(path, lines):
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")
    print(f"the table is in {path}")


def main(command, *more):
    return {"first": first, "compare": compare}.get(command, functools.partial(serve, command))(*more)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
