/* SPDX-License-Identifier: Apache-2.0 */
/* case_run.h: a kernel case while it runs: what its kinds share. */
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
    struct bp_tensor *tensor[CASE_PORTS]; /* of in */
    struct bp_tensor *host[CASE_PORTS];   /* of ports that give attributes */
    struct ref_array expected;
    uint64_t attrs[sizeof ((struct kernel_case *)0)->attrs / 8]; /* without what host gives */
    struct bp_arg arg[CASE_PORTS]; /* of declared inputs */
    struct bp_call call;
    void *data[2]; /* results of two runs, dense */
    bool poisoned; /* the output was filled with poison before */
};

static inline size_t run_bytes(const struct ref_array *array)
{
    return (size_t)array->count * array->type->size;
}

/* For messages. */
static inline const char *run_row(const struct run *r)
{
    return r->made->row ? r->made->row : "(none)";
}

/* kernel.c: makes inputs, the reference's result and room for results; false: there is nothing to
 * run, and the case says why. run_finish follows in both cases. */
bool run_init(struct run *r, struct check *c, const struct kernel_case *made);
void run_finish(struct run *r);

/* A case with one run of its operator, or two. */
void run_once(struct check *c, const struct kernel_case *made);

/* kernel_many.c: cases of many extents, and of many elements. kernel_twice.c: cases on two
 * streams. */
void run_extents(struct check *c, const struct kernel_case *made);
void run_large(struct check *c, const struct kernel_case *made);
void run_twice(struct check *c, const struct kernel_case *made);

/* Gives each declared input its tensors, of tensor, and attributes that the case has as
 * tensors; fills call. */
bool run_arguments(struct run *r);

/* What the reference makes of inputs for the output that the case looks at; its memory is
 * the caller's. */
void run_reference(const struct run *r, const struct ref_array *in, const void *attrs,
                   struct ref_array *out);

/* The same of the case's inputs, or of random words. */
void run_expect(struct run *r, const void *attrs, struct ref_array *out);

/* Runs the call, to its end. out: NULL for a tensor of the core's making. */
enum bp_status run_call(struct run *r, struct bp_tensor **out);

/* The same, given to the case's stream: nobody waits. */
enum bp_status run_give(struct run *r, struct bp_tensor **out);

/* Memory that the device is likely to take for n results (RUN_FILL at most) is filled with numbers:
 * what the kernel does not write is no NaN by chance. */
enum { RUN_FILL = 6 };
void run_fill_memory(struct run *r, int n);

/* Does go with the generator of the case, and waits for its end. */
enum bp_status run_draw(struct run *r, enum bp_status (*go)(struct run *r, void *ctx), void *ctx);

/* Whether a tensor has dtype and shape of the reference's result; then reads it. */
bool run_take(struct run *r, struct bp_tensor *out, void *data);

/* Whether a result is what the reference says. */
bool run_judge(struct run *r, const void *got, const char *which);

/* All inputs but one (-1: all). */
bool run_inputs_unchanged(struct run *r, int but);

/* The declared output that the case looks at, and the input whose memory it takes or views. */
const struct bp_port *run_port(const struct run *r);
struct operand *run_shared_input(struct run *r);

/* The first run of a case, into a place between guards; and a second, into a tensor that the core
 * makes. Result of the first: data[0]. false: nothing more is to be done. */
bool run_guarded(struct run *r, enum bp_status *out_status);
void run_again(struct run *r);

/* kernel_other.c: the first run where extents depend on data, where an input is written over, and
 * where a view is made. */
bool run_bound(struct run *r, enum bp_status *out_status);
bool run_update(struct run *r, enum bp_status *out_status);
bool run_view(struct run *r, enum bp_status *out_status);

/* kernel_prepared.c: the call prepared: its RUN attributes, twice with other values; its steps,
 * where it is defined in others. */
void run_prepared(struct run *r);

/* Other constants where those of the case were, while a plan that was made for these is there. */
void run_frozen_anew(struct run *r);

/* Prepares the call and destroys it. out_taken: whether the row takes it. */
bool run_plan(struct run *r, bool *out_taken);

/* The case of an operator that the device may have rows for, as those that it is defined in. */
void run_expanded(struct run *r);

#endif
