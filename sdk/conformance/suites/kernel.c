/* SPDX-License-Identifier: Apache-2.0 */
/* kernel.c: runs a kernel case. The call names the kernel row; it runs once into a tensor between
 * guard bytes and once into a tensor that the core creates, and both results are compared with the
 * reference. Operators with other kinds of outputs are in kernel_other.c, prepared calls in
 * kernel_prepared.c, rows that only programs use in kernel_program.c, cases that run more than once
 * in kernel_many.c and kernel_twice.c. */
#include "case_run.h"
#include <backplane/kernel.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Makes a tensor of one float that gives an attribute. The float is as wide as the integers are. */
static bool host_number(struct run *r, double number, struct bp_tensor **out)
{
    struct fixture *fixture = r->c->fixture;
    bool wide = r->made->host == BP_I64;
    float narrow = (float)number;

    return check_ok(r->c, bp_tensor_create(fixture->device, wide ? BP_F64 : BP_F32, 0, NULL, out),
                    "bp_tensor_create of an attribute") &&
           check_ok(r->c,
                    bp_tensor_write(fixture->stream, *out, wide ? (void *)&number : (void *)&narrow,
                                    wide ? sizeof number : sizeof narrow),
                    "bp_tensor_write of an attribute");
}

/* Makes a tensor of integers that gives an attribute; NULL if the list has no entries. */
static bool host_tensor(struct run *r, const struct bp_dims *d, struct bp_tensor **out)
{
    struct fixture *fixture = r->c->fixture;
    int64_t i64[REF_RANK];
    int32_t i32[REF_RANK];
    bool wide = r->made->host == BP_I64;

    for (int64_t i = 0; i < d->n; i++) {
        i64[i] = d->at[i];
        i32[i] = (int32_t)d->at[i];
    }
    if (!d->n) return true;
    return check_ok(r->c, bp_tensor_create(fixture->device, r->made->host, 1, &d->n, out),
                    "bp_tensor_create of an attribute") &&
           check_ok(r->c,
                    bp_tensor_write(fixture->stream, *out, wide ? (void *)i64 : (void *)i32,
                                    (uint64_t)d->n * (wide ? 8 : 4)),
                    "bp_tensor_write of an attribute");
}

/* Puts the list or the one number of an attribute into a tensor, and clears it in the attribute
 * struct: the case gives this attribute as a host-evaluated input. */
static bool set_up_host(struct run *r, const struct bp_port *port, int index)
{
    struct bp_dims d;
    int64_t number;
    double real;

    for (uint32_t i = 0; i < r->info->n_attr; i++) {
        char *at = (char *)r->attrs + r->info->attr[i].offset;
        if (strcmp(r->info->attr[i].name, port->name)) continue;
        if (r->info->attr[i].kind == BP_ATTR_F64) {
            memcpy(&real, at, sizeof real);
            memset(at, 0, sizeof real);
            return host_number(r, real, &r->host[index]);
        }
        if (r->info->attr[i].kind == BP_ATTR_DIMS) {
            memcpy(&d, at, sizeof d);
            memset(at, 0, sizeof d);
        } else {
            memcpy(&number, at, sizeof number);
            memset(at, 0, sizeof number);
            d = (struct bp_dims){&number, 1};
        }
        return host_tensor(r, &d, &r->host[index]);
    }
    return check_that(r->c, false, "%s has no attribute %s", r->info->name, port->name);
}

/* Fills the arguments of the ports with the case's tensors; a variadic port gets all the remaining
 * ones. */
static bool set_up_ports(struct run *r)
{
    int at = 0;

    for (uint32_t p = 0; p < r->info->n_in; p++) {
        const struct bp_port *port = &r->info->in[p];
        int n = port->kind == BP_PORT_VAR ? r->made->n_in - at : at < r->made->n_in;
        if (port->kind == BP_PORT_HOST) {
            if (r->made->host && !set_up_host(r, port, (int)p)) return false;
            r->arg[p] = (struct bp_arg){&r->host[p], r->host[p] != NULL};
            continue;
        }
        r->arg[p] = (struct bp_arg){r->tensor + at, (size_t)(n && r->tensor[at] ? n : 0)};
        at += n;
    }
    return true;
}

bool run_arguments(struct run *r)
{
    const struct kernel_case *made = r->made;

    memcpy(r->attrs, &made->attrs, sizeof made->attrs);
    r->call = (struct bp_call){.size = sizeof r->call,
                               .op = made->op->name,
                               .in = r->arg,
                               .n_in = r->info->n_in,
                               .attrs = made->attrs.size ? r->attrs : NULL,
                               .kernel = made->row};
    return set_up_ports(r);
}

