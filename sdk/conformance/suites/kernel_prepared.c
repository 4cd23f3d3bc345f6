/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_prepared.c: tests kernel cases as prepared calls: RUN attributes are read at each launch,
 * and an operator with a decomposition runs as its steps. */
#include "case_run.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct prepared_run {
    struct bp_prepared *prepared;
    struct bp_tensor *out[REF_OUTPUTS];
    const void *attrs;
};

/* The number of outputs that the case requests. Outputs that are declared behind them are not
 * passed. */
static int prepared_outputs(const struct run *r)
{
    return r->made->n_out ? r->made->n_out : 1;
}

static enum bp_status prepared_go(struct run *r, void *ctx)
{
    struct bp_tensor *flat[2 * CASE_PORTS];
    struct prepared_run *p = ctx;
    size_t n = 0;

    for (uint32_t port = 0; port < r->info->n_in; port++) {
        for (size_t i = 0; i < r->arg[port].n; i++) flat[n++] = r->arg[port].at[i];
        if (!r->arg[port].n && r->info->in[port].kind != BP_PORT_VAR) flat[n++] = NULL;
    }
    return bp_prepared_run(p->prepared, r->c->fixture->stream, flat, n, p->out,
                           r->info->n_out > prepared_outputs(r) ? r->info->n_out
                                                                : (size_t)prepared_outputs(r),
                           p->attrs);
}

/* Creates a tensor with the dtype, shape and strides of info. */
static bool make_like(struct run *r, const struct bp_tensor_info *info, struct bp_tensor **out)
{
    struct bp_tensor_options options = {.size = sizeof options,
                                        .dtype = info->dtype,
                                        .rank = info->rank,
                                        .shape = info->shape,
                                        .stride = info->stride};

    return check_ok(r->c, bp_tensor_create_with(r->c->fixture->device, &options, out),
                    "bp_tensor_create_with");
}

/* Creates a tensor for each output. */
static bool make_outputs(struct run *r, struct prepared_run *p)
{
    bool ok = true;

    for (int i = 0; ok && i < prepared_outputs(r); i++) {
        struct bp_tensor_info info = {.size = sizeof info};
        ok = check_ok(r->c, bp_prepared_output(p->prepared, (uint32_t)i, &info),
                      "bp_prepared_output") &&
             make_like(r, &info, &p->out[i]);
    }
    return ok;
}

/* Runs with these attributes (NULL: those of the preparation) into new tensors, and compares the
 * result with r->expected. */
static bool run_with(struct run *r, struct bp_prepared *prepared, const void *attrs,
                     const char *which)
{
    struct prepared_run p = {prepared, {NULL}, attrs};
    bool ok = make_outputs(r, &p) && check_ok(r->c, run_draw(r, prepared_go, &p), which) &&
              run_take(r, p.out[r->made->part], r->data[1]) && run_judge(r, r->data[1], which);

    for (int i = 0; i < prepared_outputs(r); i++) bp_tensor_destroy(p.out[i]);
    return ok;
}

bool run_plan(struct run *r, bool *out_taken)
{
    struct bp_prepared *prepared;
    enum bp_status status = bp_prepared_create(r->c->fixture->device, &r->call, NULL,
                                               (size_t)prepared_outputs(r), &prepared);

    *out_taken = !kernel_is_refused(status);
    if (!*out_taken || !check_ok(r->c, status, "bp_prepared_create")) return !*out_taken;
    bp_prepared_destroy(prepared);
    return true;
}

/* Changes the value of an attribute in a copy of the struct. again: the operator did not accept the
 * first value. */
static bool prepared_vary(struct run *r, uint32_t index, void *attrs, bool again)
{
    const struct bp_attr *a = &r->info->attr[index];
    char *at = (char *)attrs + a->offset;
    int64_t number;
    double real;

    memcpy(&number, at, sizeof number);
    memcpy(&real, at, sizeof real);
    switch (a->kind) {
    case BP_ATTR_F64:
        real = again ? (real + 0.5) / 2 : real + (index % 2 ? 1.5 : -0.5);
        memcpy(at, &real, sizeof real);
        return true;
    case BP_ATTR_I64: number = (int64_t)((uint64_t)number + (again ? UINT64_MAX : 1)); break;
    case BP_ATTR_FLAG: number = !number; break;
    default:
        return check_that(r->c, false, "the suite does not know how to vary attribute %s of RUN",
                          a->name);
    }
    memcpy(at, &number, sizeof number);
    return true;
}

/* Whether the operator accepts these values at all. */
static bool may_be(struct run *r, const void *attrs)
{
    struct bp_call call = r->call;
    struct bp_prepared *prepared;

    call.attrs = attrs;
    if (bp_prepared_create(r->c->fixture->device, &call, NULL, (size_t)prepared_outputs(r),
                           &prepared))
        return false;
    bp_prepared_destroy(prepared);
    return true;
}

/* Runs with other attributes. The expected result changes, and also its size where extents depend
 * on data. */
static bool run_varied(struct run *r, struct bp_prepared *prepared, const void *attrs,
                       const char *which)
{
    struct ref_array first = r->expected;
    void *room = r->data[1];
    bool ok;

    run_expect(r, attrs, &r->expected);
    r->data[1] = calloc(1, run_bytes(&r->expected) + 1);
    if (!r->data[1]) abort();
    ok = run_with(r, prepared, attrs, which);
    ref_array_finish(&r->expected);
    free(r->data[1]);
    r->expected = first;
    r->data[1] = room;
    return ok;
}

