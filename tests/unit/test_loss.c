/* SPDX-License-Identifier: Apache-2.0 */
/* test_loss.c: tests losses and recurrent operators against independent values: their formulas in
 * Python, with all alignments enumerated; and labels that are invalid. */
#include "fixture.h"

#include <math.h>

#define I64(...) ((const int64_t[]){__VA_ARGS__})
#define CALL(f, op, attrs, ...) \
    loss_call(f, op, attrs, sizeof((struct bp_tensor *[]){__VA_ARGS__}) / sizeof(void *), \
         (struct bp_tensor *[]){__VA_ARGS__})

/* Runs an operator and destroys its inputs, which may be NULL. Returns its first output. */
static enum bp_status loss_run(struct fixture *f, const char *op, const void *attrs, size_t n,
                               struct bp_tensor *const *in, struct bp_tensor **out)
{
    const struct bp_opinfo *info = bp_opinfo_find(op);
    struct bp_arg arg[12];
    struct bp_call c = {.size = sizeof c, .op = op, .in = arg, .n_in = n, .attrs = attrs};
    struct bp_tensor *all[3] = {NULL};
    uint8_t want[3] = {1, info->n_out > 1 && info->out[1].kind == BP_PORT_OUT, info->n_out > 2};
    enum bp_status status;

    for (size_t i = 0; i < n; i++) arg[i] = (struct bp_arg){&in[i], in[i] != NULL};
    status = bp_call_run(f->scope, &c, all, info->n_out, want);
    for (size_t i = 0; i < n; i++) bp_tensor_destroy(in[i]);
    for (size_t i = 1; i < 3; i++) bp_tensor_destroy(all[i]);
    *out = all[0];
    return status;
}

/* Runs an operator and returns the first number of its first output. */
static double loss_call(struct fixture *f, const char *op, const void *attrs, size_t n,
                        struct bp_tensor *const *in)
{
    struct bp_tensor *y;
    struct bp_tensor_info info = {.size = sizeof info};
    double got[16];

    OK(loss_run(f, op, attrs, n, in, &y));
    OK(bp_tensor_get_info(y, &info));
    cr_assert(info.count >= 1 && info.count <= 16);
    OK(bp_tensor_read(f->stream, y, got, info.count * sizeof *got));
    bp_tensor_destroy(y);
    return got[info.count - 1];
}

static void loss_near(double got, double want)
{
    cr_assert(fabs(got - want) <= 1e-14 * (1 + fabs(want)), "got %.17g, expected %.17g", got, want);
}

static struct bp_tensor *loss_line(struct fixture *f, int64_t n, const double *data)
{
    return tensor_of(f, BP_F64, 1, &n, data);
}
#define LINE(f, ...) \
    loss_line(f, sizeof((double[]){__VA_ARGS__}) / sizeof(double), (double[]){__VA_ARGS__})
#define BOTH(f) LINE(f, 0.3), LINE(f, 0.8)

Test(loss, cross_entropy_of_three_lines)
{
    static const double x[] = {0.5, -1, 2, 0.25, 1, 1, 1, 1, -0.5, 3, 0, -2};
    struct fixture f = fixture_init();
    struct bp_cross_entropy_attrs a = bp_cross_entropy_defaults();

    a.label_smoothing = 0.1;
    loss_near(CALL(&f, "cross_entropy", &a, tensor_of(&f, BP_F64, 2, SHAPE(3, 4), x),
                   tensor_of(&f, BP_I64, 1, SHAPE(3), I64(2, -100, 0)), LINE(&f, 1, 2, 0.5, 1.5)),
              2.675470514365409);
    a.reduction = 0;
    loss_near(CALL(&f, "cross_entropy", &a, tensor_of(&f, BP_F64, 2, SHAPE(3, 4), x),
                   tensor_of(&f, BP_I64, 1, SHAPE(3), I64(2, -100, 0)), LINE(&f, 1, 2, 0.5, 1.5)),
              3.547745347440368);
    fixture_finish(&f);
}

