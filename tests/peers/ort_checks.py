# SPDX-License-Identifier: Apache-2.0
"""Checks the execution provider for ONNX Runtime, one by one, in a process each: the environment's python runs it.

    python ort_checks.py LIBRARY DEVICE CHECK     one check; prints its facts, and `ok` as the last line
    python ort_checks.py list                     the names of the checks
"""
import contextlib
import json
import os
import re
import sys
import threading

CHECKS = {}
KEY = "backplane_device"
NAME = "BackplaneExecutionProvider"


def check(function):
    CHECKS[function.__name__] = function
    return function


# ---- models

def model_of(nodes, inputs, outputs, weights=(), opset=17, **more):
    """The bytes of a model. inputs, outputs: {name: (element type, shape)}; weights: {name: array}."""
    from onnx import helper, numpy_helper  # pylint: disable=import-outside-toplevel

    ports = [[helper.make_tensor_value_info(name, kind, shape) for name, (kind, shape) in of.items()]
             for of in (inputs, outputs)]
    graph = helper.make_graph(nodes, "graph", *ports, [numpy_helper.from_array(array, name) for name, array in dict(weights).items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9, **more).SerializeToString()


def node(op, inputs, outputs, **attributes):
    from onnx import helper  # pylint: disable=import-outside-toplevel

    return helper.make_node(op, inputs.split(), outputs.split(), **attributes)


def layers(depth=1, width=64):
    """y = relu(x w) ..., and what computes it."""
    import numpy  # pylint: disable=import-outside-toplevel

    random = numpy.random.default_rng(1)
    weights = {f"w{i}": (random.random((width, width), numpy.float32) - 0.5) / 4 for i in range(depth)}
    nodes, at = [], "x"
    for i in range(depth):
        last = "y" if i == depth - 1 else f"r{i}"
        nodes += [node("MatMul", f"{at} w{i}", f"h{i}"), node("Relu", f"h{i}", last)]
        at = last

    def expected(x):
        for w in weights.values():
            x = numpy.maximum(x @ w, 0)
        return x
    return model_of(nodes, {"x": (1, ["n", width])}, {"y": (1, ["n", width])}, weights), expected


# ---- sessions

class Bridge:
    """The registered library and one of its devices."""

    def __init__(self, library, device):
        import onnxruntime  # pylint: disable=import-outside-toplevel

        self.ort, self.library, self.name = onnxruntime, library, device
        onnxruntime.set_default_logger_severity(3)
        onnxruntime.register_execution_provider_library("backplane", library)
        self.devices = {d.ep_metadata[KEY]: d for d in onnxruntime.get_ep_devices() if KEY in d.ep_metadata}

    def options(self, device=None, whole=True, settings=(), log=3, **options):
        made = self.ort.SessionOptions()
        made.log_severity_level = log
        if whole:
            made.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
        for key, value in dict(settings).items():
            made.add_session_config_entry(key, value)
        made.add_provider_for_devices([self.devices[device or self.name]], options)
        return made

    def session(self, model, **more):
        """A session that does not try the processor alone after a failure, as Python's sessions do."""
        return self.ort.InferenceSession(model, self.options(**more), enable_fallback=0)


@contextlib.contextmanager
def logged():
    """Collects the lines that are written to the standard error meanwhile, also those of ONNX Runtime's log."""
    import tempfile  # pylint: disable=import-outside-toplevel

    kept, lines = os.dup(2), []
    with tempfile.TemporaryFile() as file:
        os.dup2(file.fileno(), 2)
        try:
            yield lines
        finally:
            os.dup2(kept, 2)
            os.close(kept)
            file.seek(0)
            lines += file.read().decode(errors="replace").splitlines()


def random_x(n, width=64, seed=0):
    import numpy  # pylint: disable=import-outside-toplevel

    return numpy.random.default_rng(seed).random((n, width), numpy.float32)


def expect_close(got, expected, what=""):
    import numpy  # pylint: disable=import-outside-toplevel

    assert got.shape == expected.shape, f"{what}: {got.shape}, expected {expected.shape}"
    error = numpy.abs(got - expected).max() if got.size else 0
    assert error <= 1e-4, f"{what}: differs by {error}"


LEFT = re.compile(r"Backplane: node \d+, .* \((\w+)\), is left to other providers: .")


def placed(bridge, model, **more):
    """(session, {provider: [operator]}): where the nodes of a model run, as ONNX Runtime recorded it, or, in versions that do not
    record, what our log says of the nodes of the graph."""
    import onnx  # pylint: disable=import-outside-toplevel

    with logged() as lines:
        session = bridge.session(model, whole=False, settings={"session.record_ep_graph_assignment_info": "1"}, log=1, **more)
    left = [match[1] for match in map(LEFT.search, lines) if match]
    nodes = [n.op_type for n in onnx.load_from_string(model).graph.node]
    found = {"CPUExecutionProvider": sorted(left), NAME: sorted(op for op in nodes if op not in left)}
    if hasattr(session, "get_provider_graph_assignment_info"):
        recorded = {}
        for part in session.get_provider_graph_assignment_info():
            recorded.setdefault(part.ep_name, []).extend(n.op_type for n in part.get_nodes())
        recorded = {name: sorted(ops) for name, ops in recorded.items()}
        assert sorted(left) == [op for op in recorded.get("CPUExecutionProvider", []) if op in left], (left, recorded)
        found = recorded
    for name, ops in sorted(found.items()):
        print(f"{name}: {', '.join(ops)}")
    return session, found


def expect_refused(call, *words):
    """The message of the peer's own exception, which must contain the words."""
    try:
        call()
    except Exception as error:  # pylint: disable=broad-exception-caught
        text = str(error)
        assert all(word in text for word in words), f"expected {words} in: {text}"
        return text
    raise AssertionError(f"expected a refusal with {words}")


# ---- checks

@check
def shapes(bridge):
    """Inputs of many shapes, again and again; also empty ones."""
    model, expected = layers(2)
    session = bridge.session(model)
    for n in (1, 3, 8, 1, 0, 3, 5, 2, 4, 6, 7, 9, 10, 1, 3, 0):
        expect_close(session.run(None, {"x": random_x(n)})[0], expected(random_x(n)), f"n = {n}")


@check
def external_data(bridge):
    """Weights in a file beside the model: they are loaded once, and the first run does not load them again."""
    import tempfile  # pylint: disable=import-outside-toplevel
    import onnx  # pylint: disable=import-outside-toplevel

    model, expected = layers(2, 128)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "m.onnx")
        onnx.save_model(onnx.load_from_string(model), path, save_as_external_data=True, location="m.bin", size_threshold=1024)
        with logged() as lines:
            sessions = [bridge.session(source, log=1) for source in (path, model)]
            for session in sessions * 2:
                expect_close(session.run(None, {"x": random_x(3, 128)})[0], expected(random_x(3, 128)))
    assert any("nodes" in line and "Backplane" in line for line in lines), lines
    assert not any("loaded again" in line for line in lines), lines