void run_reference(const struct run *r, const struct ref_array *in, const void *attrs,
                   struct ref_array *out)
{
    struct ref_array all[REF_OUTPUTS] = {{0}};

    if (r->made->op->family) r->made->op->family(r->made->op->name, in, attrs, all);
    else r->made->op->reference(in, attrs, all);
    *out = all[r->made->part];
    for (int i = 0; i < REF_OUTPUTS; i++)
        if (i != r->made->part) ref_array_finish(&all[i]);
}

void run_expect(struct run *r, const void *attrs, struct ref_array *out)
{
    struct ref_array values[CASE_PORTS + 1] = {{0}}, drawn;
    int64_t two = 2;

    for (int i = 0; i < r->made->n_in; i++) values[i] = r->in[i].values;
    if (!(r->info->flags & BP_OP_RANDOM)) {
        run_reference(r, values, attrs, out);
        return;
    }
    ref_array_init(&drawn, BP_U64, 1, &two);
    drawn.u[0] = r->made->seed;
    drawn.u[1] = r->made->offset;
    memmove(values + 1, values, CASE_PORTS * sizeof *values);
    values[0] = drawn;
    run_reference(r, values, attrs, out);
    ref_array_finish(&drawn);
}

/* Whether an output of the call is written over this input. */
static bool is_updated(const struct run *r, int input)
{
    for (uint32_t i = 0; i < r->info->n_out; i++)
        if (r->info->out[i].kind == BP_PORT_UPDATE && r->info->out[i].share == input) return true;
    return false;
}

/* Creates the inputs and computes the reference result. */
static bool kernel_set_up(struct run *r)
{
    const struct kernel_case *made = r->made;
    struct random random = random_of(made->id, r->c->fixture->seed);

    for (int i = 0; i < made->n_in; i++) {
        if (!made->in[i].present) continue;
        bool written = is_updated(r, i) || (made->in_place && i == run_port(r)->share);
        if (!operand_input(r->c, &made->in[i], i, !written, &random, &r->in[i])) return false;
        r->tensor[i] = r->in[i].tensor;
    }
    run_expect(r, &made->attrs, &r->expected);
    return run_arguments(r);
}

