/* SPDX-License-Identifier: Apache-2.0 */
/* plan.h: declares the planner, which finds the steps (kernel launches and views) that execute one
 * call. */
#ifndef BP_PLAN_H
#define BP_PLAN_H

#include "prepared.h"

struct bp_planner {
    struct bp_prepared *p; /* steps and temporaries are added to it */
    const struct bp_operand *own; /* the call's own inputs */
    const void *attrs;            /* the call's own attributes */
    const struct bp_constant *constant; /* the identity of each own input that is constant */
    uint32_t depth;        /* nesting depth of decompositions */
    uint32_t kind;         /* enum bp_fallback_kind: the reason for the next step */

    /* bp_plan_call, for the files that plan.c itself calls. */
    enum bp_status (*call)(struct bp_planner *b, const struct bp_invocation *inv,
                           const struct bp_operand *in, const struct bp_operand *out);
};

/* plan.c: adds the steps of an invocation whose tensors are in and out. BP_ERR_NO_KERNEL: its
 * device has no path to execute it. */
enum bp_status bp_plan_call(struct bp_planner *b, const struct bp_invocation *inv,
                            const struct bp_operand *in, const struct bp_operand *out);

/* plan_step.c: whether a status means that a path does not exist on this device, so that another
 * path may be tried. */
bool bp_plan_is_dead_end(enum bp_status status);

/* The failure of the first path, kept while other paths are tried. */
struct bp_first_failure {
    enum bp_status status;
    char *why; /* owned; NULL: out of memory */
    struct bp_error_info at;
};
struct bp_first_failure bp_plan_first_failure(enum bp_status status);
/* Returns the status of the paths tried later; if these do not exist either, the status of the
 * first path, with its message. Frees first. */
enum bp_status bp_plan_report(struct bp_first_failure *first, enum bp_status status);

/* The number of steps and temporaries when the planning of a path began. If the path does not
 * exist, bp_plan_rewind removes the later ones. */
struct bp_plan_mark {
    uint32_t n_step, n_temp;
};
void bp_plan_rewind(struct bp_prepared *p, struct bp_plan_mark to);

/* Returns the type of an operand; NULL for none. The pointer stays valid while the plan grows. */
const struct bp_view *bp_plan_view_of(const struct bp_prepared *p, struct bp_operand o);

/* Sets the inputs of an invocation to those of a step: their types and, for constants (the call's
 * own constants, and temporaries that are views of them), their identity. */
void bp_plan_set_inputs(const struct bp_planner *b, struct bp_invocation *inv,
                        const struct bp_operand *in);

/* Adds a temporary between steps: of a type, or dense with the shape of like and a dtype. */
enum bp_status bp_plan_add_temp(struct bp_planner *b, const struct bp_invocation *inv,
                                const struct bp_typed_view *type, struct bp_operand *out_operand);
enum bp_status bp_plan_add_dense(struct bp_planner *b, const struct bp_invocation *inv,
                                 const struct bp_view *like, uint32_t dtype,
                                 struct bp_operand *out_operand);

/* Adds a step without its kernel; bp_plan_set_launch fills its launch. */
enum bp_status bp_plan_add_step(struct bp_planner *b, const struct bp_invocation *inv,
                                const struct bp_operand *in, const struct bp_operand *out,
                                struct bp_step **out_step);
void bp_plan_set_launch(struct bp_step *step, const struct bp_invocation *inv);

/* Makes a temporary a view of the operand `of`, offset bytes behind its first element. */
void bp_plan_set_view(struct bp_prepared *p, struct bp_operand temp, struct bp_operand of,
                      uint64_t offset, const int64_t *stride);

/* Copies an invocation to the heap, because the struct is large; NULL: no memory. */
struct bp_invocation *bp_plan_copy_call(const struct bp_invocation *inv);
/* Adds the steps of an operator with one input and one output, in the call `of`. */
enum bp_status bp_plan_unary(struct bp_planner *b, const struct bp_invocation *of,
                             enum bp_row_number row, void *attrs, struct bp_operand from,
                             struct bp_operand to);

/* emulate.c: plans that lead to kernels which take less than the core promises an app. Each returns
 * BP_ERR_NO_KERNEL if it is no path for the call.
 * copy: an assign that the core copies itself. expand: the call with inputs expanded to the shape
 * of the result. narrow: the call with indices of 32 bits in place of 64, taken and returned. */
enum bp_status bp_plan_copy(struct bp_planner *b, const struct bp_invocation *inv,
                            const struct bp_operand *in, const struct bp_operand *out);
enum bp_status bp_plan_expand(struct bp_planner *b, const struct bp_invocation *inv,
                              const struct bp_operand *in, const struct bp_operand *out);
enum bp_status bp_plan_narrow(struct bp_planner *b, const struct bp_invocation *inv,
                              const struct bp_operand *in, const struct bp_operand *out);

enum bp_status bp_plan_no_memory(const struct bp_invocation *inv);

#endif