@check
def threads(bridge):
    """Four threads run one session at the same time."""
    model, expected = layers(3)
    session = bridge.session(model)
    wrong = []

    def work(seed):
        x = [random_x(n, seed=seed) for n in (1, 2, 5)]
        right = [expected(one) for one in x]
        for i in range(100):
            got = session.run(None, {"x": x[i % 3]})[0]
            try:
                expect_close(got, right[i % 3], f"thread {seed}, run {i}")
            except AssertionError as error:
                wrong.append(str(error))
    workers = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not wrong, wrong[0]


@check
def partial(bridge):
    """A node that the library lacks stays with ONNX Runtime; the placement is printed."""
    import numpy  # pylint: disable=import-outside-toplevel

    model = model_of([node("Relu", "x", "a"), node("Identity", "s", "t"), node("Add", "a x", "b"),
                      node("Bernoulli", "b", "drawn"), node("Mul", "b b", "y")],
                     {"x": (1, [2, 3]), "s": (8, [2])}, {"y": (1, [2, 3]), "t": (8, [2]), "drawn": (1, [2, 3])})
    expect_refused(lambda: bridge.session(model), "CPU EP")
    session, found = placed(bridge, model)
    assert found == {NAME: ["Add", "Bernoulli", "Mul", "Relu"], "CPUExecutionProvider": ["Identity"]}, found
    x = numpy.array([[1, -2, 3], [0.5, -0.5, 0]], numpy.float32)
    y, t, _ = session.run(None, {"x": x, "s": numpy.array(["a", "B"])})
    expect_close(y, (numpy.maximum(x, 0) + x) ** 2)
    assert list(t) == ["a", "B"], t


