/* SPDX-License-Identifier: Apache-2.0 */
/* plan.h: what finds the steps of a call. */
#ifndef BP_PLAN_H
#define BP_PLAN_H

#include "prepared.h"

struct bp_planner {
    struct bp_prepared *p; /* steps and temps are added to it */
    const struct bp_operand *own; /* the call's own inputs, */
    const struct bp_constant *constant; /* and what these are, if they are constant */
    uint32_t depth;        /* of expansions */
    uint32_t kind;         /* enum bp_fallback_kind: why the next step is there */
};

/* plan.c: adds the steps of a site whose tensors are at in and out. BP_ERR_NO_KERNEL: there is no
 * way on its device. */
enum bp_status bp_plan_call(struct bp_planner *b, const struct bp_invocation *site,
                            const struct bp_operand *in, const struct bp_operand *out);

/* plan_step.c: whether a way of running a call has failed as one that does not lead there: another
 * may. */
bool bp_plan_is_dead_end(enum bp_status status);

/* The failure of the first way, which others are tried after. */
struct bp_first_failure {
    enum bp_status status;
    char *why; /* own; NULL: no memory for it */
    struct bp_error_info at;
};
struct bp_first_failure bp_plan_first_failure(enum bp_status status);
/* The status of the ways tried after it, or, where none of them led there, the first one's with its
 * message. Ends first. */
enum bp_status bp_plan_report(struct bp_first_failure *first, enum bp_status status);

/* How much there was when a way began: the rest goes if it does not lead there. */
struct bp_plan_mark {
    uint32_t n_step, n_temp;
};
void bp_plan_rewind(struct bp_prepared *p, struct bp_plan_mark to);

/* The type of an operand; NULL for none. Stays where it is. */
const struct bp_view *bp_plan_view_of(const struct bp_prepared *p, struct bp_operand o);

/* Gives a site the inputs of a step: their types and, of constants (the call's own, and views of
 * them between steps), what they are. */
void bp_plan_set_inputs(const struct bp_planner *b, struct bp_invocation *site,
                        const struct bp_operand *in);

/* A place between steps, of a type; a dense one of the shape of like. */
enum bp_status bp_plan_add_temp(struct bp_planner *b, const struct bp_invocation *site,
                                const struct bp_typed_view *type, struct bp_operand *out_operand);
enum bp_status bp_plan_add_dense(struct bp_planner *b, const struct bp_invocation *site,
                                 const struct bp_view *like, uint32_t dtype,
                                 struct bp_operand *out_operand);

/* A step without its kernel. */
enum bp_status bp_plan_add_step(struct bp_planner *b, const struct bp_invocation *site,
                                const struct bp_operand *in, const struct bp_operand *out,
                                struct bp_step **out_step);
void bp_plan_set_launch(struct bp_step *step, const struct bp_invocation *site);

enum bp_status bp_plan_no_memory(const struct bp_invocation *site);

#endif
