/* SPDX-License-Identifier: Apache-2.0 */
/* pass_kit.c: runs passes of the compiler on graphs of tests, and compares values. */
#include "pass_kit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static char *ir_as_text(const struct bp_ir *ir)
{
    char *text = NULL;
    size_t size;
    FILE *to = open_memstream(&text, &size);

    cr_assert_not_null(to);
    bp_ir_print(ir, to);
    fclose(to);
    return text;
}

static void run_describe(struct pass_run *run)
{
    size_t at = 0;

    free(run->text);
    run->text = ir_as_text(run->ir);
    *run->ops = 0;
    for (uint32_t n = run->ir->first; n != BP_NO_VALUE; n = run->ir->node[n].next) {
        at += (size_t)snprintf(run->ops + at, sizeof run->ops - at, "%s%s", at ? " " : "",
                               run->ir->node[n].call.row->info.name);
        cr_assert(at < sizeof run->ops);
    }
}

void pass_begin(const struct text_graph *g, struct pass_run *run)
{
    *run = (struct pass_run){0};
    OK(bp_ir_create(g->graph, g->f.device, &run->ir));
    OK(bp_ir_verify(run->ir));
    run_describe(run);
    run->before = strdup(run->text);
}

void pass_apply(struct pass_run *run, enum bp_status (*pass)(struct bp_compilation *c))
{
    pass_apply_to(run, &(const struct bp_pass){.run = pass});
}

void pass_apply_pattern(struct pass_run *run, enum bp_status (*pass)(struct bp_compilation *c),
                        struct bp_plugin_pattern *pattern)
{
    pass_apply_to(run, &(const struct bp_pass){.run = pass, .pattern = pattern});
}

void pass_apply_to(struct pass_run *run, const struct bp_pass *pass)
{
    char *once;

    for (int time = 0; time < 2; time++) {
        struct bp_compilation c = {
            .ir = run->ir, .pattern = pass->pattern, .rewrite = pass->rewrite};
        once = run->text;
        run->text = NULL;
        OK(pass->run(&c));
        bp_ir_resolve(run->ir);
        OK(bp_ir_verify(run->ir));
        run_describe(run);
        if (!time) run->changes += c.changes;
        if (time) cr_assert_str_eq(run->text, once, "a second time, a pass changes more");
        free(once);
    }
}

void pass_finish(struct pass_run *run)
{
    bp_ir_destroy(run->ir);
    free(run->text);
    free(run->before);
}

void pass_expect_same(const struct pass_run *run, const char *what)
{
    cr_assert_str_eq(run->text, run->before, "%s", what);
    cr_assert_eq(run->changes, 0, "%s: %u changes", what, run->changes);
}

bool pass_has(const char *ops, const char *op)
{
    size_t n = strlen(op);

    for (const char *at = strstr(ops, op); at; at = strstr(at + 1, op))
        if ((at == ops || at[-1] == ' ') && (!at[n] || at[n] == ' ')) return true;
    return false;
}

void pass_expect(const char *text, enum bp_status (*pass)(struct bp_compilation *c),
                 const char *ops, double terms)
{
    struct text_graph g = text_begin();
    struct pass_run run;

    text_record(&g, text);
    pass_begin(&g, &run);
    pass_apply(&run, pass);
    cr_assert_str_eq(run.ops, ops, "%s\nbefore:\n%safter:\n%s", text, run.before, run.text);
    pass_finish(&run);
    if (terms > 0) pass_check_values(&g, terms);
    text_finish(&g);
}

static void expect_edit_unchanged(const char *text,
                                  enum bp_status (*pass)(struct bp_compilation *c),
                                  const struct text_edit *edit, const char *what)
{
    struct text_graph g = text_begin();
    struct pass_run run;

    if (edit) g.edit = *edit;
    text_record(&g, text);
    if (edit) cr_assert_gt(g.places, edit->number, "%s", text);
    pass_begin(&g, &run);
    pass_apply(&run, pass);
    pass_expect_same(&run, what);
    pass_finish(&run);
    text_finish(&g);
}

void pass_expect_unchanged(const char *text, enum bp_status (*pass)(struct bp_compilation *c),
                           const char *what)
{
    expect_edit_unchanged(text, pass, NULL, what);
}