@check
def convex(bridge):
    """Supported nodes on both sides of a node that stays with ONNX Runtime, and beside it."""
    import numpy  # pylint: disable=import-outside-toplevel

    text = [node("Cast", "b", "s", to=8), node("Cast", "s", "c", to=1)]  # by way of strings
    model = model_of([node("Abs", "x", "a"), node("Neg", "a", "b"), *text, node("Exp", "a", "side"), node("Add", "c b", "d"),
                      node("Mul", "d side", "y")], {"x": (1, [4])}, {"y": (1, [4])})
    session, found = placed(bridge, model)
    assert found == {NAME: ["Abs", "Add", "Exp", "Mul", "Neg"], "CPUExecutionProvider": ["Cast", "Cast"]}, found
    x = numpy.array([1, -2, 0.5, 0], numpy.float32)
    expect_close(session.run(None, {"x": x})[0], -2 * numpy.abs(x) * numpy.exp(numpy.abs(x)))


@check
def bodies(bridge):
    """Nodes with sub-graphs, which use values from outside of these."""
    import numpy  # pylint: disable=import-outside-toplevel
    from onnx import helper  # pylint: disable=import-outside-toplevel

    def body(op, name):
        return helper.make_graph([node(op, "x w", name)], name, [], [helper.make_tensor_value_info(name, 1, None)])
    model = model_of([node("If", "c", "y", then_branch=body("MatMul", "p"), else_branch=body("Add", "q"))],
                     {"c": (9, []), "x": (1, [64, 64])}, {"y": (1, [64, 64])},
                     {"w": numpy.eye(64, dtype=numpy.float32)})
    whole = int(bridge.ort.__version__.split(".")[1]) >= 27  # older ones do not pass values from outside
    session, found = placed(bridge, model)
    assert ("If" in found.get(NAME, [])) == whole, found
    x = random_x(64)
    expect_close(session.run(None, {"c": numpy.array(True), "x": x})[0], x)
    expect_close(session.run(None, {"c": numpy.array(False), "x": x})[0], x + numpy.eye(64))


@check
def parts_of_bodies(bridge):
    """Sub-graphs whose nodes cannot stay together: the provider runs parts of them, with constants from outside."""
    import numpy  # pylint: disable=import-outside-toplevel
    from onnx import helper  # pylint: disable=import-outside-toplevel

    port = helper.make_tensor_value_info
    text = [node("Cast", "h0", "hs", to=8), node("Cast", "hs", "h1", to=1)]  # by way of strings, which the library lacks
    then = helper.make_graph([node("MatMul", "x w", "h0"), *text, node("MatMul", "h1 w", "p")], "p", [], [port("p", 1, [8, 8])])
    other = helper.make_graph([node("Add", "x w", "q")], "q", [], [port("q", 1, [8, 8])])
    body = helper.make_graph(
        [node("MatMul", "v w", "m"), node("Add", "m outer", "h0"), *text, node("MatMul", "h1 w", "next"), node("Identity", "ci", "co"),
         node("Relu", "next", "each")], "b", [port("i", 7, []), port("ci", 9, []), port("v", 1, [8, 8])],
        [port("co", 9, []), port("next", 1, [8, 8]), port("each", 1, [8, 8])])
    weights = {"w": random_x(8, 8) / 4, "outer": random_x(8, 8, 1)}
    branch = model_of([node("If", "c", "y", then_branch=then, else_branch=other)], {"c": (9, []), "x": (1, [8, 8])}, {"y": (1, [8, 8])},
                      weights)
    loop = model_of([helper.make_node("Loop", ["n", "", "x"], ["y", "s"], body=body)], {"n": (7, []), "x": (1, [8, 8])},
                    {"y": (1, [8, 8]), "s": (1, None)}, weights)
    x = random_x(8, 8, 2)
    for model, sets in ((branch, [{"c": numpy.array(c), "x": x} for c in (True, False)]),
                        (loop, [{"n": numpy.array(n, numpy.int64), "x": x} for n in (3, 0, 1)])):
        plain, session = bridge.ort.InferenceSession(model, providers=["CPUExecutionProvider"]), bridge.session(model, whole=False)
        for feeds in sets * 2:
            for got, expected in zip(session.run(None, feeds), plain.run(None, feeds)):
                expect_close(got, expected)


