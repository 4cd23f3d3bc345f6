/* SPDX-License-Identifier: Apache-2.0 */
/* compose.h: declares compositions: calls of operators written as expressions, for rules
 * (gradients, decompositions) that are defined by other operators.
 *
 *     struct bp_compose c = bp_compose_begin(g->scope);
 *     bp_compose_keep(&c, MAKE(&c, mul, NULL, dy, MAKE(&c, cos, NULL, x)), &g->dx[0]);
 *     return bp_compose_end(&c);
 *
 * A composition owns the tensors that it creates and destroys them at its end. For a tensor that
 * was marked by bp_compose_keep the caller gets a new reference, if all calls succeeded. After a
 * failure no further call runs: each call returns NULL, and bp_compose_end returns the status. */
#ifndef BP_COMPOSE_H
#define BP_COMPOSE_H

#include "../schema/op.h"

enum { BP_COMPOSE_KEPT = 16 };

struct bp_compose {
    struct bp_scope *scope;
    enum bp_status status;
    struct bp_tensor **made; /* n tensors, capacity room; a reference each */
    uint32_t n, room, n_kept;
    struct {
        struct bp_tensor *tensor, **out;
    } kept[BP_COMPOSE_KEPT];
};

/* Calls an operator by its number: the inputs are listed in order (NULL: absent), the result is the
 * first output. attrs: the operator's struct of attributes, or NULL. */
#define MAKE(c, op, attrs, ...) \
    bp_compose(c, BP_ROW_##op, attrs, (struct bp_tensor *[]){__VA_ARGS__}, \
               sizeof((struct bp_tensor *[]){__VA_ARGS__}) / sizeof(struct bp_tensor *))

struct bp_compose bp_compose_begin(struct bp_scope *scope);
struct bp_tensor *bp_compose(struct bp_compose *c, enum bp_row_number row, const void *attrs,
                             struct bp_tensor *const *in, size_t n_in);

/* A call with several outputs: out[i] is set where want has bit i. */
void bp_compose_outputs(struct bp_compose *c, enum bp_row_number row, const void *attrs,
                        struct bp_tensor *const *in, size_t n_in, uint32_t want,
                        struct bp_tensor **out);

/* A call of an operator whose only input is any number of tensors. */
struct bp_tensor *bp_compose_all(struct bp_compose *c, enum bp_row_number row, const void *attrs,
                                 struct bp_tensor *const *in, size_t n_in);

/* Marks t: at the end *out becomes a new reference to it. */
void bp_compose_keep(struct bp_compose *c, struct bp_tensor *t, struct bp_tensor **out);

/* The composition takes over the caller's reference to t. Returns t. */
struct bp_tensor *bp_compose_take(struct bp_compose *c, struct bp_tensor *t);
enum bp_status bp_compose_end(struct bp_compose *c);

/* Ends a decomposition whose only result is y, converted to the dtype of its first input. */
enum bp_status bp_compose_give(struct bp_decomposition *e, struct bp_compose *c,
                               struct bp_tensor *y);

/* Ends a gradient rule whose only result is the gradient of the first input. */
enum bp_status bp_compose_dx(struct bp_grad *g, struct bp_compose *c, struct bp_tensor *dx);

/* Returns factor x + bias, for floats. */
struct bp_tensor *bp_compose_scale(struct bp_compose *c, struct bp_tensor *x, double factor,
                                   double bias);
struct bp_tensor *bp_compose_cast(struct bp_compose *c, struct bp_tensor *x, uint32_t dtype);
struct bp_tensor *bp_compose_reshape(struct bp_compose *c, struct bp_tensor *x, uint32_t rank,
                                     const int64_t *shape);

/* Returns the sum over axes; n 0: x itself, not the sum over all axes. */
struct bp_tensor *bp_compose_sum(struct bp_compose *c, struct bp_tensor *x, const int64_t *axes,
                                 int64_t n, bool keep);

/* Sums over the axes that broadcasting repeated, so that the result has the shape of like. */
struct bp_tensor *bp_compose_sum_to(struct bp_compose *c, struct bp_tensor *x,
                                    const struct bp_tensor *like);

/* Converts f16 and bf16 to f32, for results with many roundings; returns x itself for other
 * dtypes. */
struct bp_tensor *bp_compose_widen(struct bp_compose *c, struct bp_tensor *x);

/* Returns y with each 0 replaced by 1: a divisor for which 0 / 0 becomes 0. */
struct bp_tensor *bp_compose_not_zero(struct bp_compose *c, struct bp_tensor *y);

#endif