Test(loss, numbers_with_targets)
{
    struct fixture f = fixture_init();
    struct bp_gaussian_nll_loss_attrs gauss = bp_gaussian_nll_loss_defaults();
    struct bp_poisson_nll_loss_attrs poisson = bp_poisson_nll_loss_defaults();
    struct bp_kl_div_attrs kl = bp_kl_div_defaults();

    loss_near(CALL(&f, "bce_loss", NULL, BOTH(&f), NULL), 1.0345132322484956);
    loss_near(CALL(&f, "bce_with_logits", NULL, BOTH(&f), NULL, NULL), 0.6143552444685271);
    loss_near(CALL(&f, "sigmoid_focal_loss", NULL, LINE(&f, 0.3), LINE(&f, 1), NULL),
              0.02509831887214926);
    gauss.full = poisson.full = 1;
    loss_near(CALL(&f, "gaussian_nll_loss", &gauss, BOTH(&f), LINE(&f, 0.5)), 0.8223649429247);
    loss_near(CALL(&f, "poisson_nll_loss", &poisson, LINE(&f, 0.3), LINE(&f, 4)),
              3.307121965820184);
    loss_near(CALL(&f, "kl_div", &kl, BOTH(&f)), -0.4185148410513678);
    kl.log_target = 1;
    loss_near(CALL(&f, "kl_div", &kl, BOTH(&f)), 1.112770464246234);
    loss_near(CALL(&f, "huber_loss", NULL, LINE(&f, 0.3), LINE(&f, 2.8)), 2);
    loss_near(CALL(&f, "smooth_l1_loss", NULL, LINE(&f, 0.3), LINE(&f, 2.8)), 2);
    loss_near(CALL(&f, "soft_margin_loss", NULL, LINE(&f, 0.3), LINE(&f, -1)), 0.8543552444685272);
    fixture_finish(&f);
}

static struct bp_tensor *loss_row(struct fixture *f, int64_t n, const double *data)
{
    return tensor_of(f, BP_F64, 2, SHAPE(1, n), data);
}

Test(loss, vectors_and_lists)
{
    static const double scores[] = {0.1, 0.2, 0.4, 0.8};
    struct fixture f = fixture_init();

    loss_near(CALL(&f, "triplet_margin_loss", NULL, loss_row(&f, 2, F64(1, 0)),
                   loss_row(&f, 2, F64(2, 1)), loss_row(&f, 2, F64(3, -1))),
              0.178144617872936);
    loss_near(CALL(&f, "multi_margin_loss", NULL, loss_row(&f, 4, scores),
                   tensor_of(&f, BP_I64, 1, SHAPE(1), I64(3)), NULL),
              0.325);
    loss_near(CALL(&f, "multi_label_margin_loss", NULL, loss_row(&f, 4, scores),
                   tensor_of(&f, BP_I64, 2, SHAPE(1, 4), I64(3, 0, -1, 1))),
              0.85);
    loss_near(CALL(&f, "cosine_embedding_loss", NULL, loss_row(&f, 2, F64(1, 2)),
                   loss_row(&f, 2, F64(3, -1)), LINE(&f, 1)),
              0.8585786437626906);
    fixture_finish(&f);
}

/* Lists of two labels for four steps and three classes: 81 paths. */
Test(loss, alignments)
{
    static const double x[] = {0.1, 0.4, -0.3, 0.7, -0.2, 0.5, 0.0, 0.3, 0.9, -0.6, 0.2, 0.4};
    static const int64_t labels[3][2] = {{1, 2}, {1, 1}, {2, 0}}, length[] = {2, 2, 1};
    static const double want[] = {1.4352546295307884, 2.8595483789073652, 1.984459845738386};
    struct fixture f = fixture_init();
    struct bp_ctc_loss_attrs a = bp_ctc_loss_defaults();

    a.logits = 1;
    a.reduction = BP_REDUCTION_MODE_SUM;
    for (int i = 0; i < 3; i++)
        loss_near(CALL(&f, "ctc_loss", &a, tensor_of(&f, BP_F64, 3, SHAPE(4, 1, 3), x),
                       tensor_of(&f, BP_I64, 2, SHAPE(1, 2), labels[i]),
                       tensor_of(&f, BP_I64, 1, SHAPE(1), I64(4)),
                       tensor_of(&f, BP_I64, 1, SHAPE(1), &length[i])),
                  want[i]);
    fixture_finish(&f);
}