@check
def data_dependent(bridge):
    """Outputs whose shapes depend on data."""
    import numpy  # pylint: disable=import-outside-toplevel

    session = bridge.session(model_of([node("NonZero", "x", "y")], {"x": (1, [3, 3])}, {"y": (7, [2, "n"])}))
    for x in (numpy.eye(3), numpy.ones((3, 3)), numpy.zeros((3, 3))):
        got = session.run(None, {"x": x.astype(numpy.float32)})[0]
        assert numpy.array_equal(got, numpy.array(numpy.nonzero(x))), got


@check
def types(bridge):
    """Element types of values; a type that the library lacks is left to other providers."""
    import numpy  # pylint: disable=import-outside-toplevel

    for number, name in ((1, "float32"), (6, "int32"), (7, "int64"), (2, "uint8"), (11, "float64"), (10, "float16")):
        session = bridge.session(model_of([node("Add", "x x", "y")], {"x": (number, [3])}, {"y": (number, [3])}))
        x = numpy.array([1, 2, 3], name)
        got = session.run(None, {"x": x})[0]
        assert got.dtype == x.dtype and numpy.array_equal(got, x + x), (name, got)
    expect_refused(lambda: bridge.session(model_of([node("Identity", "x", "y")], {"x": (8, [3])}, {"y": (8, [3])})), "CPU EP")


@check
def attributes(bridge):
    """A node whose attributes the library lacks is left to other providers, an equal one without them is not."""
    for more in ({}, {"clip": 0.5}):
        model = model_of([node("LSTM", "x w r", "y", hidden_size=4, **more)], {"x": (1, [3, 1, 2])}, {"y": (1, [3, 1, 1, 4])},
                         {"w": random_x(16, 2)[None], "r": random_x(16, 4)[None]})
        session, found = placed(bridge, model)
        assert found.get("CPUExecutionProvider", []) == ["LSTM"] * len(more), found
        plain = bridge.ort.InferenceSession(model, providers=["CPUExecutionProvider"])
        feeds = {"x": random_x(3, 2)[:, None]}
        expect_close(session.run(None, feeds)[0], plain.run(None, feeds)[0], str(more))


@check
def resident(bridge):
    """Inputs and outputs in memory of the device."""
    import numpy  # pylint: disable=import-outside-toplevel

    model, expected = layers(2)
    session = bridge.session(model)
    info = bridge.devices[bridge.name].memory_info(bridge.ort.OrtDeviceMemoryType.DEFAULT)
    x = random_x(4)
    if info is None:
        print("host memory")
        where = ("cpu", 0)
        given = bridge.ort.OrtValue.ortvalue_from_numpy(x)
    else:
        where = ("gpu", info.device_id, info.device_vendor_id)
        given = bridge.ort.OrtValue.ortvalue_from_numpy(x, *where)
        assert numpy.array_equal(given.numpy(), x), "the copy to the device and back"
    for _ in range(3):
        binding = session.io_binding()
        binding.bind_ortvalue_input("x", given)
        if info is None:
            binding.bind_output("y")
        else:
            made = bridge.ort.OrtValue.ortvalue_from_shape_and_type([4, 64], numpy.float32, *where)
            binding.bind_ortvalue_output("y", made)
        session.run_with_iobinding(binding)
        got = binding.get_outputs()[0]
        expect_close(got.numpy(), expected(x))
    print(f"bound on {got.device_name()}")


@check
def misaligned(bridge):
    """Inputs and outputs at addresses that are no multiples of the element's size."""
    import numpy  # pylint: disable=import-outside-toplevel

    model, expected = layers(2)
    session, x = bridge.session(model), random_x(4)
    for offset in (1, 2, 4):
        memory = [numpy.zeros(x.nbytes + 8, numpy.uint8) for _ in range(2)]
        given, made = (numpy.frombuffer(m.data, numpy.float32, x.size, offset).reshape(x.shape) for m in memory)
        given[:] = x
        expect_close(session.run(None, {"x": given})[0], expected(x), f"input at {offset}")
        binding = session.io_binding()
        binding.bind_cpu_input("x", given)
        binding.bind_output("y", "cpu", 0, numpy.float32, made.shape, made.ctypes.data)
        session.run_with_iobinding(binding)
        expect_close(made, expected(x), f"output at {offset}")


