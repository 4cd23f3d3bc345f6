/* SPDX-License-Identifier: Apache-2.0 */
/* case_run.h: the state of a running kernel case, and the functions that all kinds of kernel cases
 * share. */
#ifndef BP_CONFORM_KERNEL_RUN_H
#define BP_CONFORM_KERNEL_RUN_H

#include "suites.h"
#include "../compare.h"
#include "../operand.h"

struct run {
    struct check *c;
    const struct kernel_case *made;
    const struct bp_opinfo *info;
    struct operand in[CASE_PORTS];
    struct bp_tensor *tensor[CASE_PORTS]; /* the tensors of `in` */
    struct bp_tensor *host[CASE_PORTS];   /* tensors of the ports that give attributes */
    struct ref_array expected;
    /* The attributes, without those that `host` gives. */
    uint64_t attrs[sizeof ((struct kernel_case *)0)->attrs / 8];
    struct bp_arg arg[CASE_PORTS]; /* of declared inputs */
    struct bp_call call;
    void *data[2]; /* the results of two runs, dense */
    bool poisoned; /* the output was filled with poison before the run */
    struct one_node *node; /* the call runs as this program; NULL: on the stream */
};

static inline size_t run_bytes(const struct ref_array *array)
{
    return (size_t)array->count * array->type->size;
}

/* The name of the kernel row for messages. */
static inline const char *run_row(const struct run *r)
{
    return r->made->row ? r->made->row : "(none)";
}

/* In kernel.c: creates the inputs, the reference result and memory for results. Returns false if
 * there is nothing to run; the case then records why. The caller calls run_finish in both cases. */
bool run_init(struct run *r, struct check *c, const struct kernel_case *made);
void run_finish(struct run *r);

/* Runs a case that calls its operator once or twice. */
void run_once(struct check *c, const struct kernel_case *made);

/* In kernel_many.c: run cases with many extents and with many elements. In kernel_twice.c: runs
 * cases on two streams. */
void run_extents(struct check *c, const struct kernel_case *made);
void run_large(struct check *c, const struct kernel_case *made);
void run_twice(struct check *c, const struct kernel_case *made);

/* Fills call: each declared input with its tensors, and the attributes that the case gives as
 * tensors. */
bool run_arguments(struct run *r);

/* Computes the reference result for the output that the case checks. The caller frees the memory of
 * *out. */
void run_reference(const struct run *r, const struct ref_array *in, const void *attrs,
                   struct ref_array *out);

/* Computes the reference result for the case's inputs and these attributes. For random operators
 * the inputs of the reference include the seed and the offset of the case's generator. */
void run_expect(struct run *r, const void *attrs, struct ref_array *out);

/* Makes the call and waits for its end. *out NULL: the core creates the output. */
enum bp_status case_call(struct run *r, struct bp_tensor **out);

/* The same without waiting: submits the call to the case's stream. */
enum bp_status run_give(struct run *r, struct bp_tensor **out);

/* Fills memory that the device probably reuses for the next n results (RUN_FILL at most) with
 * numbers, so that elements that the kernel does not write are no NaN by chance. */
enum { RUN_FILL = 6 };
void run_fill_memory(struct run *r, int n);

/* Calls go with the generator of the case set on the stream, and waits for the end of the work. */
enum bp_status run_draw(struct run *r, enum bp_status (*go)(struct run *r, void *ctx), void *ctx);

/* Checks that out has dtype and shape of the reference result, then reads it into data. */
bool run_take(struct run *r, struct bp_tensor *out, void *data);

/* Compares a result with the reference and records the worst error. */
bool run_judge(struct run *r, const void *got, const char *which);

/* Checks that all inputs but one (-1: all) are unchanged. */
bool run_inputs_unchanged(struct run *r, int but);

/* The declared output that the case checks; and the input whose memory this output shares. */
const struct bp_port *run_port(const struct run *r);
struct operand *run_shared_input(struct run *r);

/* run_guarded makes the first run of a case, into a tensor between guard bytes; run_again makes a
 * second one, into a tensor that the core creates. run_guarded stores its result in data[0] and
 * returns whether the case goes on. */
bool run_guarded(struct run *r, enum bp_status *out_status);
void run_again(struct run *r);

/* In kernel_other.c: the first run of cases whose extents depend on data, that write over an input,
 * or that make a view. */
bool run_bound(struct run *r, enum bp_status *out_status);
bool run_update(struct run *r, enum bp_status *out_status);
bool run_view(struct run *r, enum bp_status *out_status);

/* Called when the row declines the configuration: another row must then compute it correctly. The
 * case is skipped with the reason. */
void run_other(struct run *r, const char *refusal);

/* In kernel_program.c: runs the case as a program of one node. run_node_begin compiles such a
 * program as r->node, and returns the status of the compilation, or BP_OK after a failure of the
 * case; run_node_go submits a run of it; run_node_end destroys it. */
void run_in_program(struct run *r);
enum bp_status run_node_begin(struct run *r);
enum bp_status run_node_go(struct run *r, struct bp_tensor **out);
void run_node_end(struct run *r);

/* In kernel_prepared.c: tests the call as a prepared call: each RUN attribute with a second value,
 * and, for an operator with a decomposition, the steps. */
void case_run_prepared(struct run *r);

/* Replaces the case's frozen inputs by other ones while a plan made for the first ones still
 * exists. */
void run_frozen_anew(struct run *r);

/* Prepares the call and destroys the prepared call. out_taken: whether the kernel row supports
 * it. */
bool run_plan(struct run *r, bool *out_taken);

/* Runs the case through the operator's decomposition although the device may have kernel rows for
 * the operator. */
void run_expanded(struct run *r);

#endif
