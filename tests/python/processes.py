#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests the package in processes of their own: forks, exits while work runs, sub-interpreters, plugins and libraries
that are missing or wrong, devices that fail. A process must end with the expected status, and by no signal."""
import os
import shutil
import subprocess
import sys
import tempfile

import tap
from tap import run_python, same

FORKS = {"PYTHONWARNINGS": "ignore::DeprecationWarning"}  # of Python 3.12 and later: of a fork beside other threads


def says(code, expected, env=None, quiet=True):
    """Checks that a process prints this and nothing else."""
    same(run_python(code, env, quiet=quiet).strip(), expected)


def test_a_forked_child_works_and_old_tensors_fail_there():
    says("""
import os
x = bp.asarray([1.0, 2.0])
pid = os.fork()
if not pid:
    try:
        x + 1
    except bp.ShutdownError as error:
        print("stale", "fork" in str(error), flush=True)
    print((bp.asarray([1.0]) + 1).tolist(), flush=True)
    del x
    os._exit(0)
os.waitpid(pid, 0)
print((x + 1).tolist())
""", "stale True\n[2.0]\n[2.0, 3.0]")


def test_a_fork_inside_of_a_with_block():
    says("""
import os
with bp.Stream("cpu", "async"):
    bp.asarray([1.0]) + 1
    pid = os.fork()
    if not pid:
        print((bp.asarray([1.0]) + 1).tolist(), flush=True)
        os._exit(0)
    os.waitpid(pid, 0)
""", "[2.0]", FORKS)


def test_other_threads_change_the_list_of_outputs_during_a_call():
    says("""
import threading, time
big = bp.ops.uniform((1000, 1000))
graph = bp.Graph()
x = graph.input("x", big.shape)
y = x
for _ in range(3):
    y = y @ x * 0.01
graph.output(y)
def clear(out, begun):
    begun.wait()
    time.sleep(0.03)
    out.clear()
for run in (lambda out: graph.run(big, out=out), lambda out: bp.ops.matmul(big, big, out=out)):
    for _ in range(5):
        out, begun = [bp.empty(big.shape)], threading.Event()
        address = out[0].address
        thread = threading.Thread(target=clear, args=(out, begun))
        thread.start()
        begun.set()
        result = run(out)
        result = result[0] if isinstance(result, list) else result
        thread.join()
        assert result.address == address
        result.tolist()
print("lives")
""", "lives")


def test_a_fork_during_a_call_of_another_thread():
    says("""
import os, threading, time
x = bp.asarray([1.0, 2.0])
a = bp.ops.uniform((1200, 1200))
stop = threading.Event()
def work():
    while not stop.is_set():
        a @ a
thread = threading.Thread(target=work)
thread.start()
time.sleep(0.1)
for _ in range(5):
    pid = os.fork()
    if not pid:
        try:
            bp.ops.relu(x)
        except bp.ShutdownError:
            print((bp.asarray([1.0]) + 1).tolist(), flush=True)
        os._exit(0)
    os.waitpid(pid, 0)
stop.set()
thread.join()
""", "\n".join(["[2.0]"] * 5), FORKS)


def test_multiprocessing_by_fork_works_after_calls():
    says("""
import multiprocessing
bp.asarray([1.0]) + 1
def work(k):
    return (bp.asarray([1.0]) * k).tolist()
with multiprocessing.get_context("fork").Pool(3) as pool:
    print(pool.map(work, [1.0, 2.0, 3.0]))
""", "[[1.0], [2.0], [3.0]]")


def test_a_process_exits_while_work_runs():
    for more in ("", "del x, y\n", "p = x.__dlpack__()\n", "m = memoryview(x)\n", "import sys\nsys.exit(0)\n",
                 "import threading\nthreading.Thread(target=lambda: [a @ a for _ in range(3)]).start()\n"):
        says(f"""
import array
stream = bp.Stream("cpu", "async")
x = bp.asarray(array.array("f", [1.0] * 1000))
a = bp.ops.uniform((300, 300))
with stream:
    y = x
    for _ in range(200):
        y = y + x
        a = a @ a
{more}""", "")


def test_an_exception_in_a_with_block_leaves_it():
    says("""
try:
    with bp.Stream("cpu", "async"):
        raise KeyError
except KeyError:
    pass
g = bp.Graph()
try:
    with g:
        bp.ops.add(1.0, [1.0, 2.0], row=3)
except TypeError:
    pass
