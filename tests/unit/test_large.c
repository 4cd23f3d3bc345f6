/* SPDX-License-Identifier: Apache-2.0 */
/* test_large.c: tests results so large that the cpu device uses streaming stores: each element,
 * from addresses that are aligned to cache lines and from others. */
#include "fixture.h"
#include <stdlib.h>

/* More than 16 MiB of f32, and no multiple of a vector or tile. */
enum { N = (4 << 20) + 4099, ROWS = 2051, COLUMNS = 2053, RUN = 37 };

static float large_number(int64_t i)
{
    return (float)((i * 7919) % 4093 - 2046) / 16; /* exact also in f16 */
}

/* Creates a tensor of numbers that begins `skip` elements after the start of its memory. */
static struct bp_tensor *large_numbers(struct fixture *f, int64_t n, int64_t skip)
{
    float *values = malloc((size_t)(n + skip) * sizeof *values);
    struct bp_tensor *all, *part;

    cr_assert(values);
    for (int64_t i = 0; i < n + skip; i++) values[i] = large_number(i - skip);
    all = tensor_of(f, BP_F32, 1, SHAPE(n + skip), values);
    OK(bp_tensor_slice(all, 0, skip, n + skip, 1, &part));
    bp_tensor_destroy(all);
    free(values);
    return part;
}

static float *large_read_all(struct fixture *f, struct bp_tensor *t, int64_t n)
{
    float *got = malloc((size_t)n * sizeof *got);

    cr_assert(got);
    OK(bp_tensor_read(f->stream, t, got, (size_t)n * sizeof *got));
    bp_tensor_destroy(t);
    return got;
}

#define EACH(got, n, expected) \
    for (int64_t i = 0; i < (n); i++) \
        cr_assert_eq((got)[i], expected, "element %lld is %g", (long long)i, (got)[i])

Test(large, formulas)
{
    struct fixture f = fixture_init();
    struct bp_cast_attrs cast = bp_cast_defaults();

    for (int64_t skip = 0; skip < 4; skip += 3) {
        struct bp_tensor *x = large_numbers(&f, N, skip),
                         *one = tensor_of(&f, BP_F32, 0, NULL, F32(3)), *y = NULL, *z = NULL,
                         *half = NULL;
        float *got;
        OK(bp_op_relu(f.scope, x, &y));
        OK(bp_op_add(f.scope, y, x, &z));
        got = large_read_all(&f, z, N);
        EACH(got, N, large_number(i) > 0 ? 2 * large_number(i) : large_number(i));
        free(got);
        z = NULL;
        OK(bp_op_mul(f.scope, one, x, &z));
        got = large_read_all(&f, z, N);
        EACH(got, N, 3 * large_number(i));
        free(got);
        z = NULL;
        cast.to = BP_F16;
        OK(bp_op_cast(f.scope, x, &cast, &half));
        cast.to = BP_F32;
        OK(bp_op_cast(f.scope, half, &cast, &z));
        got = large_read_all(&f, z, N);
        EACH(got, N, large_number(i));
        free(got);
        bp_tensor_destroy(half);
        bp_tensor_destroy(y);
        bp_tensor_destroy(one);
        bp_tensor_destroy(x);
    }
    fixture_finish(&f);
}

/* Returns a copy of a tensor of this shape with permuted axes. */
static float *large_transposed(struct fixture *f, uint32_t rank, const int64_t *shape,
                               const int64_t *perm, int64_t n)
{
    struct bp_tensor *x = large_numbers(f, n, 0), *shaped, *view, *y = NULL;

    OK(bp_tensor_reshape(x, rank, shape, &shaped));
    OK(bp_tensor_transpose(shaped, perm, &view));
    OK(bp_op_assign(f->scope, view, &y));
    bp_tensor_destroy(view);
    bp_tensor_destroy(shaped);
    bp_tensor_destroy(x);
    return large_read_all(f, y, n);
}

Test(large, transposes)
{
    struct fixture f = fixture_init();
    int64_t n = (int64_t)ROWS * COLUMNS;
    float *got = large_transposed(&f, 2, SHAPE(ROWS, COLUMNS), SHAPE(1, 0), n);

    EACH(got, n, large_number(i % ROWS * COLUMNS + i / ROWS));
    free(got);
    n = (int64_t)321 * 401 * RUN;
    got = large_transposed(&f, 3, SHAPE(321, 401, RUN), SHAPE(1, 0, 2), n);
    EACH(got, n, large_number((i / RUN % 321 * 401 + i / RUN / 321) * RUN + i % RUN));
    free(got);
    fixture_finish(&f);
}
