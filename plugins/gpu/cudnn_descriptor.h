/* SPDX-License-Identifier: Apache-2.0 */
/* cudnn_descriptor.h: makes descriptors of cuDNN's graph interface, and of a graph of operations an
 * execution plan by an engine that meets the guarantees of the kernel rows. */
#ifndef GPU_CUDNN_DESCRIPTOR_H
#define GPU_CUDNN_DESCRIPTOR_H

#include "cudnn.h"
#include "vendor.h"

enum {
    CUDNN_ALIGNED = 16,
    CUDNN_WORKSPACE_ALIGNMENT = 256,
    CUDNN_AXES = 5 /* of a tensor */
};
static const int64_t cudnn_workspace_most = INT64_C(1) << 30;

/* A graph of operations, and the library's execution plan for this graph. The graph is destroyed
 * together with the plan, because the library's documentation does not state whether a plan needs
 * the graph. */
enum { CUDNN_MADE = 64 };
struct cudnn_graph {
    void *made[CUDNN_MADE]; /* descriptors in order of creation; the last is the plan */
    int n;                  /* number of descriptors */
    int64_t workspace;
};

/* A graph that is being made for a device. Under the device's lock `loading`. */
struct cudnn_builder {
    const struct gpu_device *device;
    void *handle;
    bool needs_notes; /* an engine without numerical notes does not meet the guarantees */
    bool keeps_nan;   /* the engine must have the note that it keeps NaN in all steps */
    struct cudnn_graph graph;
};

/* A tensor of a graph. The library identifies tensors in memory by their `id`. */
struct cudnn_tensor {
    int type, rank;
    const int *shape, *stride;
    int id;
    int64_t alignment;
    bool is_virtual; /* computed, but not in memory */
    bool by_value;   /* a number in the host's memory, read when the graph is enqueued */
};

/* The library's functions, valid once the library is open. */
extern const struct cudnn_calls *const gpu_cudnn_call;

/* Calls the library while a plan is being made. false: the call failed, and the reason is
 * logged. */
#define CUDNN_GOOD(device, name, ...) \
    gpu_vendor_good(device, &gpu_cudnn, #name, gpu_cudnn_call->name(__VA_ARGS__))

/* The library's number of a data type. */
int cudnn_type_of(uint8_t dtype);
/* Copies elements by a portable kernel, between views of equal shape. */
enum bp_status cudnn_assign(const struct bp_launch *launch, const struct bp_view *from,
                            const struct bp_view *to);
/* Whether the library has the functions of the graph interface. */
bool cudnn_has_graphs(void);

/* Appends a new descriptor to the graph; NULL: it could not be created. */
void *cudnn_add(struct cudnn_builder *b, int kind);
/* Set an attribute of a descriptor. false: the library refused it; a status "not supported" is not
 * logged, in all functions that finalize or set. */
bool cudnn_set(const struct cudnn_builder *b, void *descriptor, int attribute, int type, int64_t n,
               const void *values);
bool cudnn_set_i64(const struct cudnn_builder *b, void *descriptor, int attribute, int n,
                   const int *values);
bool cudnn_set_descriptor(const struct cudnn_builder *b, void *descriptor, int attribute,
                          void *value);
bool cudnn_finalize(const struct cudnn_builder *b, void *descriptor);

/* An operation y = mode(x, with) on each element of tensors. */
struct cudnn_step {
    int mode, type; /* type: in which the library computes; 0: f32 */
    int axis;       /* of CUDNN_INDEX */
    void *x, *with; /* with: NULL for a mode of one operand */
    void *where;    /* of CUDNN_SELECT: y is x if it is true, else with; or NULL */
    void *y;
};

/* Append a finalized tensor, and the operation of a step. NULL: the library does not support it. */
void *cudnn_add_tensor(struct cudnn_builder *b, const struct cudnn_tensor *tensor);
void *cudnn_add_pointwise(struct cudnn_builder *b, const struct cudnn_step *step);

/* Appends the graph of n operations and its execution plan. false: no engine meets the guarantees
 * of the kernel rows. */
bool cudnn_build(struct cudnn_builder *b, void *const *operations, int n);

/* Destroys all descriptors of a graph. */
void cudnn_graph_drop(const struct gpu_device *device, struct cudnn_graph *graph);
/* Enqueues the graph in the stream of a handle, with the addresses of n tensors. Returns the
 * library's code, and the name of the function that returned it. */
int cudnn_graph_execute(const struct gpu_device *device, const struct cudnn_graph *graph,
                        void *handle, int n, const int64_t *id, void *const *at, void *workspace,
                        const char **out_function);

#endif
