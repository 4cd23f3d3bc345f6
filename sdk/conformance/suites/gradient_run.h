/* SPDX-License-Identifier: Apache-2.0 */
/* gradient_run.h: the state of a running case of the suite `gradient`. L is the sum of all numbers
 * of a function, each times a fixed random weight. First order: the function is the operator, and
 * its gradient is computed by the gradient rule. Second order: the function is the gradient rule,
 * as a function of the inputs and of the gradients of the outputs; its gradient is computed by the
 * rules of the operators of which the rule consists. */
#ifndef BP_CONFORM_GRADIENT_RUN_H
#define BP_CONFORM_GRADIENT_RUN_H

#include "case_run.h"
#include <string.h>

/* A tensor of f64 or c128, and its numbers. The gradient of a complex number is the gradient of its
 * real part plus i times that of its imaginary part, so each part counts as one number. */
struct numbers {
    bool is; /* whether there is such a tensor: an input or output of these dtypes */
    uint32_t dtype;
    struct bp_tensor *tensor;
    double *at;
    int64_t n; /* numbers; a complex one counts twice */
    int rank;
    int64_t shape[REF_RANK];
    char name[48];
};

enum { GRADIENT_VARIABLES = CASE_PORTS + REF_OUTPUTS, GRADIENT_FLAT = 2 * CASE_PORTS };

struct gradient_run {
    struct run r; /* its call and arguments, and also the inputs that are no variables */
    int n_out;    /* outputs of the call */
    int flat[CASE_PORTS], n_flat;   /* index of each input in lists of gradients */
    struct numbers in[CASE_PORTS];  /* the inputs */
    struct numbers dy[REF_OUTPUTS]; /* weights of the outputs, that is, their gradients */
    /* For the second order: weights of the inputs' gradients. */
    struct numbers v[CASE_PORTS];
    struct bp_generator *generator;

    /* The recorded call, its gradient and the gradient of the gradient. */
    struct bp_graph *graph;
    struct bp_tensor *s_in[CASE_PORTS], *s_dy[REF_OUTPUTS], *s_v[CASE_PORTS];
    struct bp_tensor *s_dx[CASE_PORTS], *s_ddx[GRADIENT_VARIABLES];
};

/* Variable number i: first the inputs, then, for the second order, the gradients of the outputs. */
static inline struct numbers *gradient_variable(struct gradient_run *g, int i)
{
    return i < CASE_PORTS ? &g->in[i] : &g->dy[i - CASE_PORTS];
}

/* Checks the status of a call. If the device does not support the call, the result is marked as
 * refused. */
static inline bool gradient_ok(struct gradient_run *g, enum bp_status status, const char *call)
{
    g->r.c->result->refused |= kernel_is_refused(status);
    return check_ok(g->r.c, status, call);
}

/* In gradient_graph.c: records the call and its gradient; for the second order also the gradient of
 * the gradient. Fills the types of dy and v. Returns whether all checks passed. */
bool gradient_record(struct gradient_run *g);

/* Whether the device has a kernel row for each recorded node. If not, the case is unsupported, with
 * the missing operator. */
bool gradient_is_held(struct gradient_run *g);

/* Runs the recorded second order. Sets out[i] to the gradient of variable i, or to NULL if it is
 * zero. */
bool gradient_run_second(struct gradient_run *g, struct bp_tensor **out);

void gradient_forget(struct gradient_run *g); /* releases the recorded graph */

#endif