print((bp.asarray([1.0]) + 1).tolist())
""", "[2.0]")


def test_an_interrupt_ends_a_wait():
    says("""
import os, signal, threading, time
stream, event = bp.Stream("cpu", "async"), bp.Event("cpu")
a, b = bp.ops.uniform((1000, 1000)), bp.empty((1000, 1000))
with stream:
    for _ in range(4000):
        bp.ops.matmul(a, a, out=b)
    event.record(stream)
for wait in (stream.synchronize, bp.Device("cpu").synchronize, event.wait, lambda: stream.synchronize(1000.0)):
    threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
    start = time.monotonic()
    try:
        wait()
        print("no interrupt")
    except KeyboardInterrupt:
        print("interrupted", time.monotonic() - start < 10)
for wait in (stream.synchronize, event.wait):
    try:
        wait(0.25)
    except bp.TimeoutError:
        print("timeout")
stream.cancel()
""", "interrupted True\n" * 4 + "timeout\ntimeout")


def test_no_plugin_is_an_exception_that_says_why():
    with tempfile.TemporaryDirectory() as folder:
        says("""
try:
    bp.Device("cpu")
except bp.NotFoundError as error:
    print(str(error)[:55])
try:
    bp.asarray([1.0])
except LookupError as error:
    print("asarray too")
print(bp.devices())
""", "device kind 'cpu': no plugin serves it; there are: none\nasarray too\n[]",
             {"BP_PLUGIN_PATH": folder, "BP_PLUGINS": "none"}, quiet=False)


def test_a_variable_names_the_default_device():
    says("print(bp.asarray([1.0]).device.name, bp.Device().name)", "sim:0 sim:0",
         {"BP_DEVICE": "sim", "BP_PLUGIN_PATH": os.path.join(tap.BUILD, "plugins", "simulator")})


def test_a_broken_plugin_is_an_exception_and_the_others_work():
    says("""
for name in ("h_no_symbol", "h_create_absent"):
    try:
        bp.Device(name)
    except bp.Error as error:
        print(type(error).__name__)
print([p["state"] for p in bp.plugins() if p["name"] == "cpu"], (bp.asarray([1.0]) + 1).tolist())
""", "PluginError\nAbsentError\n['ready'] [2.0]",
         {"BP_PLUGIN_PATH": f"{os.environ['BP_PLUGIN_PATH']}:{tap.HOSTILE}",
          "BP_PLUGINS": "cpu,h_no_symbol,h_create_absent"}, quiet=False)


def copy_of_package(folder):
    """A copy of the package with libbackplane beside it, as in a wheel."""
    package = os.path.join(folder, "backplane")
    shutil.copytree(os.path.join(tap.PACKAGE, "backplane"), package, ignore=shutil.ignore_patterns("*.p"))
    return package


def import_copy(folder, env=None):
    done = subprocess.run([sys.executable, "-c", f"import sys; sys.path.insert(0, {folder!r})\n"
                           "try:\n    import backplane\nexcept ImportError as error:\n    print(error)"],
                          capture_output=True, text=True, env={**os.environ, **(env or {})}, timeout=60)
    same(done.returncode, 0)
    same(done.stderr, "")
    return done.stdout


def test_without_the_library_the_import_says_so():
    with tempfile.TemporaryDirectory() as folder:
        copy_of_package(folder)
        text = import_copy(folder)
        assert "cannot be loaded: libbackplane.so.0: cannot open shared object file" in text, text


def test_another_version_in_the_process_is_refused():
    compiler = shutil.which("gcc") or shutil.which("cc")
    if not compiler:
        raise AssertionError("the tests need a compiler")
    extension = os.path.join(tap.PACKAGE, "backplane", "_backplane.abi3.so")
    symbols = subprocess.run(["nm", "-D", "--undefined-only", extension], capture_output=True, text=True,
                             check=True).stdout.split()
    names = sorted({s for s in symbols if s.startswith("bp_")})
    with tempfile.TemporaryDirectory() as folder:
        copy_of_package(folder)
        source, library = os.path.join(folder, "old.c"), os.path.join(folder, "libbackplane.so.0")
        with open(source, "w", encoding="utf-8") as file:
            file.write('const char *bp_version(void) { return "0.0.9"; }\n'
                       + "".join(f"int {n}(void) {{ return 1; }}\n" for n in names if n != "bp_version"))
        subprocess.run([compiler, "-shared", "-fPIC", "-Wl,-soname,libbackplane.so.0", "-o", library, source],
                       check=True)
        others = os.environ.get("LD_PRELOAD", "")  # of a sanitizer
        text = import_copy(folder, {"LD_PRELOAD": f"{others}:{library}"})
        assert "this process has 0.0.9 of " in text and "import one version in one process" in text, text


def test_memory_that_runs_out_is_an_exception():
    says("""
