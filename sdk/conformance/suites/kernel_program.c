/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_program.c: runs kernel cases of rows with layouts of the plugin, which only programs use.
 * The call is the only node of a program, and the core converts its tensors. The program runs with
 * graph inputs, and once more with frozen constants in place of all inputs but the first. */
#include "case_run.h"
#include <backplane/graph.h>
#include <backplane/program.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A program of one node. */
struct one_node {
    struct run *r;
    bool frozen; /* inputs but the first are frozen constants */
    struct bp_graph *graph;
    struct bp_program *program;
    struct bp_tensor *value[CASE_PORTS]; /* of the graph, for the inputs of the case */
    struct bp_tensor *in[CASE_PORTS];    /* of a run */
    size_t n_in;
};

static bool is_strided(const struct kernel_input *in)
{
    return in->layout > LAYOUT_OFFSET;
}

/* Inputs of a program that are strided would be copied before its first launch, so that no
 * conversion would see their strides. */
static bool is_constant(const struct one_node *x, int i)
{
    const struct kernel_input *in = &x->r->made->in[i];

    return in->frozen || is_strided(in) || (x->frozen && i);
}

static bool one_node_inputs(struct one_node *x)
{
    const struct kernel_case *made = x->r->made;

    for (int i = 0; i < made->n_in; i++) {
        const struct kernel_input *in = &made->in[i];
        if (!in->present) continue;
        if (is_constant(x, i)) {
            x->value[i] = x->r->tensor[i];
            continue;
        }
        if (!check_ok(x->r->c,
                      bp_graph_input(x->graph, NULL, in->dtype, (uint32_t)in->rank, in->shape,
                                     &x->value[i]),
                      "bp_graph_input"))
            return false;
        x->in[x->n_in++] = x->r->tensor[i];
    }
    return true;
}

/* Records the call. The output that the case checks is the output of the graph. */
static bool one_node_record(struct one_node *x)
{
    int n = x->r->made->n_out ? x->r->made->n_out : 1;
    struct bp_tensor *out[REF_OUTPUTS] = {NULL};
    struct bp_arg arg[CASE_PORTS];
    struct bp_call call = x->r->call;
    bool ok;

    for (uint32_t p = 0; p < x->r->info->n_in; p++) {
        arg[p] = x->r->arg[p];
        if (x->r->info->in[p].kind != BP_PORT_HOST)
            arg[p].at = x->value + (x->r->arg[p].at - x->r->tensor);
    }
    call.in = arg;
    ok = check_ok(x->r->c, bp_call_run(bp_graph_scope(x->graph), &call, out, (size_t)n, NULL),
                  "recording the call") &&
         check_ok(x->r->c, bp_graph_output(x->graph, out[x->r->made->part], NULL),
                  "bp_graph_output");
    for (int i = 0; i < n; i++) bp_tensor_destroy(out[i]);
    return ok;
}

/* Compiles the program. *out_status: of the compilation. false: the case has ended. */
static bool one_node_begin(struct one_node *x, struct run *r, bool frozen,
                           enum bp_status *out_status)
{
    *x = (struct one_node){.r = r, .frozen = frozen};
    if (!check_ok(r->c, bp_graph_create(r->c->fixture->core, &x->graph), "bp_graph_create") ||
        !one_node_inputs(x) || !one_node_record(x) ||
        !check_ok(r->c, bp_program_create(x->graph, r->c->fixture->device, &x->program),
                  "bp_program_create"))
        return false;
    *out_status = bp_program_compile(x->program);
    return true;
}

static void one_node_end(struct one_node *x)
{
    for (int i = 0; i < x->r->made->n_in; i++)
        if (x->value[i] != x->r->tensor[i]) bp_tensor_destroy(x->value[i]);
    bp_program_destroy(x->program);
    bp_graph_destroy(x->graph);
}

/* Checks that the row is a launch of the program. */
static bool one_node_has_row(const struct one_node *x)
{
    struct bp_launch_info info = {.size = sizeof info};

    for (uint32_t i = 0; !bp_program_launch(x->program, i, &info); i++)
        if (!strcmp(info.kernel, x->r->made->row)) return true;
    return check_that(x->r->c, false, "the program does not run on the row that its node names");
}

struct one_run {
    struct one_node *node;
    struct bp_tensor *out;
};

static enum bp_status one_node_go(struct run *r, void *ctx)
{
    struct one_run *one = ctx;

    return bp_program_run(one->node->program, r->c->fixture->stream, one->node->in, one->node->n_in,
                          &one->out, 1);
}

