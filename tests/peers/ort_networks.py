# SPDX-License-Identifier: Apache-2.0
"""Runs a network in ONNX Runtime with Backplane's provider and with the processor's, and compares outputs and times.

    python ort_networks.py LIBRARY DEVICE NAME PATH           the environment's python; the last line is `right`
    python ort_networks.py LIBRARY DEVICE NAME PATH ONNX      measures instead, also libbackplane-onnx, the library ONNX
"""
import ctypes
import sys
import time

import real_models

TOLERANCE = 1e-4  # of the largest magnitude of an output
SECONDS = 5       # of measurements for each set of inputs
LOADS = 5         # of each network, in measurements
RUN_LIMIT, LOAD_LIMIT = 1.05, 1.2  # the provider over Backplane alone; its load over that of ONNX Runtime


def inputs_of(name, session):
    """[{input: array}]. A network that real_models does not know gets element i of n = i / n."""
    import numpy  # pylint: disable=import-outside-toplevel

    if name in real_models.MODELS:
        return real_models.values_of(name)
    port = session.get_inputs()[0]
    count = int(numpy.prod(port.shape))
    return [{port.name: (numpy.arange(count) / count).astype(numpy.float32).reshape(port.shape)}]


def is_whole(ort, name):
    """Whether the provider runs the whole network. Versions before 1.27 do not pass values from outside a sub-graph."""
    return int(ort.__version__.split(".")[1]) >= 27 or not name.startswith("silero")


def sessions_of(library, device, name, path, turns=1):
    """[(session, median seconds of the loads)]: the processor's and ours, of one thread each, loaded by turns."""
    import statistics  # pylint: disable=import-outside-toplevel
    import onnxruntime as ort  # pylint: disable=import-outside-toplevel

    ort.set_default_logger_severity(3)
    ort.register_execution_provider_library("backplane", library)
    found = next(d for d in ort.get_ep_devices() if d.ep_metadata.get("backplane_device") == device)
    made, seconds = [None, None], ([], [])
    for ours in (False, True) * turns:
        made[ours] = None
        options = ort.SessionOptions()
        options.log_severity_level, options.intra_op_num_threads, options.inter_op_num_threads = 3, 1, 1
        if ours:
            options.add_provider_for_devices([found], {})
            if is_whole(ort, name):
                options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
        start = time.process_time()
        made[ours] = ort.InferenceSession(path, options, **({} if ours else {"providers": ["CPUExecutionProvider"]}))
        seconds[ours].append(time.process_time() - start)
    return [(session, statistics.median(times)) for session, times in zip(made, seconds)]


def difference(got, expected):
    import numpy  # pylint: disable=import-outside-toplevel

    if got.shape != expected.shape or got.dtype != expected.dtype:
        return f"{got.dtype, got.shape}, expected {expected.dtype, expected.shape}"
    if expected.dtype.kind != "f":
        return None if numpy.array_equal(got, expected) else "integers differ"
    largest = float(numpy.abs(expected).max())
    error = float(numpy.abs(got.astype(numpy.float64) - expected).max())
    return None if error <= TOLERANCE * largest else f"differs by {error:.2g}, its largest magnitude is {largest:.2g}"


def compare(theirs, ours, sets):
    for i, values in enumerate(sets):
        expected = theirs.run(None, values)
        for turn in range(2):
            for k, (x, y) in enumerate(zip(ours.run(None, values), expected)):
                text = difference(x, y)
                if text:
                    print(f"inputs {i}, run {turn}, output {k}: {text}")
                    return 1
    print("right")
    return 0


def bound(session, values):
    """A function that runs the model in a session, on inputs and outputs that exist."""
    import numpy  # pylint: disable=import-outside-toplevel

    binding = session.io_binding()
    made = [numpy.ascontiguousarray(value) for value in session.run(None, values)]
    for name, value in values.items():
        binding.bind_cpu_input(name, value)
    for port, value in zip(session.get_outputs(), made):
        binding.bind_output(port.name, "cpu", 0, value.dtype, value.shape, value.ctypes.data)
    return lambda made=made: session.run_with_iobinding(binding)


def alone(caller, values):
    """A function that runs the model without ONNX Runtime, on inputs and outputs that exist."""
    given = [caller.tensor_of(values[name]) for name in caller.names()]
    n_out = caller.c.bp_model_outputs(caller.model)
    at, out = (ctypes.c_void_p * len(given))(*(t.value for t in given)), (ctypes.c_void_p * n_out)()
    n_in, n_out = ctypes.c_size_t(len(given)), ctypes.c_size_t(n_out)
    caller.call("bp_model_run", caller.model, caller.stream, at, n_in, out, n_out)

    def run():
        caller.call("bp_model_run_into", caller.model, caller.stream, at, n_in, out, None, n_out)
        caller.call("bp_stream_synchronize", caller.stream)
    return run


def measure(name, loads, functions):
    """Prints the medians of runs by turns, in milliseconds of the processor: each run has one thread, and the time on the clock
    contains other work of the machine. Prints two ratios of the provider to Backplane alone: the median
    with its quartiles, and that of the shortest runs, which other work on the machine disturbs least."""
    import numpy  # pylint: disable=import-outside-toplevel

    for function in functions * 3:
        function()
    times, end = [], time.perf_counter() + SECONDS
    while len(times) < 10 or (time.perf_counter() < end and len(times) < 2000):
        turn = []
        for function in functions:
            start = time.process_time()
            function()
            turn.append(1e3 * (time.process_time() - start))
        times.append(turn)
    table = numpy.array(times)
    ratios, least = table[:, 1] / table[:, 2], table.min(0)
    low, middle, high = numpy.percentile(ratios, (25, 50, 75))
    over = [word for word, ratio, limit in (("run", middle, RUN_LIMIT), ("load", loads[1] / loads[0], LOAD_LIMIT)) if ratio > limit]
    print(f"{name:16} load {loads[0]:7.3f} {loads[1]:7.3f} s, {loads[1] / loads[0]:.2f}   "
          f"run {' '.join(f'{t:9.3f}' for t in numpy.median(table, 0))} ms   "
          f"provider / alone {middle:.3f} ({low:.3f} to {high:.3f}), shortest {least[1] / least[2]:.3f}"
          + "".join(f"   {word} is over the limit" for word in over))


def main(library, device, name, path, onnx=None):
    (theirs, first), (ours, second) = sessions_of(library, device, name, path, LOADS if onnx else 1)
    sets = inputs_of(name, theirs)
    if not onnx:
        return compare(theirs, ours, sets)
    caller = real_models.Caller(onnx, path, device)
    for values in sets:
        measure(name, (first, second), [bound(theirs, values), bound(ours, values), alone(caller, values)])
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
