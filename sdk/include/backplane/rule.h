/* SPDX-License-Identifier: Apache-2.0 */
/* rule.h: defines the rules of a plugin's own operators (bp_operator in kernel.h): how an operator
 * is computed by other operators, what its gradient is, and how many outputs it has.
 *
 * A decomposition and a gradient are written as calls of operators, by their names. The core runs
 * these calls, or records them in a graph, as the app's call requires, on the app's device and in
 * the order of its stream. A rule can call every operator that the core knows: those of docs/ops.md
 * and those of plugins. It holds no tensor longer than it runs, sees no data, and decides by
 * dtypes, shapes and attributes only. Rules are pure functions: they have no self, because they
 * also run without a device; any thread may call them. */
#ifndef BP_RULE_H
#define BP_RULE_H

#include <backplane/op.h>
#include <backplane/status.h>
#include <backplane/types.h>

#ifdef __cplusplus
extern "C" {
#endif

struct bp_prep;
struct bp_view;

/* A tensor in the core, with data or symbolic. A rule only passes pointers to it on; they are valid
 * until the rule returns. */
struct bp_tensor;

/* The tensors of one declared input of a call: one, or any number of BP_PORT_VAR. n 0, or the one
 * tensor NULL: an optional input is absent. */
struct bp_rule_arg { /* hot */
    struct bp_tensor *const *at;
    size_t n;
};

/* A call that a rule makes. */
struct bp_rule_call { /* parameters, plugin to core */
    size_t size;
    const char *op;
    const struct bp_rule_arg *in; /* one for each declared input; optional inputs at the end may be
                                     left out */
    const void *attrs;      /* the operator's attribute struct (attrs.h); NULL: all defaults */
    const uint8_t *want;    /* one byte for each entry of out: 0 for an optional output that is not
                               needed; NULL: all are needed */
    struct bp_tensor **out; /* the call sets an entry for each output, or tensor of a variadic
                               output */
    uint32_t n_in, n_out;
};

/* The argument of a rule. Lists are flat, in declared order; in_at and out_at are as in
 * bp_launch. */
struct bp_rule { /* parameters */
    size_t size;
    void *ctx;                    /* the first argument of view and call */
    const struct bp_opinfo *op;
    const void *attrs;            /* the attribute struct, all fields current; or NULL */
    const uint16_t *in_at, *out_at;
    struct bp_tensor *const *in;  /* absent ones are NULL */
    struct bp_tensor *const *out; /* of gradient: the results; of decompose: NULL */
    struct bp_tensor *const *dy;  /* of gradient: the gradients of the results; an entry that is
                                     NULL is zero. Of decompose: NULL */
    const uint8_t *want;          /* which entries of result are wanted */
    struct bp_tensor **result;    /* all NULL at first; the rule sets those that are wanted. Of
                                     decompose: n_out outputs, of the dtypes and shapes that infer
                                     states. Of gradient: the gradients of the n_in inputs, each of
                                     the dtype and shape of its input; NULL stays for zero */
    uint32_t n_in, n_out;

    /* The dtype, rank and shape of a tensor, without data. NULL for NULL. Valid until the rule
     * returns. */
    const struct bp_view *(*view)(void *ctx, const struct bp_tensor *tensor);

    /* Makes a call. The core owns the tensors in call->out. After a failure each later call of the
     * rule returns that failure at once, and so does the rule as a whole, whatever it returns: a
     * rule need not check each call, if it does not read the view of a NULL. */
    enum bp_status (*call)(void *ctx, const struct bp_rule_call *call);
};

/* Calls an operator that has one tensor in each input, of which in has n. Returns the first output,
 * or NULL after a failure. */
static inline struct bp_tensor *bp_rule_make(const struct bp_rule *rule, const char *op,
                                             const void *attrs, struct bp_tensor *const *in,
                                             uint32_t n)
{
    struct bp_rule_arg arg[16];
    struct bp_tensor *out = NULL;
    struct bp_rule_call call = {sizeof call, op, arg, attrs, NULL, &out, n, 1};

    if (n > 16) n = 16;
    for (uint32_t i = 0; i < n; i++) {
        arg[i].at = &in[i];
        arg[i].n = 1;
    }
    call.n_in = n;
    rule->call(rule->ctx, &call);
    return out;
}

/* The rules of one operator that the same plugin defines. */
struct bp_op_rules { /* rows */
    const char *op; /* info.name of a bp_operator of the plugin */

    /* Expresses the operator by other operators: the core runs it where no kernel row takes a call,
     * and may run it in place of a row. Not for calls with more than 16 outputs. NULL: the operator
     * needs a kernel row. */
    enum bp_status (*decompose)(const struct bp_rule *rule);

    /* Computes the gradients of the inputs. NULL: the core differentiates the decomposition; an
     * operator that has none either has no gradient. */
    enum bp_status (*gradient)(const struct bp_rule *rule);

    /* Of an operator whose last output is BP_PORT_VAROUT, required: sets the number of tensors of
     * this output. prep as for infer, which runs afterwards. BP_ERR_INVALID, without a message:
     * these inputs do not fit together. */
    enum bp_status (*count)(const struct bp_prep *prep, uint32_t *out_count);
};

#ifdef __cplusplus
}
#endif

#endif