void pass_expect_pin_kept(const char *text, enum bp_status (*pass)(struct bp_compilation *c),
                          uint32_t n)
{
    struct text_edit edit = {TEXT_PIN, 0};

    for (; edit.number < n; edit.number++)
        expect_edit_unchanged(text, pass, &edit, "a pinned kernel");
}

/* ---- values ---- */

static double *read_doubles(struct text_graph *g, struct bp_tensor *t, int64_t *out_n,
                            uint32_t *out_dtype)
{
    struct bp_cast_attrs attrs = {.size = sizeof attrs, .to = BP_F64};
    struct bp_tensor_info info = {.size = sizeof info};
    struct bp_tensor *wide = NULL;
    double *number;

    OK(bp_tensor_get_info(t, &info));
    OK(bp_op_cast(g->f.scope, t, &attrs, &wide));
    *out_n = 1;
    for (uint32_t a = 0; a < info.rank; a++) *out_n *= info.shape[a];
    *out_dtype = info.dtype;
    number = malloc((size_t)(*out_n + 1) * sizeof *number);
    OK(bp_tensor_read(g->f.stream, wide, number, (uint64_t)*out_n * sizeof *number));
    bp_tensor_destroy(wide);
    return number;
}

static double unit_of(uint32_t dtype)
{
    return dtype == BP_F64 ? 0x1p-53 : dtype == BP_F32 ? 0x1p-24 : dtype == BP_F16 ? 0x1p-11 : 0;
}

static void compare_output(struct text_graph *g, uint32_t o, struct bp_tensor *got,
                           struct text_graph *of, struct bp_tensor *expected, double terms)
{
    int64_t n, n_expected;
    uint32_t dtype, dtype_expected;
    double *a = read_doubles(g, got, &n, &dtype);
    double *b = read_doubles(of, expected, &n_expected, &dtype_expected);

    cr_assert(n == n_expected && dtype == dtype_expected);
    for (int64_t i = 0; i < n; i++) {
        double limit = terms * unit_of(dtype) * fmax(1, fabs(b[i]));
        cr_assert(a[i] == b[i] || fabs(a[i] - b[i]) <= limit || (isnan(a[i]) && isnan(b[i])),
                  "output %u, element %ld: %.17g, expected %.17g within %g", o, (long)i, a[i], b[i],
                  limit);
    }
    free(a);
    free(b);
}

void pass_check_values(struct text_graph *g, double terms)
{
    pass_check_values_of(g, g, terms);
}

void pass_check_values_of(struct text_graph *g, struct text_graph *of, double terms)
{
    struct bp_program_info info = {.size = sizeof info};
    struct bp_tensor *got[TEXT_OUTPUTS] = {NULL}, *expected[TEXT_OUTPUTS] = {NULL};
    struct bp_program *program;

    OK(bp_program_create(g->graph, g->f.device, &program));
    OK(bp_program_run(program, g->f.stream, g->in, g->n_in, got, g->n_output));
    OK(bp_program_get_info(program, &info));
    cr_assert_eq(info.compiled, 1, "not compiled: %s", info.not_compiled);
    OK(bp_graph_run(of->graph, of->f.stream, of->in, of->n_in, expected, of->n_output));
    for (uint32_t o = 0; o < g->n_output; o++) {
        compare_output(g, o, got[o], of, expected[o], terms);
        bp_tensor_destroy(got[o]);
        bp_tensor_destroy(expected[o]);
    }
    bp_program_destroy(program);
}

void pass_expect_dense(struct text_graph *g, const char *what)
{
    struct bp_schedule *s;

    OK(bp_compile(g->graph, g->f.device, &s));
    for (uint32_t o = 0; o < g->n_output; o++)
        cr_assert_eq(s->value[s->output[o]]->type.view.flags & BP_VIEW_STRIDED, 0,
                     "%s: output %u is not row-major", what, o);
    bp_schedule_destroy(s);
}

void pass_list_launches(const struct bp_schedule *s, char *text, size_t size)
{
    size_t at = 0;

    *text = 0;
    for (uint32_t n = 0; n < s->n_launch; n++)
        at += (size_t)snprintf(text + at, size - at, "%s%s", at ? " " : "",
                               s->launch[n].step->row->info.name);
    cr_assert(at < size);
}