@check
def two_devices(bridge):
    """Sessions on all devices in turns, and one after the other again."""
    model, expected = layers(2)
    sessions = {name: bridge.session(model, device=name) for name in bridge.devices}
    print(", ".join(sessions))
    for n in (1, 4, 2):
        for name, session in sessions.items():
            expect_close(session.run(None, {"x": random_x(n)})[0], expected(random_x(n)), name)


@check
def option_device(bridge):
    """The option device replaces a device that uses host memory, and no other one."""
    model, expected = layers(2)
    for named, wanted in (("cpu:0", "sim:0"), ("sim:0", "cpu:0"), ("sim:0", "sim:0")):
        settings = {"ep.backplaneexecutionprovider.device": wanted}
        if named == "sim:0" != wanted:
            expect_refused(lambda: bridge.session(model, device=named, settings=settings), named, wanted)  # pylint: disable=cell-var-from-loop
            continue
        session = bridge.session(model, device=named, settings=settings)
        expect_close(session.run(None, {"x": random_x(3)})[0], expected(random_x(3)), f"{named}, {wanted}")
    settings = {"ep.backplaneexecutionprovider.device": "cpu:1"}
    expect_refused(lambda: bridge.session(model, settings=settings), "there is no device cpu:1", "there are: ", "cpu:0")


@check
def bound_elsewhere(bridge):
    """Inputs that are bound in memory of another device are copied by ONNX Runtime; such outputs are refused."""
    import numpy  # pylint: disable=import-outside-toplevel

    model, expected = layers(2)
    x, session = random_x(4), bridge.session(model, device="cpu:0")
    info = bridge.devices["sim:0"].memory_info(bridge.ort.OrtDeviceMemoryType.DEFAULT)
    where = ("gpu", info.device_id, info.device_vendor_id)
    given = bridge.ort.OrtValue.ortvalue_from_numpy(x, *where)
    made = bridge.ort.OrtValue.ortvalue_from_shape_and_type([4, 64], numpy.float32, *where)
    binding = session.io_binding()
    binding.bind_ortvalue_input("x", given)
    binding.bind_output("y")
    session.run_with_iobinding(binding)
    expect_close(binding.get_outputs()[0].numpy(), expected(x))
    binding.bind_ortvalue_output("y", made)
    expect_refused(lambda: session.run_with_iobinding(binding), "memory of sim:0", "on cpu:0")
    expect_close(session.run(None, {"x": x})[0], expected(x))


@check
def options(bridge):
    """Options of the provider, right and wrong ones."""
    model, expected = layers(1)
    for given in ({"precision": "exact"}, {"precision": "winograd"}, {"device": bridge.name}, {"tune": "1"}):
        session = bridge.session(model, **{key: value for key, value in given.items() if key != "device"},
                                 settings={f"ep.backplaneexecutionprovider.{key}": value for key, value in given.items()
                                           if key == "device"})
        expect_close(session.run(None, {"x": random_x(2)})[0], expected(random_x(2)), str(given))
    expect_refused(lambda: bridge.session(model, fallback="never"), "fallback", "allow|deny")
    strict = bridge.session(model_of([node("Cast", "x", "h", to=10), node("Cast", "h", "y", to=1)],
                                     {"x": (1, [3])}, {"y": (1, [3])}), fallback="deny")
    expect_close(strict.run(None, {"x": random_x(1, 3)[0]})[0].astype("float16"), random_x(1, 3)[0].astype("float16"))
    expect_refused(lambda: bridge.session(model, precision="rough"), "precision", "rough", "exact")
    expect_refused(lambda: bridge.session(model, precison="winograd"), "precison", "precision")
    expect_refused(lambda: bridge.session(model, tune="2"), "tune", "0|1")
    expect_refused(lambda: bridge.session(model, settings={"ep.backplaneexecutionprovider.device": "warp:0"}), "warp:0")


