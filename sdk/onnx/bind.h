/* SPDX-License-Identifier: Apache-2.0 */
/* bind.h: declares caches that a model keeps: an output of one run (present keys) that is an input
 * of the next run (past keys) lies in a buffer of the model, which runs write in place. */
#ifndef BP_ONNX_BIND_H
#define BP_ONNX_BIND_H

#include "run.h"

/* An output and the input that receives it. They differ in the extent of one axis only. */
struct onnx_bind_pair {
    uint32_t input, output, axis;
    struct bp_tensor *buffer; /* `capacity` places along axis; NULL before the first run */
};

/* The plan of a bound model for a set of inputs. */
struct onnx_bind_plan {
    struct onnx_plan *plan;  /* its graph has as inputs the length of the past, then those that are
                               not bound, in order. No graph: runs copy the caches */
    int64_t at;              /* the length of the past for which the plan's types are */
    bool any;                /* the plan serves every length */
    int64_t added;           /* places that a run adds */
    uint32_t *axis;          /* of each input: the axis that grows with the past, or UINT32_MAX */
    struct bp_tensor **room; /* of each input that grows: `capacity` places, or NULL */
    uint64_t used;           /* the number of its last use */
};

struct onnx_bind {
    pthread_mutex_t lock; /* held by each run; before the model's locks */
    struct onnx_bind_pair *pair;
    uint32_t n;
    int64_t capacity, length;   /* places along the axes, and those that the last run left */
    struct bp_tensor *position; /* one i64: the length of the past of a run */
    struct onnx_bind_plan *plan[ONNX_PLANS];
    int64_t refused; /* places that runs added for which no plan serves every length; 0: none */
    uint64_t uses;
    uint64_t runs, in_place, copies, grown, plans; /* as in bp_model_bind_info */
};

/* bind.c */
void onnx_bind_destroy(struct bp_model *model);
/* Returns the pair of an input or of an output; NULL: it is not bound. */
const struct onnx_bind_pair *onnx_bind_input(const struct onnx_bind *bind, uint32_t input);
const struct onnx_bind_pair *onnx_bind_output(const struct onnx_bind *bind, uint32_t output);
/* Makes buffers of this many places for pasts of the types of in, and copies `keep` places from the
 * old buffers. Plans for the old buffers are dropped. */
enum bp_status onnx_bind_resize(struct bp_model *model, struct bp_stream *stream,
                                const struct bp_model_value *in, int64_t capacity, int64_t keep);
void onnx_bind_drop_plans(struct bp_model *model);
/* Makes a tensor of zeros. */
enum bp_status onnx_bind_zeros(struct bp_stream *stream, uint32_t dtype, uint32_t rank,
                               const int64_t *shape, struct bp_tensor **out);

/* bind_run.c: runs a model that has bindings. */
enum bp_status onnx_bind_run(struct onnx_request *r, struct onnx_use *use, struct onnx_last *last);

/* bind_plan.c: finds or makes the plan of a run behind `past` places. The bindings own it. */
enum bp_status onnx_bind_plan(const struct onnx_request *r, const struct onnx_use *use,
                              int64_t past, struct onnx_bind_plan **out_plan);
void onnx_bind_plan_destroy(struct bp_model *model, struct onnx_bind_plan *plan);

#endif
