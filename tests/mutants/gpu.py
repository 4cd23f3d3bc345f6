# SPDX-License-Identifier: Apache-2.0
"""Mutants of the code that only the plugins for real GPUs have: the simulator's plugin has the same host code, but
neither their targets nor their images. A conformance case on a stand-in for the driver must notice each of them
(tests/gpu/standin/broken.py).

name, file, the text that stands there once, its replacement, the plugin, its object, cases, a part of the expected report
"""
PORTABLE, CUDA, HIP = "plugins/gpu/portable.c", "plugins/cuda/target.c", "plugins/hip/target.c"
EVENT, STREAM = "plugins/gpu/event.c", "plugins/gpu/stream.c"
SOFTMAX = "kernel/softmax/f32/*"
TWO = "runtime/pair/*"  # on two devices

GPUS = [
    ("cuda has no image of a family for one type", CUDA,
     "return which == 0 ? images[family][type] : NULL;",
     "return which == 0 && (family != FAMILY_softmax || type != TYPE_f32) ? images[family][type] : NULL;",
     "cuda", "target.c.o", SOFTMAX, "cuModuleLoadData answers 209: no kernel image for this device"),
    ("hip has no image of a family for one type", HIP,
     "return images[which][family][type];",
     "return family == FAMILY_softmax && type == TYPE_f32 ? NULL : images[which][family][type];",
     "hip", "target.c.o", SOFTMAX, "hipModuleLoadData answers 209: no kernel image for this device"),
    ("cuda has the image of another type", CUDA,
     "return which == 0 ? images[family][type] : NULL;",
     "return which == 0 ? images[family][type == TYPE_f32 ? TYPE_f64 : type] : NULL;",
     "cuda", "target.c.o", SOFTMAX, "no kernel bp_softmax_f32 in an image that has"),
    ("the kernels of one type have another name", PORTABLE,
     "snprintf(name, sizeof name, \"bp_%s_%s\", portable_entry_name(p->family, p->entry),\n"
     "             portable_type_name(p->type));",
     "snprintf(name, sizeof name, \"bp_%s_%s\", portable_entry_name(p->family, p->entry),\n"
     "             p->type == TYPE_bf16 && GPU_NAME[0] != 's' ? \"bfloat16\" : portable_type_name(p->type));",
     "hip", "gpu_portable.c.o", "kernel/softmax/bf16/*", "hipModuleGetFunction answers 500"),
    ("a struct of arguments has one field more where it is compiled as C", "sdk/ops/softmax/kernel.h",
     "struct softmax_args {\n    i64 extent, inner;\n",
     "struct softmax_args {\n    i64 extent, inner;\n#if !defined(__CUDACC__) && !defined(__HIP__)\n    i64 more;\n#endif\n",
     "cuda", "softmax_launch.c.o", SOFTMAX, "bp_softmax_f32 is launched with 48 bytes of arguments; its image takes 40"),
    ("arguments of C and of HIP have another size", "sdk/ops/softmax/kernel.h",
     "struct softmax_columns_args {\n    i64 extent, inner;\n",
     "struct softmax_columns_args {\n    i64 extent, inner;\n#if !defined(__CUDACC__) && !defined(__HIP__)\n    i64 more;\n#endif\n",
     "hip", "softmax_launch.c.o", "kernel/softmax/*", "bytes of arguments; its image takes 40"),
    ("cuda ends the list of a launch as hip does", CUDA,
     ".end = (void *)0,", ".end = (void *)3,",
     "cuda", "target.c.o", SOFTMAX, "a list that does not end with"),
    ("hip ends the list of a launch as cuda does", HIP,
     ".end = (void *)3,", ".end = (void *)0,",
     "hip", "target.c.o", SOFTMAX, "a list that does not end with"),
    ("teams have half of the lanes", PORTABLE,
     "function, teams, 1, 1, GPU_LANES, 1, 1, 0, stream->raw, NULL,",
     "function, teams, 1, 1, GPU_NAME[0] == 's' ? GPU_LANES : GPU_LANES / 2, 1, 1, 0, stream->raw, NULL,",
     "cuda", "gpu_portable.c.o", SOFTMAX, "teams of 128 lanes; it is compiled for 256"),
    ("hip calls a function by CUDA's name", HIP,
     "#define CALL(name, cuda, hip, parameters) #hip,",
     "#define CALL(name, cuda, hip, parameters) GPU_CALL_##name == GPU_CALL_copy_peer ? #cuda : #hip,",
     "hip", "target.c.o", SOFTMAX, "has no function cuMemcpyPeerAsync"),
    ("hip asks for an attribute by CUDA's number", HIP,
     ".units = 63, ", ".units = 16, ",
     "hip", "target.c.o", SOFTMAX, "no attribute 16 is known here"),
    ("a launch has one operand too many", PORTABLE,
     "for (int i = 0; i < p->n_operand; i++, size += sizeof to) {",
     "for (int i = 0; i <= p->n_operand; i++, size += sizeof to) {",
     "cuda", "gpu_portable.c.o", SOFTMAX, "bp_softmax_f32 is launched with 48 bytes of arguments; its image takes 40"),
    ("a thread makes a device current for its first launch alone", PORTABLE,
     "status = gpu_device_use(launch->self, launch->device, &caller, &device);\n    if (status == BP_OK) status = portable_enqueue(",
     "static _Thread_local bool used;\n    device = &((struct gpu *)launch->self)->device[launch->device];\n"
     "    status = device->open && used ? BP_OK : gpu_device_use(launch->self, launch->device, &caller, &device);\n"
     "    used = true;\n    if (status == BP_OK) status = portable_enqueue(",
     "hip", "gpu_portable.c.o", TWO, "hipModuleLaunchKernel answers 400"),
    ("modules are loaded by the first device for all", PORTABLE,
     "void **module = &device->module[p->family][p->type];",
     "void **module = &device->gpu->device[0].module[p->family][p->type];",
     "hip", "gpu_portable.c.o", TWO, "hipModuleLaunchKernel answers 400"),
    ("an event is the first device's, whatever device it is for", EVENT,
     "TRY(gpu_device_use(self, index, &caller, &device));\n    event = host->allocate(",
     "TRY(gpu_device_use(self, index - index, &caller, &device));\n    event = host->allocate(",
     "cuda", "gpu_event.c.o", TWO, "cuEventRecord answers 400"),
    ("a stream is the first device's, whatever device it is for", STREAM,
     "TRY(gpu_device_use(self, index, &caller, &device));\n    stream = new_stream(device);\n",
     "TRY(gpu_device_use(self, index, &caller, &device));\n    stream = new_stream(device);\n"
     "    gpu_device_use(self, 0, &caller, &(struct gpu_device *){NULL});\n",
     "cuda", "gpu_stream.c.o", TWO, "answers 400"),
    ("a module of one family is not given back", PORTABLE,
     "if (device->module[family][type])\n", "if (device->module[family][type] && family != FAMILY_softmax)\n",
     "cuda", "gpu_portable.c.o", SOFTMAX, "the last context is given back while 1 things in it are not"),
]