/* A conversion to a layout and back changes no bit. */
static bool one_node_is_exact(struct run *r, const unsigned char *got, const char *which)
{
    unsigned char *bytes = malloc(run_bytes(&r->expected) + 1);
    int64_t size = r->expected.type->size, i = 0;

    if (!bytes) abort();
    ref_array_encode(&r->expected, bytes);
    while (i < r->expected.count && !memcmp(bytes + i * size, got + i * size, (size_t)size)) i++;
    free(bytes);
    return check_that(r->c, i == r->expected.count,
                      "%selement %lld of %lld has other bits when it comes back from the layout",
                      which, (long long)i, (long long)r->expected.count);
}

static bool one_node_judge(struct run *r, const void *got, const char *which)
{
    if (!run_judge(r, got, which)) return false;
    return strcmp(r->made->op->name, "assign") || one_node_is_exact(r, got, which);
}

/* Runs the program into a tensor between guard bytes. */
static bool one_node_run_guarded(struct one_node *x, const char *which)
{
    struct run *r = x->r;
    struct operand out = {0};
    struct one_run one = {x, NULL};
    bool ok = operand_output(r->c, &r->expected, r->expected.shape, LAYOUT_DENSE, &out);

    one.out = out.tensor;
    ok = ok && check_ok(r->c, run_draw(r, one_node_go, &one), which) &&
         operand_verify(r->c, &out, "the output", false, r->data[0]) &&
         run_inputs_unchanged(r, -1) && one_node_judge(r, r->data[0], which);
    operand_finish(&out);
    return ok;
}

/* Runs the program again, into a tensor that the core creates. */
static bool one_node_run_again(struct one_node *x, const char *which)
{
    struct run *r = x->r;
    struct one_run one = {x, NULL};
    bool ok;

    run_fill_memory(r, 1);
    ok = check_ok(r->c, run_draw(r, one_node_go, &one), which) &&
         run_take(r, one.out, r->data[1]) && one_node_judge(r, r->data[1], which);
    if (ok && r->made->row_flags & BP_KERNEL_DETERMINISTIC)
        ok = check_that(r->c, !memcmp(r->data[0], r->data[1], run_bytes(&r->expected)),
                        "the row is flagged BP_KERNEL_DETERMINISTIC, but two runs of a program "
                        "gave different bits");
    bp_tensor_destroy(one.out);
    return ok;
}

/* Freezes the inputs but the first. false: there are none. */
static bool freeze_others(struct run *r)
{
    bool any = false;

    for (int i = 1; i < r->made->n_in; i++) {
        if (!r->made->in[i].present) continue;
        if (!check_ok(r->c, bp_tensor_freeze(r->tensor[i]), "bp_tensor_freeze")) return false;
        any = true;
    }
    return any;
}

/* Runs the program of the case. Returns the status of its compilation. */
static enum bp_status one_node_run(struct run *r, bool frozen)
{
    const char *which = frozen ? "with constants: " : "in a program: ";
    enum bp_status status = BP_OK;
    struct one_node x;

    if (one_node_begin(&x, r, frozen, &status) && !kernel_is_refused(status) &&
        check_ok(r->c, status, "bp_program_compile") && one_node_has_row(&x)) {
        r->c->result->executed = true;
        if (one_node_run_guarded(&x, which)) one_node_run_again(&x, which);
    }
    one_node_end(&x);
    return status;
}

enum bp_status run_node_begin(struct run *r)
{
    enum bp_status status = BP_OK;

    r->node = calloc(1, sizeof *r->node);
    if (!r->node) abort();
    if (one_node_begin(r->node, r, false, &status) && !status) one_node_has_row(r->node);
    return status;
}

enum bp_status run_node_go(struct run *r, struct bp_tensor **out)
{
    return bp_program_run(r->node->program, r->c->fixture->stream, r->node->in, r->node->n_in, out,
                          1);
}

void run_node_end(struct run *r)
{
    if (r->node) one_node_end(r->node);
    free(r->node);
    r->node = NULL;
}

void run_in_program(struct run *r)
{
    char refusal[400], *before = getenv("BP_VALIDATE"), *set = before ? strdup(before) : NULL;
    enum bp_status status;

    setenv("BP_VALIDATE", "arena", 1); /* read by the compilation and by the first run */
    status = one_node_run(r, false);
    snprintf(refusal, sizeof refusal, "%s", bp_error_message());
    if (kernel_is_refused(status)) run_other(r, refusal);
    else if (r->c->result->outcome == OUTCOME_PASS && freeze_others(r) &&
             kernel_is_refused(one_node_run(r, true)))
        check_skip(r->c, "with constants the row declines this configuration: %s",
                   bp_error_message());
    if (set) setenv("BP_VALIDATE", set, 1);
    else unsetenv("BP_VALIDATE");
    free(set);
}