/* Runs one prepared call with another value of an attribute, then with the first value again. */
static bool vary_one(struct run *r, struct bp_prepared *prepared, uint32_t index)
{
    uint64_t attrs[sizeof r->attrs / 8];
    char which[96];

    memcpy(attrs, r->attrs, sizeof attrs);
    if (!prepared_vary(r, index, attrs, false)) return false;
    if (!may_be(r, attrs)) {
        memcpy(attrs, r->attrs, sizeof attrs);
        if (!prepared_vary(r, index, attrs, true)) return false;
    }
    snprintf(which, sizeof which, "prepared, attribute %s changed: ", r->info->attr[index].name);
    return run_varied(r, prepared, attrs, which) &&
           run_with(r, prepared, NULL, "prepared, attributes as before: ");
}

/* Stores the names of the kernel rows that run as steps, as far as there is room. */
static void note_steps(struct run *r, struct bp_prepared *prepared)
{
    char *steps = r->c->result->steps;

    for (uint32_t i = 0; i < bp_prepared_steps(prepared); i++) {
        const char *row = bp_prepared_step(prepared, i);
        size_t used = strlen(steps);
        char word[80];
        if (!*row || strlen(row) + 3 > sizeof word) continue;
        snprintf(word, sizeof word, " %s ", row);
        if (strstr(steps, word) || used + strlen(word) >= CONFORM_STEPS) continue;
        strcpy(steps + used, used ? word + 1 : word);
    }
}

/* Checks that an operator without a kernel row of its own, which is no view, is prepared as several
 * steps. */
static bool check_steps(struct run *r, struct bp_prepared *prepared)
{
    if (r->made->row || !(r->info->flags & BP_OP_EXPAND)) return true;
    note_steps(r, prepared);
    return check_that(r->c, bp_prepared_steps(prepared) > 0,
                      "the device has no row for it, but it is prepared in %u steps",
                      bp_prepared_steps(prepared)) &&
           run_with(r, prepared, NULL, "prepared: ");
}

/* Whether the kernel row that must run in the decomposition is one of the steps. */
static bool runs_via(struct bp_prepared *prepared, const char *row)
{
    for (uint32_t i = 0; i < bp_prepared_steps(prepared); i++)
        if (!strcmp(bp_prepared_step(prepared, i), row)) return true;
    return false;
}

void run_expanded(struct run *r)
{
    const struct bp_prepare_options options = {
        .size = sizeof options, .step_kernel = r->made->via, .flags = BP_PREPARE_DECOMPOSE,
        .n_want = (size_t)prepared_outputs(r)};
    struct bp_call call = r->call;
    struct bp_prepared *prepared;
    enum bp_status status;

    call.kernel = NULL;
    status = bp_prepared_create_with(r->c->fixture->device, &call, &options, &prepared);
    r->c->result->refused = kernel_is_refused(status);
    if (!check_ok(r->c, status, "bp_prepared_create_with BP_PREPARE_EXPAND")) return;
    run_fill_memory(r, 1);
    if (r->made->via && !runs_via(prepared, r->made->via)) {
        check_skip(r->c, "the row declines what %s is made of, another takes it", r->info->name);
    } else if (run_with(r, prepared, NULL, "as the operators that it is defined in: ")) {
        r->c->result->executed = true;
        note_steps(r, prepared);
        run_inputs_unchanged(r, -1);
    }
    bp_prepared_destroy(prepared);
}

/* Destroys the frozen inputs and creates others with other numbers, mostly at the same
 * addresses. */
static bool exchange_frozen(struct run *r)
{
    struct random random = random_of(r->made->id, r->c->fixture->seed + 1);
    bool ok = true;

    for (int i = 0; i < r->made->n_in; i++)
        if (r->made->in[i].frozen) operand_finish(&r->in[i]);
    for (int i = 0; i < r->made->n_in && ok; i++) {
        if (!r->made->in[i].frozen) continue;
        ok = operand_input(r->c, &r->made->in[i], i, true, &random, &r->in[i]);
        r->tensor[i] = r->in[i].tensor;
    }
    return ok && run_arguments(r);
}

void run_frozen_anew(struct run *r)
{
    struct bp_prepared *prepared;
    struct bp_tensor *out = NULL;

    if (!(kernel_case_facts(r->made) >> ROW_FROZEN & 1)) return;
    if (!check_ok(r->c,
                  bp_prepared_create(r->c->fixture->device, &r->call, NULL,
                                     (size_t)prepared_outputs(r), &prepared),
                  "bp_prepared_create"))
        return;
    if (exchange_frozen(r)) {
        ref_array_finish(&r->expected);
        run_expect(r, &r->made->attrs, &r->expected);
        if (check_ok(r->c, case_call(r, &out), "with other constants") &&
            run_take(r, out, r->data[1]))
            run_judge(r, r->data[1], "with other constants: ");
    }
    bp_tensor_destroy(out);
    bp_prepared_destroy(prepared);
}

void case_run_prepared(struct run *r)
{
    struct bp_prepared *prepared;
    bool ok, any = !r->made->row && r->info->flags & BP_OP_EXPAND;

    for (uint32_t i = 0; i < r->info->n_attr; i++) any |= r->info->attr[i].when == BP_ATTR_RUN;
    if (!any || r->made->host) return; /* a prepared call takes these values as attributes */
    if (!check_ok(r->c,
                  bp_prepared_create(r->c->fixture->device, &r->call, NULL,
                                     (size_t)prepared_outputs(r), &prepared),
                  "bp_prepared_create"))
        return;
    ok = check_steps(r, prepared);
    for (uint32_t i = 0; ok && i < r->info->n_attr; i++)
        if (r->info->attr[i].when == BP_ATTR_RUN) ok = vary_one(r, prepared, i);
    bp_prepared_destroy(prepared);
}