# Mutants of images alone: the dialect as one compiler reads it. The columns are the same, with the
# image instead of an object.
SOFTMAX_H = "sdk/ops/softmax/kernel.h"
OTHER_ORDER = """KERNEL(NAME(softmax_columns))(struct softmax_columns_args args, GLOBAL elem *p0, i64 count, GLOBAL const elem *p1)
{
    FOR_ALL(i, count) softmax_columns_span(&args, i, 1, p0, p1);
}"""
OTHER_COUNT = """KERNEL(NAME(softmax_columns))(struct softmax_columns_args args, i32 count, GLOBAL elem *p0, GLOBAL const elem *p1)
{
    FOR_ALL(i, count) softmax_columns_span(&args, i, 1, p0, p1);
}"""


def only_for(compiler, text, otherwise):
    return f"#ifdef {compiler}\n{text}\n#else\n{otherwise}\n#endif"


IMAGES = [
    ("clang's struct of arguments has a field more", SOFTMAX_H,
     "struct softmax_args {\n    i64 extent, inner;\n",
     "struct softmax_args {\n    i64 extent, inner;\n" + only_for("__HIP__", "    i64 more;", "") + "\n",
     "hip", "*_softmax_f32.co", SOFTMAX, "parameter 0 of bp_softmax_f32, 24 bytes at 0 of its image, has another size"),
    ("a kernel of hip takes its count behind an operand", SOFTMAX_H,
     "ENTRY_SPANS_2(softmax_columns, elem, const elem)",
     only_for("__HIP__", OTHER_ORDER, "ENTRY_SPANS_2(softmax_columns, elem, const elem)"),
     "hip", "*_softmax_f32.co", SOFTMAX, "parameter 1 of bp_softmax_columns_f32, 8 bytes at 16 of its image, has another kind"),
    ("a kernel of cuda has a count of 32 bits", SOFTMAX_H,
     "ENTRY_SPANS_2(softmax_columns, elem, const elem)",
     only_for("__CUDACC__", OTHER_COUNT, "ENTRY_SPANS_2(softmax_columns, elem, const elem)"),
     "cuda", "softmax_f32.fatbin", SOFTMAX, "parameter 1 of bp_softmax_columns_f32, 4 bytes at 16 of its image, has another size"),
]