@check
def cached(bridge):
    """Programs are kept in a folder for later sessions."""
    import tempfile  # pylint: disable=import-outside-toplevel

    model, expected = layers(2)
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(2):
            session = bridge.session(model, cache=folder)
            expect_close(session.run(None, {"x": random_x(2)})[0], expected(random_x(2)))
        print(f"{len(os.listdir(folder))} files")
        assert os.listdir(folder)


@check
def contexts(bridge):
    """Models of compiled nodes, with their contents inside and beside them, in a folder that was moved."""
    import shutil  # pylint: disable=import-outside-toplevel
    import tempfile  # pylint: disable=import-outside-toplevel
    import onnx  # pylint: disable=import-outside-toplevel

    _, expected = layers(2)
    for fixed in (False, True):
        model = onnx.load_from_string(layers(2)[0])
        if fixed:
            model.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 4
        for embedded in ("0", "1"):
            with tempfile.TemporaryDirectory() as folder:
                first, second = os.path.join(folder, "first"), os.path.join(folder, "second")
                os.makedirs(first)
                settings = {"ep.context_enable": "1", "ep.context_embed_mode": embedded,
                            "ep.context_file_path": os.path.join(first, "m_ctx.onnx")}
                session = bridge.session(model.SerializeToString(), settings=settings)
                expect_close(session.run(None, {"x": random_x(4)})[0], expected(random_x(4)))
                shutil.move(first, second)
                names = sorted(os.listdir(second))
                print(embedded, fixed, names)
                context = onnx.load(os.path.join(second, "m_ctx.onnx"))
                assert [n.op_type for n in context.graph.node] == ["EPContext"], context.graph.node
                assert len(names) == (2 if embedded == "1" else 3), names
                again = bridge.session(os.path.join(second, "m_ctx.onnx"))
                expect_close(again.run(None, {"x": random_x(4)})[0], expected(random_x(4)))
                if embedded == "0":
                    with open(os.path.join(second, next(n for n in names if n.endswith(".bin"))), "r+b") as file:
                        file.truncate(100)
                    expect_refused(lambda: bridge.session(os.path.join(second, "m_ctx.onnx")), "damaged")


@check
def contexts_in_memory(bridge):
    """Models that are compiled from bytes to bytes have their contents inside, and leave no files."""
    import tempfile  # pylint: disable=import-outside-toplevel

    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        models = [layers(depth) for depth in (1, 2)]
        compiled = [bridge.ort.ModelCompiler(bridge.options(), model).compile_to_bytes() for model, _ in models]
        for made, (_, expected) in zip(compiled, models):
            assert b"EPContext" in made
            expect_close(bridge.session(made).run(None, {"x": random_x(3)})[0], expected(random_x(3)))
        assert not os.listdir(folder), os.listdir(folder)
        os.chdir("/")


@check
def contexts_exchanged(bridge):
    """The file of another context model is refused."""
    import shutil  # pylint: disable=import-outside-toplevel
    import tempfile  # pylint: disable=import-outside-toplevel

    with tempfile.TemporaryDirectory() as folder:
        for depth in (1, 2):
            bridge.session(layers(depth)[0], settings={"ep.context_enable": "1", "ep.context_embed_mode": "0",
                                                       "ep.context_file_path": os.path.join(folder, f"{depth}.onnx")})
        files = [next(os.path.join(folder, name) for name in os.listdir(folder) if name.startswith(f"{depth}.") and name.endswith(".bin"))
                 for depth in (1, 2)]
        bridge.session(os.path.join(folder, "1.onnx"))
        shutil.copy(files[1], files[0])
        expect_refused(lambda: bridge.session(os.path.join(folder, "1.onnx")), "another model")


@check
def wrong_inputs(bridge):
    """A failure in a run is the peer's exception; the session and the process go on."""
    import numpy  # pylint: disable=import-outside-toplevel

    model = model_of([node("Gather", "x i", "y", axis=0)], {"x": (1, [4, 2]), "i": (7, ["n"])}, {"y": (1, ["n", 2])})
    session = bridge.session(model)
    x = numpy.arange(8, dtype=numpy.float32).reshape(4, 2)
    text = expect_refused(lambda: session.run(None, {"x": x, "i": numpy.array([7])}), "Backplane")
    print(text.splitlines()[-1][-160:])
    expect_close(session.run(None, {"x": x, "i": numpy.array([3, 0])})[0], x[[3, 0]])


