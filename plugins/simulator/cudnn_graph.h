/* SPDX-License-Identifier: Apache-2.0 */
/* cudnn_graph.h: declares descriptors of the stand-in for cuDNN's graph interface, and graphs of
 * steps: attention as products and elementwise steps, and graphs of elementwise steps alone. */
#ifndef SIM_CUDNN_GRAPH_H
#define SIM_CUDNN_GRAPH_H

#include "cudnn.h"

/* STEPS: operations of a graph; NUMBERS: tensors of a graph in the host's memory. */
enum {
    DESCRIPTOR = 0xd9,
    VALUES = 12,
    VALUE = 128,
    STEPS = 16,
    NUMBERS = 4
};

struct value {
    int attribute, type;
    int64_t n; /* 0: not set */
    unsigned char data[VALUE];
};

struct descriptor {
    int magic, kind;
    bool final;
    int way; /* of a configuration, an engine or a plan */
    struct value value[VALUES];
    struct descriptor *graph; /* of a configuration, an engine or a plan */
};

static inline bool cudnn_graph_is(const void *p, int kind)
{
    const struct descriptor *d = p;

    return d && d->magic == DESCRIPTOR && d->kind == kind;
}

static inline bool is_final(const void *p, int kind)
{
    return cudnn_graph_is(p, kind) && ((const struct descriptor *)p)->final;
}

/* The value of an attribute, or the place for it; NULL: the descriptor has too many. */
static inline struct value *cudnn_graph_value_of(struct descriptor *d, int attribute)
{
    int i = 0;

    while (i < VALUES && d->value[i].n && d->value[i].attribute != attribute) i++;
    return i < VALUES ? &d->value[i] : NULL;
}

/* The attributes of a finalized descriptor. */
static inline const void *data_of(const void *p, int attribute)
{
    return cudnn_graph_value_of((struct descriptor *)p, attribute)->data;
}
static inline int64_t i64_of(const void *p, int attribute, int64_t i)
{
    return ((const int64_t *)data_of(p, attribute))[i];
}
static inline int cudnn_graph_number_of(const void *p, int attribute)
{
    return *(const int *)data_of(p, attribute);
}
static inline void *pointer_of(const void *p, int attribute)
{
    return *(void *const *)data_of(p, attribute);
}
static inline int64_t cudnn_graph_count_of(const void *p, int attribute)
{
    return cudnn_graph_value_of((struct descriptor *)p, attribute)->n;
}
static inline bool has_attribute(const void *p, int attribute)
{
    return cudnn_graph_count_of(p, attribute) != 0;
}

/* Whether a tensor is virtual, that is not in memory; or a number in the host's memory. */
static inline bool is_virtual(const void *p)
{
    return has_attribute(p, CUDNN_TENSOR_VIRTUAL) &&
           *(const bool *)data_of(p, CUDNN_TENSOR_VIRTUAL);
}
static inline bool is_by_value(const void *p)
{
    return has_attribute(p, CUDNN_TENSOR_BY_VALUE) &&
           *(const bool *)data_of(p, CUDNN_TENSOR_BY_VALUE);
}

/* The mode of a pointwise operation, and the type in which it computes. */
static inline int mode_of(const struct descriptor *pointwise)
{
    return cudnn_graph_number_of(pointer_of(pointwise, CUDNN_POINTWISE_STEP), CUDNN_STEP_MODE);
}
static inline int step_type_of(const struct descriptor *pointwise)
{
    return cudnn_graph_number_of(pointer_of(pointwise, CUDNN_POINTWISE_STEP), CUDNN_STEP_TYPE);
}

/* The address of a tensor, by its id; NULL: the pack has none. */
void *cudnn_address_of(const struct descriptor *pack, const void *tensor);

/* cudnn_steps.c: whether a tensor has a type that only tensors outside of the device's memory may
 * have; finishes a descriptor of a step, a product or a reduction; whether a graph consists of
 * these, and the library supports it; its tensors in the device's memory; and enqueues it. */
bool cudnn_is_step_type(const struct descriptor *tensor);
int cudnn_steps_finish(const struct descriptor *d);
bool cudnn_is_steps(const struct descriptor *graph);
bool cudnn_steps_fit(const struct descriptor *graph);
void cudnn_steps_tensors(const struct descriptor *graph, const void *tensor[PARTS]);
int cudnn_steps_start(const struct thing *handle, const struct descriptor *graph,
                      const struct descriptor *pack, void *const at[PARTS]);

#endif
