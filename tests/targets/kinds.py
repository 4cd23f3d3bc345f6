# SPDX-License-Identifier: Apache-2.0
"""The kinds of devices for which this repository has plugins, or is to have them: one row for each. `./dev conform`,
docs/targets.md and the steps of tests/run.py on stand-ins take all that they need from here.

In a row, BUILD stands for the build directory. A new kind is a row here, a column of docs/targets.md, and nothing else.
"""
import typing


class Kind(typing.NamedTuple):
    card: str                # the real device, in words
    standin: str = ""        # what takes its place on other machines; "": nothing, for every machine has the device
    targets: tuple = ()      # outputs of the build that the stand-in consists of; one that ends in / is all libraries of a folder
    path: str = ""           # the folder in which the plugin finds the stand-in, before those of LD_LIBRARY_PATH
    settings: dict = {}      # the environment of a run on the stand-in, without path
    defaults: dict = {}      # the same, where the environment of the caller does not set the variable
    files: tuple = ()        # files of other software that the stand-in needs
    needs: str = ""          # what the build needs to have the plugin
    release: bool = False    # on a card the plugin of `./dev build gpu` runs, for that of the tests has slow images


def simulated(**libraries):
    """The targets and the settings of libraries that the simulator has: setting -> library."""
    files = {setting: f"plugins/simulator/libbp_sim_{name}.so" for setting, name in libraries.items()}
    return tuple(files.values()), {setting: f"BUILD/{file}" for setting, file in files.items()}


CUDA = simulated(BP_CUDA_CUBLASLT="cublaslt", BP_CUDA_CUDNN="cudnn", BP_CUDA_NCCL="nccl")
HIP = simulated(BP_HIP_HIPBLASLT="hipblaslt", BP_HIP_ROCBLAS="rocblas", BP_HIP_RCCL="nccl")

# Stand-ins on tests/standins/base: two devices, and no memory that is kept to notice its late use, because the suite measures
# the memory of the process.
BASE = {"BP_STANDIN_DEVICES": "2", "BP_STANDIN_KEEP": "0"}

KINDS = {
    "cpu": Kind("the processors of this machine"),
    # A run compiles no kernels at run time, because that takes time, unless its environment names a library that does.
    "cuda": Kind("a GPU of NVIDIA", "the stand-ins for NVIDIA's driver and libraries", ("tests/gpu/standin/libcuda.so.1", *CUDA[0]),
                 "tests/gpu/standin", {"BP_SIM_DEVICES": "2", **CUDA[1]}, {"BP_CUDA_NVRTC": "off"}, needs="nvcc", release=True),
    "hip": Kind("a GPU of AMD, or a DCU", "the stand-ins for AMD's driver and libraries", ("tests/gpu/standin/libamdhip64.so.5", *HIP[0]),
                "tests/gpu/standin", {"BP_SIM_DEVICES": "2", **HIP[1]}, {"BP_HIP_HIPRTC": "off"},
                needs="clang 15 or newer, lld and ROCm's device libraries", release=True),
    "xpu": Kind("a device of OpenCL that is no processor", "PoCL, which runs OpenCL on the processors of this machine",
                settings={"BP_XPU_DEVICES": "*", "POCL_DEVICES": "pthread pthread", "OCL_ICD_VENDORS": "/etc/OpenCL/vendors/pocl.icd"},
                files=("/etc/OpenCL/vendors/pocl.icd",), needs="the headers of OpenCL"),
    "npu": Kind("an Ascend of Huawei", "the stand-in for CANN 8", ("tests/standins/cann/v8/",), "tests/standins/cann/v8",
                {"ASCEND_OPP_PATH": "any", **BASE}),
    "mlu": Kind("an MLU of Cambricon", "the stand-ins for CNRT, CNCL and CNNL", ("tests/standins/cnrt/",), "tests/standins/cnrt",
                {"BP_STANDIN_CNNL_ASSUMED": "1", **BASE}),
    "kunlun": Kind("an XPU of Kunlunxin", "the stand-in for the libraries of XRE 5", ("tests/standins/xre/",), "tests/standins/xre",
                   {"BP_SIM_DEVICES": "2"}),
    "ipu": Kind("an IPU of Graphcore", "the shim, compiled for the stand-in for Poplar",
                ("tests/ipu/libbp_ipu_shim.so", "tests/standins/poplar/libbp_standin_poplar.so"),
                settings={"BP_IPU_SHIM": "BUILD/tests/ipu/libbp_ipu_shim.so", **BASE}),
}
