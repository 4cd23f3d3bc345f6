/* SPDX-License-Identifier: Apache-2.0 */
/* test_attention.c: tests which keys attention sees, and its soft caps, against values of the
 * formulas in Python; and attributes that it refuses. */
#include "fixture.h"

#include <math.h>

/* Two queries of three keys, all of one number, in f64. */
struct small {
    struct fixture f;
    struct bp_tensor *q, *k, *v;
};

static struct small small_init(void)
{
    static const double q[] = {1, 2}, k[] = {0.5, -1, 2}, v[] = {1, 10, 100};
    struct small s = {.f = fixture_init()};

    s.q = tensor_of(&s.f, BP_F64, 3, SHAPE(1, 2, 1), q);
    s.k = tensor_of(&s.f, BP_F64, 3, SHAPE(1, 3, 1), k);
    s.v = tensor_of(&s.f, BP_F64, 3, SHAPE(1, 3, 1), v);
    return s;
}

static void small_finish(struct small *s)
{
    bp_tensor_destroy(s->q);
    bp_tensor_destroy(s->k);
    bp_tensor_destroy(s->v);
    fixture_finish(&s->f);
}

/* Expects two results. window: two numbers, or NULL; length: below 0: none. */
static void small_expect(struct small *s, double softcap, const int64_t *window, int32_t length,
                         double first, double second)
{
    struct bp_attention_attrs a = bp_attention_defaults();
    struct bp_tensor *y = NULL, *n = NULL;
    double got[2];

    a.softcap = softcap;
    if (window) a.window = (struct bp_dims){window, 2};
    if (length >= 0) n = tensor_of(&s->f, BP_I32, 0, NULL, &length);
    OK(bp_op_attention(s->f.scope, s->q, s->k, s->v, NULL, n, &a, &y));
    OK(bp_tensor_read(s->f.stream, y, got, sizeof got));
    cr_assert(fabs(got[0] - first) < 1e-12 && fabs(got[1] - second) < 1e-12,
              "got %.17g %.17g, expected %.17g %.17g", got[0], got[1], first, second);
    bp_tensor_destroy(y);
    bp_tensor_destroy(n);
}

Test(attention, keys_that_are_seen)
{
    struct small s = small_init();

    small_expect(&s, 0, NULL, -1, 79.1261195837745, 95.10389165576773);
    small_expect(&s, 1.5, NULL, -1, 65.43161538312202, 63.06648507814348);
    small_expect(&s, 0, SHAPE(1, 0), -1, 2.6418297142572067, 99.77746391590289);
    small_expect(&s, 0, SHAPE(-1, 0), 2, 1, 1.4268328585981012);
    small_expect(&s, 1.5, SHAPE(0, 1), 2, 2.8433703771432994, 10);
    small_expect(&s, 0, SHAPE(0, 0), 1, 0, 1);
    small_expect(&s, 0, SHAPE(-1, 0), 4, 79.1261195837745, 95.10389165576773);
    small_expect(&s, 0, NULL, 0, 0, 0);
    small_finish(&s);
}

static void small_refuses(struct small *s, struct bp_attention_attrs a, struct bp_tensor *length,
                          const char *word)
{
    struct bp_tensor *y = NULL;

    FAILS(BP_ERR_INVALID, word,
          bp_op_attention(s->f.scope, s->q, s->k, s->v, NULL, length, &a, &y));
}

Test(attention, refused)
{
    static const int64_t lengths[] = {1};
    struct bp_attention_attrs a = bp_attention_defaults();
    struct small s = small_init();
    struct bp_tensor *length = tensor_of(&s.f, BP_I64, 1, SHAPE(1), lengths);

    small_refuses(&s, a, length, "attention");
    a.softcap = -1;
    small_refuses(&s, a, NULL, "softcap is -1");
    a.softcap = NAN;
    small_refuses(&s, a, NULL, "softcap is nan");
    a.softcap = 0;
    a.window = (struct bp_dims){SHAPE(1), 1};
    small_refuses(&s, a, NULL, "window has 1 numbers");
    a.window = (struct bp_dims){SHAPE(-2, 0), 2};
    small_refuses(&s, a, NULL, "number 0 is -2");
    a.window = (struct bp_dims){SHAPE(-1, INT64_MAX), 2};
    small_refuses(&s, a, NULL, "number 1 is 9223372036854775807");
    bp_tensor_destroy(length);
    small_finish(&s);
}