static void kernel_dump(const struct run *r, const void *got)
{
    const char *dir = r->c->fixture->dump;
    char name[16];
    void *bytes = malloc(run_bytes(&r->expected) + 1);

    if (!bytes) return;
    for (int i = 0; i < r->made->n_in; i++) {
        void *input = r->made->in[i].present ? malloc(run_bytes(&r->in[i].values) + 1) : NULL;
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

bool run_judge(struct run *r, const void *got, const char *which)
{
    struct comparison comparison = compare(r->made->op, &r->expected, got);
    char text[700], unwritten[120] = "";
    int64_t n;

    if ((r->call.kernel || !r->made->row) && comparison.worst > r->c->result->worst)
        r->c->result->worst = comparison.worst;
    if (!comparison.wrong) return true;
    compare_describe(&comparison, &r->expected, got, text, sizeof text);
    n = r->poisoned ? compare_unwritten(&comparison, &r->expected, got) : 0;
    if (n)
        snprintf(unwritten, sizeof unwritten,
                 "; %lld of %lld elements still hold the poison: the kernel did not write them",
                 (long long)n, (long long)r->expected.count);
    if (r->c->fixture->dump) kernel_dump(r, got);
    return check_that(r->c, false, "%s%s%s", which, text, unwritten);
}

bool run_inputs_unchanged(struct run *r, int but)
{
    char what[32];

    for (int i = 0; i < r->made->n_in; i++) {
        if (i == but || !r->made->in[i].present || is_updated(r, i)) continue;
        snprintf(what, sizeof what, "input %d", i);
        if (!operand_verify(r->c, &r->in[i], what, true, NULL)) return false;
    }
    return true;
}

/* Runs go with a generator of the case's own, and checks that its offset has advanced by the
 * numbers drawn. */
static enum bp_status kernel_draw(struct run *r, enum bp_status (*go)(struct run *r, void *ctx),
                                  void *ctx)
{
    struct bp_stream *stream = r->c->fixture->stream;
    uint64_t seed = 0, offset = 0, blocks = ((uint64_t)r->expected.count + 3) / 4;
    struct bp_generator *generator;
    enum bp_status status;

    if (!check_ok(r->c, bp_generator_create(0, &generator), "bp_generator_create")) return BP_OK;
    bp_generator_set(generator, r->made->seed, r->made->offset);
    bp_stream_set_generator(stream, generator);
    status = go(r, ctx);
    bp_stream_set_generator(stream, NULL);
    if (status == BP_OK) {
        bp_generator_get(generator, &seed, &offset);
        check_that(r->c, seed == r->made->seed && offset == r->made->offset + blocks,
                   "the generator's offset rose by %llu, expected %llu",
                   (unsigned long long)(offset - r->made->offset), (unsigned long long)blocks);
    }
    bp_generator_destroy(generator);
    return status;
}

static enum bp_status kernel_give(struct run *r, enum bp_status (*go)(struct run *r, void *ctx),
                                  void *ctx)
{
    return r->info->flags & BP_OP_RANDOM ? kernel_draw(r, go, ctx) : go(r, ctx);
}

enum bp_status run_draw(struct run *r, enum bp_status (*go)(struct run *r, void *ctx), void *ctx)
{
    enum bp_status status = kernel_give(r, go, ctx);

    return status ? status : bp_stream_synchronize(r->c->fixture->stream);
}

static enum bp_status kernel_call(struct run *r, void *out)
{
    struct bp_tensor *all[REF_OUTPUTS] = {NULL}, **mine = out;
    int n = r->made->n_out ? r->made->n_out : 1, part = r->made->part;
    enum bp_status status;

    if (r->node) return run_node_go(r, out);
    all[part] = *mine;
    status = bp_call_run(bp_stream_scope(r->c->fixture->stream), &r->call, all, (size_t)n, NULL);
    *mine = all[part];
    for (int i = 0; i < n; i++)
        if (i != part) bp_tensor_destroy(all[i]);
    return status;
}

enum bp_status case_call(struct run *r, struct bp_tensor **out)
{
    return run_draw(r, kernel_call, out);
}

enum bp_status run_give(struct run *r, struct bp_tensor **out)
{
    return kernel_give(r, kernel_call, out);
}

bool run_take(struct run *r, struct bp_tensor *out, void *data)
{
    struct bp_tensor_info info = {.size = sizeof info};
    const struct ref_array *e = &r->expected;
    bool same;

    if (!check_ok(r->c, bp_tensor_get_info(out, &info), "bp_tensor_get_info of the result"))
        return false;
    same = info.rank == (uint32_t)e->rank;
    for (int i = 0; same && i < e->rank; i++) same = info.shape[i] == e->shape[i];
    return check_that(r->c, info.dtype == e->type->dtype, "the result is %s, expected %s",
                      bp_dtype_name(info.dtype), e->type->name) &&
           check_that(r->c, same,
                      "the result's shape is not that of the reference (rank %u, expected %d)",
                      (unsigned)info.rank, e->rank) &&
           check_ok(r->c, bp_tensor_read(r->c->fixture->stream, out, data, run_bytes(e)),
                    "bp_tensor_read");
}

bool run_guarded(struct run *r, enum bp_status *out_status)
{
    struct operand out = {0};
    bool ok = operand_output(r->c, &r->expected, r->expected.shape, r->made->out, &out);
    struct bp_tensor *given = out.tensor;
    char call[96];

    snprintf(call, sizeof call, "%s by row %s", r->made->op->name, run_row(r));
    r->poisoned = true;
    *out_status = ok ? case_call(r, &given) : BP_OK;
    ok = ok && !kernel_is_refused(*out_status) && check_ok(r->c, *out_status, call) &&
         check_that(r->c, given == out.tensor,
                    "the call replaced the output tensor that it was given") &&
         operand_verify(r->c, &out, "the output", false, r->data[0]) &&
         run_inputs_unchanged(r, -1) && run_judge(r, r->data[0], "");
    r->poisoned = false;
    operand_finish(&out);
    return ok;
}

void run_fill_memory(struct run *r, int n)
{
    size_t bytes = run_bytes(&r->expected);
    const struct ref_array *e = &r->expected;
    const struct bp_tensor_options o = {.size = sizeof o,
                                        .dtype = e->type->dtype,
                                        .rank = (uint32_t)e->rank,
                                        .shape = e->shape,
                                        .stream = r->c->fixture->stream};
    struct bp_tensor *t[RUN_FILL] = {NULL};
    void *filled = malloc(bytes + 1);

    if (!filled) abort();
    memset(filled, 0x3c, bytes);
    for (int i = 0; i < n; i++)
        if (!bp_tensor_create_with(r->c->fixture->device, &o, &t[i]))
            bp_tensor_write(r->c->fixture->stream, t[i], filled, bytes);
    for (int i = 0; i < n; i++) bp_tensor_destroy(t[i]);
    free(filled);
}

/* Also checks that a row that is flagged as deterministic gives the same bits again, if both
 * outputs have the same layout. */
void run_again(struct run *r)
{
    bool alike = r->made->out <= LAYOUT_OFFSET;
    struct bp_tensor_info info = {.size = sizeof info};
    struct bp_tensor *out = NULL;

    run_fill_memory(r, 1);
    if (check_ok(r->c, case_call(r, &out), "into a new tensor") && run_take(r, out, r->data[1]) &&
        run_judge(r, r->data[1], "into a new tensor: ") && alike &&
        r->made->row_flags & BP_KERNEL_DETERMINISTIC && !bp_tensor_get_info(out, &info) &&
        info.contiguous) /* the output may have the order of axes of an input */
        check_that(r->c, !memcmp(r->data[0], r->data[1], run_bytes(&r->expected)),
                   "the row is flagged BP_KERNEL_DETERMINISTIC, but two runs gave different bits");
    bp_tensor_destroy(out);
}

const struct bp_port *run_port(const struct run *r)
{
    return &r->info->out[(uint32_t)r->made->part < r->info->n_out ? r->made->part : 0];
}

struct operand *run_shared_input(struct run *r)
{
    return &r->in[run_port(r)->share];
}

/* Makes the only run of an in-place case, over an input. */
static void run_over(struct run *r, enum bp_status *out_status)
{
    struct operand *over = run_shared_input(r);
    struct bp_tensor *out = over->tensor;
    char call[96];

    snprintf(call, sizeof call, "%s by row %s over its input", r->made->op->name, run_row(r));
    *out_status = case_call(r, &out);
    if (!kernel_is_refused(*out_status) && check_ok(r->c, *out_status, call) &&
        operand_verify(r->c, over, "the input that is written over", false, r->data[0]) &&
        run_inputs_unchanged(r, (int)(over - r->in)))
        run_judge(r, r->data[0], "");
}

void run_other(struct run *r, const char *refusal)
{
    struct bp_tensor *over = r->made->in_place ? run_shared_input(r)->tensor : NULL, *out = over;
    enum bp_status status;

    r->call.kernel = NULL;
    status = case_call(r, &out);
    if (kernel_is_refused(status)) {
        r->c->result->refused = true;
        check_that(r->c, false, "no row takes this configuration: %s", refusal);
    } else if (check_ok(r->c, status, "the call, by any row") && run_take(r, out, r->data[0]) &&
               run_judge(r, r->data[0], "by another row: ")) {
        check_skip(r->c, "the row declines this configuration, another takes it: %s", refusal);
    }
    if (!over) bp_tensor_destroy(out);
}

bool kernel_case_has_elements(const struct kernel_case *made)
{
    for (int i = 0; i < made->n_in; i++)
        for (int a = 0; made->in[i].present && a < made->in[i].rank; a++)
            if (!made->in[i].shape[a]) return false;
    return true;
}

static bool kernel_case_is_strided(const struct kernel_case *made)
{
    for (int i = 0; i < made->n_in; i++)
        if (made->in[i].present && made->in[i].layout > LAYOUT_OFFSET) return true;
    return made->out > LAYOUT_OFFSET;
}

static bool kernel_case_broadcasts(const struct kernel_case *made)
{
    for (int i = 1; i < made->n_in; i++)
        if (made->in[i].rank != made->in[0].rank ||
            memcmp(made->in[i].shape, made->in[0].shape,
                   (size_t)made->in[0].rank * sizeof *made->in[0].shape))
            return true;
    return false;
}

const char *kernel_case_excess(const struct kernel_case *made)
{
    if (!made->row) return NULL;
    if (!(made->row_flags & BP_KERNEL_STRIDED) && kernel_case_is_strided(made))
        return "strided tensors, row not flagged BP_KERNEL_STRIDED";
    if (made->row_flags & BP_KERNEL_SAME_SHAPE && kernel_case_broadcasts(made))
        return "inputs of several shapes, row flagged BP_KERNEL_SAME_SHAPE";
    return NULL;
}

/* Makes the first run, depending on the kind of case. Stores the result in data[0]. Returns whether
 * the case goes on with further runs. */
static bool run_first(struct run *r, enum bp_status *out_status)
{
    if (r->info->flags & BP_OP_VIEW && !r->made->given) return run_view(r, out_status);
    if (r->info->flags & BP_OP_BOUND) return run_bound(r, out_status);
    if (run_port(r)->kind == BP_PORT_UPDATE) return run_update(r, out_status);
    if (!r->made->in_place) return run_guarded(r, out_status);
    run_over(r, out_status);
    return false;
}

/* Passes tensors to a row that its flags exclude: the row, if it is named, must be refused or give
 * the right result. If no row is named, the core must convert the tensors for it. */
static void run_excess(struct run *r, const char *excess)
{
    struct bp_tensor *out = NULL;
    enum bp_status status = case_call(r, &out);
    char text[120];

    snprintf(text, sizeof text, "%s: ", excess);
    if (status == BP_OK && run_take(r, out, r->data[0])) {
        r->c->result->executed = true;
        run_judge(r, r->data[0], text);
    }
    check_that(r->c, status == BP_OK || kernel_is_refused(status),
               "%sexpected BP_ERR_NO_KERNEL, got %s: %s", text, bp_status_name(status),
               bp_error_message());
    bp_tensor_destroy(out);
    r->call.kernel = NULL;
    status = BP_OK;
    run_first(r, &status);
    if (!kernel_is_refused(status)) return;
    r->c->result->refused = true;
    check_that(r->c, false, "no row takes this configuration: %s", bp_error_message());
}

static void run_case(struct run *r)
{
    enum bp_status status = BP_OK;
    char refusal[400];
    bool more;

    if (r->made->decompose) {
        run_expanded(r);
        return;
    }
    if (r->made->in_program) {
        run_in_program(r);
        return;
    }
    if (kernel_case_excess(r->made)) {
        run_excess(r, kernel_case_excess(r->made));
        return;
    }
    more = run_first(r, &status);
    if (kernel_is_refused(status)) {
        snprintf(refusal, sizeof refusal, "%s", bp_error_message());
        r->c->result->refused |= !r->made->row;
        /* A case without a kernel row is listed only if the device has rows for all steps of its
         * decomposition. */
        if (r->made->row) run_other(r, refusal);
        else check_that(r->c, false, "the device has what it needs, but: %s", refusal);
        return;
    }
    r->c->result->executed = true;
    if (more && !(r->info->flags & BP_OP_VIEW)) run_again(r);
    if (more) case_run_prepared(r);
    if (more) run_frozen_anew(r);
}

/* Whether the device can hold the dtypes of the case; if not, the case is unsupported. */
static bool is_held(struct check *c, const struct kernel_case *made)
{
    uint64_t dtypes = c->fixture->properties.dtypes;

    for (int i = 0; i < made->n_in; i++)
        if (made->in[i].present && !(dtypes >> made->in[i].dtype & 1))
            check_unsupported(c, "the device does not hold %s", bp_dtype_name(made->in[i].dtype));
    if (made->host && !(dtypes >> made->host & 1))
        check_unsupported(c, "the device does not hold %s", bp_dtype_name(made->host));
    return c->result->outcome != OUTCOME_UNSUPPORTED;
}

static bool is_held_output(struct check *c, const struct run *r)
{
    uint32_t dtype = r->expected.type->dtype;

    if (c->fixture->properties.dtypes >> dtype & 1) return true;
    check_unsupported(c, "the device does not hold %s", bp_dtype_name(dtype));
    return false;
}

bool run_init(struct run *r, struct check *c, const struct kernel_case *made)
{
    *r = (struct run){.c = c, .made = made, .info = bp_opinfo_find(made->op->name)};
    if (!is_held(c, made) || !kernel_set_up(r) || !is_held_output(c, r)) return false;
    r->data[0] = calloc(1, run_bytes(&r->expected) + 1);
    r->data[1] = calloc(1, run_bytes(&r->expected) + 1);
    if (!r->data[0] || !r->data[1]) abort();
    return true;
}

void run_finish(struct run *r)
{
    for (int i = 0; i < r->made->n_in; i++)
        if (r->made->in[i].present && r->in[i].image) operand_finish(&r->in[i]);
    for (int i = 0; i < CASE_PORTS; i++) bp_tensor_destroy(r->host[i]);
    ref_array_finish(&r->expected);
    free(r->data[0]);
    free(r->data[1]);
}

void run_once(struct check *c, const struct kernel_case *made)
{
    struct run r;

    if (run_init(&r, c, made)) run_case(&r);
    run_finish(&r);
}

void kernel_case_run(struct check *c, const struct kernel_case *made)
{
    c->result->worst = -1;
    if (made->twice) run_twice(c, made);
    else if (made->sweep) run_extents(c, made);
    else if (made->large) run_large(c, made);
    else run_once(c, made);
}
