# SPDX-License-Identifier: Apache-2.0
"""What can be wrong in the plugins for real GPUs alone, each as a way to break it: the simulator's plugin has the same
host code, but neither their targets nor their images. Who has to notice: a conformance case on a stand-in for the driver
(tests/gpu/standin/broken.py).

name, file, the text that stands there once, what it becomes, the plugin, its object, cases, a part of what is said of it
"""
PORTABLE, CUDA, HIP = "plugins/gpu/portable.c", "plugins/cuda/target.c", "plugins/hip/target.c"
SOFTMAX = "kernel/softmax/f32/*"

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
    ("a struct of arguments has one field more where it is compiled as C", "sdk/kernels/softmax_args.h",
     "struct softmax_args {\n    i64 extent, inner;\n",
     "struct softmax_args {\n    i64 extent, inner;\n#if !defined(__CUDACC__) && !defined(__HIP__)\n    i64 more;\n#endif\n",
     "cuda", "kernels_softmax.c.o", SOFTMAX, "bp_softmax_f32 is launched with 48 bytes of arguments; its image takes 40"),
    ("arguments of C and of HIP have another size", "sdk/kernels/softmax_args.h",
     "struct softmax_columns_args {\n    i64 extent, inner;\n",
     "struct softmax_columns_args {\n    i64 extent, inner;\n#if !defined(__CUDACC__) && !defined(__HIP__)\n    i64 more;\n#endif\n",
     "hip", "kernels_softmax.c.o", "kernel/softmax/*", "bytes of arguments; its image takes 40"),
    ("cuda ends the list of a launch as hip does", CUDA,
     ".end = (void *)0,", ".end = (void *)3,",
     "cuda", "target.c.o", SOFTMAX, "a list that does not end with"),
    ("hip ends the list of a launch as cuda does", HIP,
     ".end = (void *)3,", ".end = (void *)0,",
     "hip", "target.c.o", SOFTMAX, "a list that does not end with"),
    ("teams have half of the lanes", PORTABLE,
     "teams_of(device, p), 1, 1, LANES, 1, 1, 0, stream->raw,",
     "teams_of(device, p), 1, 1, GPU_NAME[0] == 's' ? LANES : LANES / 2, 1, 1, 0, stream->raw,",
     "cuda", "gpu_portable.c.o", SOFTMAX, "teams of 128 lanes; it is compiled for 256"),
    ("hip calls a function by CUDA's name", HIP,
     "#define CALL(name, cuda, hip, parameters) #hip,",
     "#define CALL(name, cuda, hip, parameters) GPU_CALL_##name == GPU_CALL_copy_peer ? #cuda : #hip,",
     "hip", "target.c.o", SOFTMAX, "has no function cuMemcpyPeerAsync"),
]