/* Two steps of one unit. */
Test(loss, recurrent_layers)
{
    struct fixture f = fixture_init();
    struct bp_gru_layer_attrs gru = bp_gru_layer_defaults();

#define COLUMN(...) \
    tensor_of(&f, BP_F64, 2, SHAPE(sizeof F64(__VA_ARGS__) / 8, 1), F64(__VA_ARGS__))
    loss_near(CALL(&f, "lstm_layer", NULL, tensor_of(&f, BP_F64, 3, SHAPE(2, 1, 1), F64(0.5, -1)),
              COLUMN(0.1, 0.2, 0.3, 0.4), COLUMN(-0.5, 0.6, 0.7, -0.8),
              LINE(&f, 0.05, 0.1, -0.1, 0.2), NULL, COLUMN(0.3), COLUMN(-0.2), NULL, NULL),
         -0.0808521763479972);
    for (int after = 0; after < 2; after++) {
        gru.reset_after = after;
        loss_near(CALL(&f, "gru_layer", &gru,
                       tensor_of(&f, BP_F64, 3, SHAPE(2, 1, 1), F64(0.5, -1)),
                       COLUMN(0.1, 0.2, 0.3), COLUMN(-0.5, 0.6, 0.7), LINE(&f, 0.05, 0.1, -0.1),
                       LINE(&f, 0.3, -0.2, 0.4), COLUMN(0.3), NULL),
                  after ? 0.12177474228411023 : 0.2655900656284658);
    }
#undef COLUMN
    fixture_finish(&f);
}

/* Tests labels and lengths that are out of range. */
Test(loss, fails_where_a_label_is_no_class)
{
    static const int64_t bad[] = {3, -1, INT64_MAX, INT64_MIN};
    struct fixture f = fixture_init();
    struct bp_nll_loss_attrs nll = bp_nll_loss_defaults();
    struct bp_tensor *y;

    for (int i = 0; i < 4; i++)
        for (int columns = 0; columns < 2; columns++) {
            struct bp_tensor *in[] = {
                tensor_of(&f, BP_F64, 3, columns ? SHAPE(1, 3, 2) : SHAPE(2, 3, 1),
                          F64(1, 2, 3, 4, 5, 6)),
                tensor_of(&f, BP_I64, 2, columns ? SHAPE(1, 2) : SHAPE(2, 1), I64(0, bad[i]))};
            FAILS(BP_ERR_FAULT, "found bad values in its inputs",
                  loss_run(&f, "nll_loss", &nll, 2, in, &y));
        }
    for (int i = 0; i < 3; i++) {
        struct bp_tensor *in[] = {tensor_of(&f, BP_F64, 3, SHAPE(2, 1, 3), F64(1, 2, 3, 4, 5, 6)),
                                  tensor_of(&f, BP_I64, 2, SHAPE(1, 1), I64(i == 0 ? 3 : 1)),
                                  tensor_of(&f, BP_I64, 1, SHAPE(1), I64(i == 1 ? 3 : 2)),
                                  tensor_of(&f, BP_I64, 1, SHAPE(1), I64(i == 2 ? 2 : 1))};
        FAILS(BP_ERR_FAULT, "found bad values in its inputs",
              loss_run(&f, "ctc_loss", NULL, 4, in, &y));
    }
    fixture_finish(&f);
}
