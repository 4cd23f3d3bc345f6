/* SPDX-License-Identifier: Apache-2.0 */
/* plan.h: declares how plans are made: from a recording of the model, or from a template of plans
 * whose input types differ in one number. */
#ifndef BP_ONNX_PLAN_H
#define BP_ONNX_PLAN_H

#include "onnx.h"

/* The inputs of a run that needs a plan, and its outputs as in onnx_plan_find. */
struct onnx_wanted {
    struct bp_stream *stream; /* that reads inputs, or NULL */
    const struct onnx_use *use;
    const struct bp_model_value *in;
    size_t n_in;
    const uint8_t *want;
    bool fixes;               /* the plan may fix inputs */
    struct onnx_fixed *fixed; /* values of inputs that are known so far */
    bool keeps_ranges;        /* as the member of onnx_run */
    uint64_t hash;            /* of the types */
};

/* plan.c. onnx_plan_make records the model. onnx_plan_new makes a plan without a graph, which has
 * the types of the inputs only. Both are called with the lock `planning`; the caller releases the
 * plan. */
enum bp_status onnx_plan_make(struct bp_model *model, struct onnx_wanted *wanted,
                              struct onnx_plan **out_plan);
enum bp_status onnx_plan_new(const struct bp_model *model, const struct onnx_wanted *wanted,
                             struct onnx_plan **out_plan);

enum {
    ONNX_SAMPLES = 6
};

/* Input types that differ in one number, the parameter: each extent is first + slope parameter. The
 * parameter is an extent itself. Made from samples, for which the model has been recorded. */
struct onnx_line {
    struct bp_template *made;
    struct onnx_plan *sample[ONNX_SAMPLES]; /* a reference each */
    uint32_t n_sample;
    uint32_t input, axis;   /* the extent that is the parameter */
    int64_t *first, *slope; /* of ONNX_RANK_MAX axes of each input */
    int64_t least, most;    /* the parameters of the samples */
    bool is_closed;         /* there is no sample above most */
    bool keeps_ranges;      /* the samples were recorded for the template, with the numbers of Range
                               nodes as values of the graph */
    uint64_t used;          /* the number of its last use */
};

/* plan_line.c: makes a plan for the wanted types from a template, if there is one or can be one of
 * the plans that are kept. The model is recorded too, and the graphs must be equal. NULL: there is
 * no such plan. Called with the lock `planning`. */
enum bp_status onnx_line_plan(struct bp_model *model, struct onnx_wanted *wanted,
                              struct onnx_plan **out_plan);
void onnx_lines_destroy(struct bp_model *model);

#endif
