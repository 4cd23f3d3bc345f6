/* SPDX-License-Identifier: Apache-2.0 */
/* kernel.c: runs a kernel case. The row is forced by its name; it runs once into a place between
 * guards and once into a tensor that the core makes; both results are compared with the
 * reference. */
#include "suites.h"
#include "../compare.h"
#include "../operand.h"
#include <backplane/kernel.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct run {
    struct check *c;
    const struct kernel_case *made;
    struct operand in[CASE_PORTS];
    struct ref_array expected;
    struct bp_arg arg[CASE_PORTS];
    struct bp_call call;
    void *data[2]; /* results of both runs, dense */
    bool poisoned; /* the output was filled with poison before */
};

static size_t bytes_of(const struct ref_array *array)
{
    return (size_t)array->count * array->type->size;
}

/* Makes inputs and the reference's result. */
static bool set_up(struct run *r)
{
    const struct kernel_case *made = r->made;
    struct random random = random_of(made->id, r->c->place->seed);
    struct ref_array values[CASE_PORTS] = {{0}};

    for (int i = 0; i < made->n_in; i++) {
        if (!made->in[i].present) continue;
        if (!operand_input(r->c, &made->in[i], i, &random, &r->in[i])) return false;
        values[i] = r->in[i].values;
        r->arg[i] = (struct bp_arg){&r->in[i].tensor, 1};
    }
    made->op->reference(values, &made->attrs, &r->expected);
    r->call = (struct bp_call){.size = sizeof r->call,
                               .op = made->op->name,
                               .in = r->arg,
                               .n_in = (size_t)made->n_in,
                               .attrs = made->attrs.size ? &made->attrs : NULL,
                               .kernel = made->row};
    return true;
}

static void dump(const struct run *r, const void *got)
{
    const char *dir = r->c->place->dump;
    char name[16];
    void *bytes = malloc(bytes_of(&r->expected) + 1);

    if (!bytes) return;
    for (int i = 0; i < r->made->n_in; i++) {
        void *input = r->made->in[i].present ? malloc(bytes_of(&r->in[i].values) + 1) : NULL;
        if (!input) continue;
        ref_array_encode(&r->in[i].values, input);
        snprintf(name, sizeof name, "in%d", i);
        npy_write(dir, r->c->id, name, &r->in[i].values, input);
        free(input);
    }
    ref_array_encode(&r->expected, bytes);
    npy_write(dir, r->c->id, "expected", &r->expected, bytes);
    npy_write(dir, r->c->id, "got", &r->expected, got);
    free(bytes);
}

/* Whether a result is what the reference says. */
static bool judge(struct run *r, const void *got, const char *which)
{
    struct comparison comparison = compare(r->made->op, &r->expected, got);
    char text[700], unwritten[120] = "";
    int64_t n;

    if (r->call.kernel && comparison.worst > r->c->result->worst)
        r->c->result->worst = comparison.worst;
    if (!comparison.wrong) return true;
    compare_describe(&comparison, &r->expected, got, text, sizeof text);
    n = r->poisoned
            ? compare_unwritten(&comparison, &r->expected, got, operand_poison(r->expected.type))
            : 0;
    if (n)
        snprintf(unwritten, sizeof unwritten,
                 "; %lld of %lld elements still hold the poison: the kernel did not write them",
                 (long long)n, (long long)r->expected.count);
    if (r->c->place->dump) dump(r, got);
    return check_that(r->c, false, "%s%s%s", which, text, unwritten);
}

static bool inputs_unchanged(struct run *r, int but)
{
    char what[32];

    for (int i = 0; i < r->made->n_in; i++) {
        if (i == but || !r->made->in[i].present) continue;
        snprintf(what, sizeof what, "input %d", i);
        if (!operand_verify(r->c, &r->in[i], what, true, NULL)) return false;
    }
    return true;
}

/* Runs the call, to its end. out: NULL for a tensor of the core's making. */
static enum bp_status run_call(struct run *r, struct bp_tensor **out)
{
    struct place *place = r->c->place;
    enum bp_status status = bp_call_run(bp_stream_scope(place->stream), &r->call, out, 1, NULL);

    if (!status) status = bp_stream_synchronize(place->stream);
    return status;
}

/* Whether a tensor has dtype and shape of the reference's result; then reads it. */
static bool take(struct run *r, struct bp_tensor *out, void *data)
{
    struct bp_tensor_info info = {.size = sizeof info};
    const struct ref_array *e = &r->expected;
    bool same;

    if (!check_ok(r->c, bp_tensor_info(out, &info), "bp_tensor_info of the result")) return false;
    same = info.rank == (uint32_t)e->rank;
    for (int i = 0; same && i < e->rank; i++) same = info.shape[i] == e->shape[i];
    return check_that(r->c, info.dtype == e->type->dtype, "the result is %s, expected %s",
                      bp_dtype_name(info.dtype), e->type->name) &&
           check_that(r->c, same,
                      "the result's shape is not that of the reference (rank %u, expected %d)",
                      (unsigned)info.rank, e->rank) &&
           check_ok(r->c, bp_tensor_read(r->c->place->stream, out, data, bytes_of(e)),
                    "bp_tensor_read");
}

/* The first run, into a place between guards. Result: data[0]. false: nothing more is to be
 * done. */
