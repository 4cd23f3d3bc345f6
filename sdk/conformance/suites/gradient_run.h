/* SPDX-License-Identifier: Apache-2.0 */
/* gradient_run.h: a case of the suite `gradient` while it runs. L is the sum of all numbers of a
 * function times fixed random weights. First order: the function is the operator, its gradient is
 * what the rule gives. Second order: the function is what the rule gives, of the inputs and of the
 * gradients that the rule was given; its gradient comes from the rules of the rule's operators. */
#ifndef BP_CONFORM_GRADIENT_RUN_H
#define BP_CONFORM_GRADIENT_RUN_H

#include "case_run.h"
#include <string.h>

/* A tensor of f64, or of c128, and what is in it. The gradient of a complex number is that of its
 * real part plus i times that of its imaginary part, so each part is a number of its own. */
struct numbers {
    bool is; /* there is one: an input, or output, of these dtypes */
    uint32_t dtype;
    struct bp_tensor *tensor;
    double *at;
    int64_t n; /* parts counted */
    int rank;
    int64_t shape[REF_RANK];
    char name[48];
};

enum { GRADIENT_VARIABLES = CASE_PORTS + REF_OUTPUTS, GRADIENT_FLAT = 2 * CASE_PORTS };

struct gradient_run {
    struct run r; /* its call and arguments; inputs that are no variables too */
    int n_out;    /* of the call */
    int flat[CASE_PORTS], n_flat;      /* where inputs stand in lists of gradients */
    struct numbers in[CASE_PORTS];     /* inputs */
    struct numbers dy[REF_OUTPUTS];    /* weights of the outputs: their gradients */
    struct numbers v[CASE_PORTS];      /* of the second order: weights of the inputs' gradients */
    struct bp_generator *generator;

    /* The call, its gradient and that of it, recorded. */
    struct bp_graph *graph;
    struct bp_tensor *s_in[CASE_PORTS], *s_dy[REF_OUTPUTS], *s_v[CASE_PORTS];
    struct bp_tensor *s_dx[CASE_PORTS], *s_ddx[GRADIENT_VARIABLES];
};

/* Variable number i: the inputs, then, of the second order, what the outputs' gradients are. */
static inline struct numbers *gradient_variable(struct gradient_run *g, int i)
{
    return i < CASE_PORTS ? &g->in[i] : &g->dy[i - CASE_PORTS];
}

/* Whether a call went well; one that the device refuses is marked as that. */
static inline bool gradient_ok(struct gradient_run *g, enum bp_status status, const char *call)
{
    g->r.c->result->refused |= kernel_is_refused(status);
    return check_ok(g->r.c, status, call);
}

/* gradient_graph.c: records the call with its gradient, of the second order that of this too. Fills
 * the types of dy and v. Whether all went well. */
bool gradient_record(struct gradient_run *g);

/* Whether the device has a row for each recorded node; else the case says what it lacks. */
bool gradient_is_held(struct gradient_run *g);

/* Runs the recorded second order: out[i] is set to the gradient of variable i, or NULL for zero. */
bool gradient_run_second(struct gradient_run *g, struct bp_tensor **out);

void gradient_forget(struct gradient_run *g); /* what was recorded */

#endif