x = bp.asarray([1.0])
try:
    bp.empty(1 << 28)
except MemoryError as error:
    print(type(error).__name__, "BP_MEM_LIMIT" in str(error))
try:
    bp.ops.full((1 << 28,), value=1)
except bp.OutOfMemoryError:
    print("full too")
print((x + 1).tolist())
""", "OutOfMemoryError True\nfull too\n[2.0]", {"BP_MEM_LIMIT": "64M"})


def test_a_lost_device_is_an_exception_and_stays_lost():
    says(f"""
bp.load_plugin({os.path.join(tap.HOSTILE, "bp_faulty.so")!r})
x = bp.empty(21, "u8", "faulty")
x[:] = bytes(21)
for _ in range(2):
    try:
        x.tobytes()
        x.device.synchronize()
        print("no failure")
    except bp.DeviceLostError as error:
        print(error.status_name)
print(repr(x), (bp.asarray([1.0]) + 1).tolist())
""", "BP_ERR_DEVICE_LOST\nBP_ERR_DEVICE_LOST\n<backplane.Tensor u8[21] on faulty:0> [2.0]",
         {"BP_FAKE": "faulty: copy_in@21=lost", "BP_LOG": "error"})


SUB_INTERPRETERS = """
try:
    import _interpreters as interpreters  # Python 3.13 and later
    config = "isolated"
    run = interpreters.exec
except ImportError:
    import _xxsubinterpreters as interpreters  # Python 3.11 and 3.12
    config = None
    run = interpreters.run_string

def create():
    return interpreters.create(config) if config else interpreters.create()
"""


def test_sub_interpreters_have_modules_of_their_own():
    says(SUB_INTERPRETERS + f"""
code = '''
import sys; sys.path.insert(0, {tap.PACKAGE!r})
import backplane as bp
x = bp.asarray([1.0, 2.0])
g = bp.Graph()
g.output(g.input("x", (2,)) + 1)
assert (x + 1).tolist() == g.run(x)[0].tolist() == [2.0, 3.0]
import array
shared = array.array("f", [1, 2])
for _ in range(3):
    y = bp.asarray(shared)
    assert y.tolist() == [1.0, 2.0]
del y
shared.append(3)
try:
    bp.asarray([1.0, [2]])
except ValueError:
    pass
else:
    raise SystemExit(3)
'''
x = bp.asarray([5.0])
for _ in range(3):
    one, two = create(), create()
    for interpreter in (one, two):
        failure = run(interpreter, code)
        assert not failure, failure
    interpreters.destroy(one)
    assert not run(two, code)
    interpreters.destroy(two)
print((x + 1).tolist())
""", "[6.0]")


def test_a_module_that_nothing_uses_is_collected():
    says("""