@check
def out_of_memory(bridge):
    """A run for which there is no memory is the peer's exception; a smaller one then succeeds. BP_MEM_LIMIT is set."""
    import numpy  # pylint: disable=import-outside-toplevel

    model = model_of([node("MatMul", "x t", "a"), node("Relu", "a", "b"), node("MatMul", "b x", "y")],
                     {"x": (1, ["n", 8]), "t": (1, [8, "n"])}, {"y": (1, ["n", 8])})
    session = bridge.session(model)

    def run(n):
        x = numpy.ones((n, 8), numpy.float32)
        return session.run(None, {"x": x, "t": x.T.copy()})[0]
    text = expect_refused(lambda: run(8192), "memory")
    print(text.splitlines()[0][-160:])
    assert run(4).shape == (4, 8)


@check
def lost(bridge):
    """A device that is lost in use is the peer's exception; sessions on other devices go on. BP_SIM_FAIL is set."""
    model, expected = layers(2)
    session, other = bridge.session(model, device="sim:0"), bridge.session(model, device="cpu:0")

    def run_often():
        for _ in range(200):
            session.run(None, {"x": random_x(2)})
    text = expect_refused(run_often, "Backplane")
    print(text.splitlines()[0][-160:])
    assert "LOST" in text or "lost" in text, text
    expect_refused(lambda: session.run(None, {"x": random_x(2)}), "Backplane")
    expect_close(other.run(None, {"x": random_x(2)})[0], expected(random_x(2)))


@check
def unregister(bridge):
    """The library is unregistered and registered again."""
    model, expected = layers(1)
    for _ in range(3):
        session = bridge.session(model)
        expect_close(session.run(None, {"x": random_x(2)})[0], expected(random_x(2)))
        del session
        bridge.devices.clear()
        bridge.ort.unregister_execution_provider_library("backplane")
        bridge.__init__(bridge.library, bridge.name)
    expect_refused(lambda: bridge.ort.register_execution_provider_library("second", bridge.library), "registered already")


@check
def unregister_early(bridge):
    """The library is unregistered while a session and a value on the device use it."""
    model, expected = layers(2)
    session = bridge.session(model)
    info = bridge.devices[bridge.name].memory_info(bridge.ort.OrtDeviceMemoryType.DEFAULT)
    where = ("gpu", info.device_id, info.device_vendor_id) if info else ("cpu", 0)
    value = bridge.ort.OrtValue.ortvalue_from_numpy(random_x(3), *where)
    bridge.devices.clear()
    bridge.ort.unregister_execution_provider_library("backplane")
    expect_close(session.run(None, {"x": random_x(3)})[0], expected(random_x(3)))
    expect_refused(lambda: bridge.ort.register_execution_provider_library("backplane", bridge.library), "still uses it")
    del session, value
    bridge.__init__(bridge.library, bridge.name)
    session = bridge.session(model)
    expect_close(session.run(None, {"x": random_x(3)})[0], expected(random_x(3)))


@check
def exits_while_it_works(bridge):
    """The process ends while other threads are in a run: it waits for what runs, or refuses the rest of it."""
    import ctypes  # pylint: disable=import-outside-toplevel
    import time  # pylint: disable=import-outside-toplevel

    model, _ = layers(8, 256)
    session, x = bridge.session(model), random_x(2048, 256)
    start = time.perf_counter()
    session.run(None, {"x": x})
    seconds = time.perf_counter() - start
    begun, never = threading.Barrier(3), threading.Event()

    def work():
        begun.wait()
        try:
            session.run(None, {"x": x})
        finally:
            never.wait()  # ONNX Runtime's own memory is gone after the exit
    for _ in range(2):
        threading.Thread(target=work, daemon=True).start()
    begun.wait()
    time.sleep(seconds / 4)
    print("ok", flush=True)
    ctypes.CDLL(None).exit(0)  # Python itself would abort these threads


def main():
    if sys.argv[1] == "list":
        print("\n".join(CHECKS))
        return
    CHECKS[sys.argv[3]](Bridge(*sys.argv[1:3]))
    print("ok")


if __name__ == "__main__":
    main()
