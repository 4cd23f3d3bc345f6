# SPDX-License-Identifier: Apache-2.0
"""Runs the cpu plugin on oneDNN 3: the conformance of convolutions and products, and the implementations that its plans use.

Debian's oneDNN is version 2, which all other tests use. Packages of oneDNN with other threads than OpenMP's (the package
onednn) do not fit: the plugin's plans count OpenMP's threads.
"""
import json
import os
import sys
import types

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import run  # noqa: E402

RUN_SECONDS = 300
BUDGETS = {"plans": 30, "conform": 90}
CASES = ("kernel/conv/*", "kernel/conv_grad_input/*", "kernel/conv_grad_weight/*", "kernel/matmul/*", "kernel/fused_conv/*",
         "kernel/fused_matmul/*")
UNIT = ("convolutions_never_run_its_reference", "products_never_run_its_reference",
        "the_order_of_axes_does_not_change_a_convolution", "a_small_product_uses_one_thread",
        "winograd_is_used_only_if_it_is_allowed", "winograd_is_used_where_it_is_faster")
UNIT_FUSED = ("images_one_by_one_equal_separate_calls", "additions_never_slow_an_implementation")


def library_of(folder):
    return os.path.join(folder, "lib", "libdnnl.so.3")


def names_library(info):
    """Whether the output of `bp info cpu` names the file of oneDNN 3."""
    return any(line.split()[:1] == ["driver"] and "libdnnl.so.3" in line for line in info.splitlines())


def count_unit(count, code, output, expected=UNIT):
    """Counts TAP. A test that is skipped made no plan of the library: a failure."""
    results = run.tap_results(output)
    if results is None or code:
        count.fail(f"peers/onednn3/plans: exit status {code}", output)
        return
    for result, title in results:
        if result == "ok":
            count.pass_()
        else:
            count.fail(f"peers/onednn3/plans: {result}: {title}", output)
    if len(results) != len(expected):
        count.fail(f"peers/onednn3/plans: {len(results)} tests ran, expected {len(expected)}", output)


def test_conform(peer, setting):
    report = os.path.join(peer.folder, "conform.json")
    if os.path.exists(report):
        os.unlink(report)
    filters = [word for case in CASES for word in ("--filter", case)]
    code, output = peer.call([peer.bp, "conform", "cpu", "--quick", "--json", report, *filters], RUN_SECONDS, setting)
    try:
        with open(report, encoding="utf-8") as file:
            run.count_conform(peer.count, "cpu", json.load(file), types.SimpleNamespace(returncode=code, stdout=output))
    except (OSError, ValueError, KeyError) as error:
        peer.count.fail(f"peers/onednn3/conform: exit status {code}, no whole report ({error!r})", output)


def test(peer):
    setting = {"BP_CPU_DNNL": library_of(peer.folder)}
    with peer.step("plans", BUDGETS["plans"]):
        code, output = peer.call([peer.bp, "info", "cpu"], RUN_SECONDS, setting)
        if code or not names_library(output):
            peer.count.fail(f"peers/onednn3: `bp info cpu` names no oneDNN 3: exit status {code}", output)
            return
        peer.count.pass_()
        for name, expected in (("test_onednn", UNIT), ("test_onednn_fused", UNIT_FUSED)):
            program = os.path.join(peer.build, "tests", "unit", name)
            count_unit(peer.count, *peer.call([program, "--tap=-"], RUN_SECONDS, setting), expected)
    with peer.step("conform", BUDGETS["conform"]):
        test_conform(peer, setting)