import gc, importlib.util, weakref
path = bp._backplane.__file__
kinds = ("Device", "Stream", "Event", "Tensor", "Graph", "Program", "Model", "Comm", "Generator", "InvalidError")
def load():
    spec = importlib.util.spec_from_file_location("backplane._backplane", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module._set_host(bp._host)
    return module
for use in (lambda m: None, lambda m: m.Device("cpu"), lambda m: m._operators["add"](m.asarray([1.0]), 1),
            lambda m: m.Graph("cpu").input("x", (2,))):
    module = load()
    parts = [weakref.ref(part) for part in (module, *(getattr(module, kind) for kind in kinds))]
    use(module)
    del module
    for _ in range(3):
        gc.collect()
    print(sum(part() is not None for part in parts), end=" ")
print((bp.asarray([1.0]) + 1).tolist())
""", "0 0 0 0 [2.0]")


def test_ranks_reduce():
    code = """
import sys
comm = bp.Comm(sys.argv[1], int(sys.argv[2]), 2, "cpu")
x, y = bp.asarray([1.0 + comm.rank, 2.0]), bp.empty(2)
comm.all_reduce(x, y)
z = bp.empty(4)
comm.all_gather(x, z)
comm.broadcast(x, x, 1)
comm.barrier()
try:
    comm.all_reduce(x, y, "median")
except ValueError:
    print(comm.size, y.tolist(), z.tolist(), x.tolist())
if comm.rank:
    comm.send(x, 0)
else:
    comm.recv(y, 1)
    assert y.tolist() == [2.0, 2.0]
    comm.set_timeout(0.3)
    try:
        comm.all_reduce(x, y)
    except (bp.TimeoutError, bp.PeerError) as error:
        print("failed")
"""
    path = f"import sys; sys.path.insert(0, {tap.PACKAGE!r}); import backplane as bp\n"
    import backplane
    name = backplane.comm_id()
    ranks = [subprocess.Popen([sys.executable, "-c", path + code, name, str(k)], stdout=subprocess.PIPE, text=True)
             for k in range(2)]
    texts = [rank.communicate(timeout=60)[0].strip() for rank in ranks]
    expected = "2 [3.0, 4.0] [1.0, 2.0, 2.0, 2.0] [2.0, 2.0]"
    same(texts, [expected + "\nfailed", expected])


def test_arguments_of_collectives():
    says("""
comm, x, y = bp.Comm(bp.comm_id(), 0, 1, "cpu"), bp.asarray([1.0, 2.0]), bp.empty(2)
comm.all_reduce(dst=y, src=x, reduction="max")
print(y.tolist(), comm.split(color=0, key=1).size)
comm.reduce(x, y, root=0)
comm.barrier()
for wrong in (lambda: comm.all_reduce(), lambda: comm.all_reduce(x), lambda: comm.broadcast(dst=y), lambda: comm.send(x),
              lambda: comm.recv(y), lambda: comm.recv(source=0), lambda: comm.all_gather(x, y, dst=y),
              lambda: comm.all_gather(x, y, 1), lambda: comm.barrier(x), lambda: comm.barrier(dst=x), lambda: comm.split(),
              lambda: comm.all_gather(x, y, target=y), lambda: comm.send(x, None), lambda: comm.all_gather(x, 3)):
    try:
        wrong()
    except TypeError as error:
        print(str(error).split("\\n")[0].split(" in {")[0])
""", """[1.0, 2.0] 1
the argument src is missing
the argument dst is missing
the argument src is missing
the argument to is missing
the argument source is missing
the argument dst is missing
the argument dst is given twice
expected at most 2 arguments, got 3
expected at most 0 arguments, got 1
there is no argument of a name
split() missing required argument 'color' (pos 1)
there is no argument of a name
'NoneType' object cannot be interpreted as an integer
dst: expected a Tensor, got 3""")


def test_ranks_can_be_threads_with_streams_of_their_own():
    says("""
import threading
name, found = bp.comm_id(), {}
def rank(k):
    with bp.Stream("cpu"):
        comm = bp.Comm(name, k, 3, "cpu")
        comm.set_timeout(20)
        x = bp.asarray([float(k + 1)])
        comm.all_reduce(x, x)
        found[k] = x.item()
threads = [threading.Thread(target=rank, args=(k,)) for k in range(3)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(sorted(found.items()))
""", "[(0, 6.0), (1, 6.0), (2, 6.0)]")


def test_threads_share_a_communicator():
    says("""
import threading
name, comms = bp.comm_id(), [None, None]
x, y, set_by_other = bp.asarray([1.0, 2.0]), bp.empty(2), threading.Event()
def start(function, *args):
    thread = threading.Thread(target=function, args=args)
    thread.start()
    return thread
def join(k):
    comms[k] = bp.Comm(name, k, 2, "cpu")
    comms[k].set_timeout(20)
def receive():
    with bp.Stream("cpu"):
        comms[0].recv(y, 1)
def set_timeout():
    comms[0].set_timeout(10)
    set_by_other.set()
for thread in [start(join, k) for k in range(2)]:
    thread.join()
receiver = start(receive)
threading.Event().wait(0.2)  # it waits for the message now
setter = start(set_timeout)
print(set_by_other.wait(0.3))  # waits for the call of the other thread
with bp.Stream("cpu"):
    comms[1].send(x, 0)
for thread in (receiver, setter):
    thread.join()
print(y.tolist(), set_by_other.is_set())
for wrong in ((name, -1, 2), (name, 2**32, 2), (name * 100, 0, 2)):
    try:
        bp.Comm(*wrong)
    except ValueError:
        print("refused")
try:
    comms[0].send(bp.asarray([1.0]), 2**32 + 1)
except ValueError as error:
    print(error)
""", "False\n[1.0, 2.0] True\nrefused\nrefused\nrefused\nto: 4294967297 is no number of ranks")


if __name__ == "__main__":
    sys.exit(tap.main(globals()))
