# SPDX-License-Identifier: Apache-2.0
"""Runs the quick conformance suite of xpu on Intel's OpenCL runtime for processors, a second driver beside PoCL.

Most of the time the driver compiles kernels. The usual test leaves out kernels that differ in the conversions only: those
of bf16, and of operators behind the letter c those of f16, which compute in f32. It leaves out gradients too, which are
computed by the same kernels. `./dev peers test --all` runs all of them.
"""
import json
import os
import types

import onednn3

run = onednn3.run
RUN_SECONDS = 900
BUDGETS = {"device": 20, "conform": 180, "conform, whole": 260}
# The driver has one device, so that nothing is copied between two.
WHOLE = ("!memory/copy/peer",)
USUAL = (*WHOLE, "!kernel/*/*bf16*/*", "!kernel/[d-z]*/*f16*/*", "!gradient/*")


def setting_of(folder):
    """The environment of a process that uses this driver only. Writes the file that names the driver to the loader, because
    the one of the package has the path of its authors."""
    vendors = os.path.join(folder, "vendors")
    os.makedirs(vendors, exist_ok=True)
    with open(os.path.join(vendors, "intel.icd"), "w", encoding="ascii") as file:
        file.write(os.path.join(folder, "lib", "libintelocl.so") + "\n")
    return {"OCL_ICD_VENDORS": os.path.join(vendors, "intel.icd"), "BP_XPU_DEVICES": "*",
            "BP_XPU_CACHE": os.path.join(folder, "programs")}


def names_driver(info, version):
    """Whether the output of `bp info xpu` names a driver whose version begins with the package's year."""
    return any(line.split()[:1] == ["driver"] and f", {version.partition('.')[0]}." in line for line in info.splitlines())


def cases_of(everything):
    """(name of the step, filters of the cases)"""
    return ("conform, whole", WHOLE) if everything else ("conform", USUAL)


def test(peer):
    if not peer.has_xpu():
        peer.count.skip("peers/intel-opencl/xpu", "OpenCL's headers are not installed")
        return
    setting = setting_of(peer.folder)
    with peer.step("device", BUDGETS["device"]):
        code, output = peer.call([peer.bp, "info", "xpu"], RUN_SECONDS, setting)
        if code or not names_driver(output, peer.version("intel-opencl-rt")):
            peer.count.fail(f"peers/intel-opencl: `bp info xpu` does not name the driver: exit status {code}", output)
            return
        peer.count.pass_()
    report = os.path.join(peer.folder, "conform.json")
    if os.path.exists(report):
        os.unlink(report)
    title, cases = cases_of(peer.everything)
    with peer.step(title, BUDGETS[title]):
        filters = [word for case in cases for word in ("--filter", case)]
        code, output = peer.call([peer.bp, "conform", "xpu", "--quick", "--json", report, *filters], RUN_SECONDS, setting)
        try:
            with open(report, encoding="utf-8") as file:
                content = json.load(file)
            run.count_conform(peer.count, "xpu", content, types.SimpleNamespace(returncode=code, stdout=output))
        except (OSError, ValueError, KeyError) as error:
            peer.count.fail(f"peers/intel-opencl/conform: exit status {code}, no whole report ({error!r})", output)
