/* SPDX-License-Identifier: Apache-2.0 */
/* compose.h: operators as expressions, for rules that are written in other operators.
 *
 *     struct bp_compose c = bp_compose_begin(g->scope);
 *     bp_compose_keep(&c, MAKE(&c, mul, NULL, dy, MAKE(&c, cos, NULL, x)), &g->dx[0]);
 *     return bp_compose_end(&c);
 *
 * A composition owns the tensors that it makes and destroys them at its end; those that are kept
 * get a reference of their own, if all went well. After a failure nothing more runs: every call
 * answers NULL, and the end returns the status. */
#ifndef BP_COMPOSE_H
#define BP_COMPOSE_H

#include "../schema/op.h"

enum { BP_COMPOSE_KEPT = 16 };

struct bp_compose {
    struct bp_scope *scope;
    enum bp_status status;
    struct bp_tensor **made; /* n of room, each a reference */
    uint32_t n, room, n_kept;
    struct {
        struct bp_tensor *tensor, **out;
    } kept[BP_COMPOSE_KEPT];
};

/* A call by row number: as many inputs as are listed (NULL: absent), the first output. attrs: of
 * the operator's struct, or NULL. */
#define MAKE(c, op, attrs, ...) \
    bp_compose(c, BP_ROW_##op, attrs, (struct bp_tensor *[]){__VA_ARGS__}, \
               sizeof((struct bp_tensor *[]){__VA_ARGS__}) / sizeof(struct bp_tensor *))

struct bp_compose bp_compose_begin(struct bp_scope *scope);
struct bp_tensor *bp_compose(struct bp_compose *c, enum bp_row_number row, const void *attrs,
                             struct bp_tensor *const *in, size_t n_in);

/* The same with several outputs: out[i] is set where want has bit i. */
void bp_compose_outputs(struct bp_compose *c, enum bp_row_number row, const void *attrs,
                        struct bp_tensor *const *in, size_t n_in, uint32_t want,
                        struct bp_tensor **out);

/* An operator whose only input is any number of tensors. */
struct bp_tensor *bp_compose_all(struct bp_compose *c, enum bp_row_number row, const void *attrs,
                                 struct bp_tensor *const *in, size_t n_in);

/* At the end *out becomes a new reference to t. */
void bp_compose_keep(struct bp_compose *c, struct bp_tensor *t, struct bp_tensor **out);

/* The composition takes the caller's reference to t, and answers t. */
struct bp_tensor *bp_compose_take(struct bp_compose *c, struct bp_tensor *t);
enum bp_status bp_compose_end(struct bp_compose *c);

/* The end of an expansion whose only result is y, in the dtype of its first input. */
enum bp_status bp_compose_give(struct bp_decomposition *e, struct bp_compose *c,
                               struct bp_tensor *y);

/* The end of a gradient whose only result is that of the first input. */
enum bp_status bp_compose_dx(struct bp_grad *g, struct bp_compose *c, struct bp_tensor *dx);

/* factor x + bias, of floats. */
struct bp_tensor *bp_compose_scale(struct bp_compose *c, struct bp_tensor *x, double factor,
                                   double bias);
struct bp_tensor *bp_compose_cast(struct bp_compose *c, struct bp_tensor *x, uint32_t dtype);
struct bp_tensor *bp_compose_reshape(struct bp_compose *c, struct bp_tensor *x, uint32_t rank,
                                     const int64_t *shape);

/* The sum over axes (n 0: x itself, not all). */
struct bp_tensor *bp_compose_sum(struct bp_compose *c, struct bp_tensor *x, const int64_t *axes,
                                 int64_t n, bool keep);

/* Summed over the axes that broadcasting repeated: to the shape of like. */
struct bp_tensor *bp_compose_sum_to(struct bp_compose *c, struct bp_tensor *x,
                                    const struct bp_tensor *like);

/* Half types in f32, where a result has many roundings: x itself where it is none. */
struct bp_tensor *bp_compose_widen(struct bp_compose *c, struct bp_tensor *x);

/* y, but 1 where it is 0: a divisor with which 0 / 0 becomes 0. */
struct bp_tensor *bp_compose_not_zero(struct bp_compose *c, struct bp_tensor *y);

#endif