static bool run_guarded(struct run *r, enum bp_status *out_status)
{
    struct operand out = {0};
    bool ok = operand_output(r->c, r->expected.type->dtype, r->expected.rank, r->expected.shape,
                             &out);
    struct bp_tensor *given = out.tensor;
    char call[96];

    snprintf(call, sizeof call, "%s by row %s", r->made->op->name, r->made->row);
    r->poisoned = true;
    *out_status = ok ? run_call(r, &given) : BP_OK;
    ok = ok && *out_status != BP_ERR_UNSUPPORTED && check_ok(r->c, *out_status, call) &&
         check_that(r->c, given == out.tensor,
                    "the call replaced the output tensor that it was given") &&
         operand_verify(r->c, &out, "the output", false, r->data[0]) && inputs_unchanged(r, -1) &&
         judge(r, r->data[0], "");
    r->poisoned = false;
    operand_finish(&out);
    return ok;
}

/* The second run, into a tensor that the core makes; a row that says that it is deterministic
 * gives the same bits. */
static void run_again(struct run *r)
{
    struct bp_tensor *out = NULL;

    if (check_ok(r->c, run_call(r, &out), "into a new tensor") && take(r, out, r->data[1]) &&
        judge(r, r->data[1], "into a new tensor: ") && r->made->row_flags & BP_KERNEL_DETERMINISTIC)
        check_that(r->c, !memcmp(r->data[0], r->data[1], bytes_of(&r->expected)),
                   "the row is flagged BP_KERNEL_DETERMINISTIC, but two runs gave different bits");
    bp_tensor_destroy(out);
}

/* The input whose memory the output of an in-place case takes. */
static struct operand *shared_input(struct run *r)
{
    return &r->in[bp_opinfo_find(r->made->op->name)->out[0].share];
}

/* The one run of an in-place case, over an input. */
static void run_over(struct run *r, enum bp_status *out_status)
{
    struct operand *over = shared_input(r);
    struct bp_tensor *out = over->tensor;
    char call[96];

    snprintf(call, sizeof call, "%s by row %s over its input", r->made->op->name, r->made->row);
    *out_status = run_call(r, &out);
    if (*out_status != BP_ERR_UNSUPPORTED && check_ok(r->c, *out_status, call) &&
        operand_verify(r->c, over, "the input that is written over", false, r->data[0]) &&
        inputs_unchanged(r, (int)(over - r->in)))
        judge(r, r->data[0], "");
}

/* The row does not take the configuration: then another row must, with the right result.
 * may_refuse: it is right too that none does. */
static void run_other(struct run *r, const char *refusal, bool may_refuse)
{
    struct bp_tensor *over = r->made->in_place ? shared_input(r)->tensor : NULL, *out = over;
    enum bp_status status;

    r->call.kernel = NULL;
    status = run_call(r, &out);
    if (may_refuse && status == BP_ERR_UNSUPPORTED) {
        check_that(r->c, *bp_error_message(), "the call was refused without a message");
    } else if (status == BP_ERR_UNSUPPORTED) {
        r->c->result->refused = true;
        check_that(r->c, false, "no row takes this configuration: %s", refusal);
    } else if (check_ok(r->c, status, "the call, by any row") && take(r, out, r->data[0]) &&
               judge(r, r->data[0], "by another row: ") && !may_refuse) {
        check_skip(r->c, "the row declines this configuration, another takes it: %s", refusal);
    }
    if (!over) bp_tensor_destroy(out);
}

/* Whether an input lies as only rows flagged BP_KERNEL_STRIDED can take it. */
static bool is_strided(const struct kernel_case *made)
{
    for (int i = 0; i < made->n_in; i++)
        if (made->in[i].present && made->in[i].layout > LAYOUT_OFFSET) return true;
    return false;
}

/* A row that takes contiguous tensors only is given one that is not: it is refused, or it works. */
static void run_unflagged(struct run *r)
{
    struct bp_tensor *out = NULL;
    enum bp_status status = run_call(r, &out);

    if (status == BP_OK && take(r, out, r->data[0])) {
        r->c->result->executed = true;
        judge(r, r->data[0], "strided input, row not flagged BP_KERNEL_STRIDED: ");
    }
    check_that(
        r->c, status == BP_OK || status == BP_ERR_UNSUPPORTED,
        "strided input, row not flagged BP_KERNEL_STRIDED: expected BP_ERR_UNSUPPORTED, got %s: %s",
        bp_status_name(status), bp_error_message());
    bp_tensor_destroy(out);
    run_other(r, "", true);
}

static void run_case(struct run *r)
{
    enum bp_status status = BP_OK;
    char refusal[400];
    bool again = false;

    if (is_strided(r->made) && !(r->made->row_flags & BP_KERNEL_STRIDED)) {
        run_unflagged(r);
        return;
    }
    if (r->made->in_place) run_over(r, &status);
    else again = run_guarded(r, &status);
    if (status == BP_ERR_UNSUPPORTED) {
        snprintf(refusal, sizeof refusal, "%s", bp_error_message());
        run_other(r, refusal, false);
        return;
    }
    r->c->result->executed = true;
    if (again) run_again(r);
}

void kernel_case_run(struct check *c, const struct kernel_case *made)
{
    struct run r = {.c = c, .made = made};

    for (int i = 0; i < made->n_in; i++)
        if (made->in[i].present && !(c->place->properties.dtypes >> made->in[i].dtype & 1))
            check_unsupported(c, "the device does not hold %s", bp_dtype_name(made->in[i].dtype));
    if (c->result->outcome == OUTCOME_UNSUPPORTED) return;
    c->result->worst = -1;
    if (set_up(&r)) {
        r.data[0] = calloc(1, bytes_of(&r.expected) + 1);
        r.data[1] = calloc(1, bytes_of(&r.expected) + 1);
        if (!r.data[0] || !r.data[1]) abort();
        run_case(&r);
    }
    for (int i = 0; i < made->n_in; i++)
        if (made->in[i].present && r.in[i].image) operand_finish(&r.in[i]);
    ref_array_finish(&r.expected);
    free(r.data[0]);
    free(r.data[1]);
}
