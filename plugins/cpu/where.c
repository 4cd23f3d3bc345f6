/* SPDX-License-Identifier: Apache-2.0 */
/* where.c: runs where, mask and masked_fill, for one size of elements (elem.h). mask is where with
 * zeros on one side; masked_fill is where with another order of inputs. */
#include "cpu.h"
#include "formula.h"
#include "loop.h"
#include <ops/common/kernel_formulas.h>
#include <ops/binary/kernel_where.h>

static void where_run(const struct loop *loop, int64_t n, void *to, const void *const *in)
{
    const u8 *c = in[0];
    const elem *x = in[1], *y = in[2];
    elem *z = to;

    (void)loop;
#pragma omp simd
    for (int64_t i = 0; i < n; i++) z[i] = where_elem(c[i], x[i], y[i]);
}

/* mask, of which v[0] says where x stays. */
static void mask_span(int64_t n, elem *z, const elem *x, const u8 *c, const double *v)
{
    static const elem nothing;
    int without = v[0] != 0;

#pragma omp simd
    for (int64_t i = 0; i < n; i++) z[i] = where_elem(c[i] != without, x[i], nothing);
}

cpu_span NAME(where_span);
void NAME(where_span)(int formula, int64_t n, void *z, const void *const *x, const double *v)
{
    const void *filled[] = {x[1], x[2], x[0]};

    if (formula == WHERE_mask) mask_span(n, z, x[0], x[1], v);
    else where_run(NULL, n, z, formula == WHERE_where ? x : filled);
}

cpu_typed NAME(where);
enum bp_status NAME(where)(const struct bp_launch *launch, int op)
{
    static const elem nothing; /* zero, in every dtype */
    const struct bp_view *const *in = launch->in;
    struct bp_view zero = {.data = (void *)&nothing, .dtype = launch->out[0]->dtype, .count = 1};
    /* The condition, the values where it is true, the values where it is false. */
    const struct bp_view *from[] = {in[0], in[1], op == WHERE_mask ? &zero : in[2]};
    struct loop loop = {.run = where_run, .op = op};

    if (op == WHERE_mask) {
        bool invert = attr_i64(launch, 1) != 0;
        from[0] = in[1];
        from[1] = invert ? &zero : in[0];
        from[2] = invert ? in[0] : &zero;
    } else if (op == WHERE_masked_fill) {
        from[0] = in[1];
        from[1] = in[2];
        from[2] = in[0];
    }
    cpu_loop_run(&loop, launch, launch->out[0], from, 3);
    return BP_OK;
}
