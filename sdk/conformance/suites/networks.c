/* SPDX-License-Identifier: Apache-2.0 */
/* networks.c: records small networks, runs programs of them and compares results. */
#include "networks.h"

#include <backplane/attrs.h>
#include <backplane/call.h>
#include <backplane/graph.h>
#include <backplane/program.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Adds a tensor to the parts of the network. NULL: the call that made it has failed. */
static struct bp_tensor *part_add(struct network *n, enum bp_status status, struct bp_tensor *t,
                                  const char *call)
{
    if (!check_ok(n->c, status, call) ||
        !check_that(n->c, n->n_part < NETWORK_PARTS, "a network has too many parts"))
        return NULL;
    return n->part[n->n_part++] = t;
}

/* A frozen constant. */
static struct bp_tensor *part_constant(struct network *n, uint32_t rank, const int64_t *shape)
{
    struct fixture *f = n->c->fixture;
    struct bp_tensor *t = NULL;
    float data[NETWORK_ELEMENTS];
    uint64_t count = 1;
    enum bp_status status;

    for (uint32_t i = 0; i < rank; i++) count *= (uint64_t)shape[i];
    for (uint64_t i = 0; i < count; i++)
        data[i] = (float)((i * 37 + 11 + 5 * n->weights) % 29) / 16 - 0.75f;
    status = bp_tensor_create(f->device, BP_F32, rank, shape, &t);
    if (!status) status = bp_tensor_write(f->stream, t, data, count * sizeof *data);
    if (!status) status = bp_tensor_freeze(t);
    return part_add(n, status, t, "a constant");
}

static bool network_begin(struct network *n, uint32_t rank, const int64_t *shape)
{
    n->rank = rank;
    memcpy(n->shape, shape, rank * sizeof *shape);
    if (n->rows) n->shape[0] = n->rows;
    return check_ok(n->c, bp_graph_input(n->graph, "x", BP_F32, rank, n->shape, &n->x),
                    "bp_graph_input");
}

static bool network_output(struct network *n, struct bp_tensor *t)
{
    n->n_out++;
    return check_that(n->c, t != NULL, "output %u of a network was not recorded", n->n_out - 1) &&
           check_ok(n->c, bp_graph_output(n->graph, t, NULL), "bp_graph_output");
}

/* Records a call of an operator with up to three inputs, of which the last ones may be NULL. The
 * first one is NULL if a call before has failed. */
static struct bp_tensor *part_call(struct network *n, const char *op, const void *attrs,
                                   struct bp_tensor *a, struct bp_tensor *b, struct bp_tensor *c)
{
    const struct bp_arg in[] = {{&a, 1}, {&b, 1}, {&c, 1}};
    struct bp_call call = {.size = sizeof call,
                           .op = op,
                           .in = in,
                           .n_in = c   ? 3
                                   : b ? 2
                                       : 1,
                           .attrs = attrs};
    struct bp_tensor *t = NULL;
    enum bp_status status;

    if (!a) return NULL;
    status = bp_call_run(bp_graph_scope(n->graph), &call, &t, 1, NULL);
    return part_add(n, status, t, op);
}

static struct bp_tensor *part_relu(struct network *n, struct bp_tensor *a)
{
    return part_call(n, "relu", NULL, a, NULL, NULL);
}

static bool record_chain(struct network *n)
{
    struct bp_tensor *w, *a;

    if (!network_begin(n, 2, (const int64_t[]){6, 8})) return false;
    w = part_constant(n, 1, (const int64_t[]){8});
    a = part_relu(n, part_call(n, "add", NULL, part_call(n, "mul", NULL, n->x, w, NULL), w, NULL));
    return network_output(n, part_call(n, "neg", NULL, a, NULL, NULL));
}

static bool record_sums(struct network *n)
{
    struct bp_tensor *w, *a;

    if (!network_begin(n, 2, (const int64_t[]){6, 8})) return false;
    w = part_constant(n, 2, n->shape);
    a = part_call(n, "add", NULL, part_call(n, "add", NULL, n->x, w, NULL), n->x, NULL);
    return network_output(n, part_call(n, "add", NULL, a, a, NULL));
}

/* Two outputs, one of which is read inside. */
static bool record_branches(struct network *n)
{
    struct bp_tensor *a, *b, *c;

    if (!network_begin(n, 2, (const int64_t[]){6, 8})) return false;
    a = part_relu(n, n->x);
    b = part_call(n, "neg", NULL, a, NULL, NULL);
    c = part_call(n, "add", NULL, a, n->x, NULL);
    return network_output(n, b) && network_output(n, part_call(n, "mul", NULL, b, c, NULL));
}

static bool record_product(struct network *n)
{
    struct bp_tensor *w;

    if (!network_begin(n, 2, (const int64_t[]){6, 8})) return false;
    w = part_constant(n, 2, (const int64_t[]){8, 5});
    return network_output(n, part_relu(n, part_call(n, "matmul", NULL, n->x, w, NULL)));
}

static bool record_softmax(struct network *n)
{
    struct bp_tensor *a;

    if (!network_begin(n, 3, (const int64_t[]){2, 3, 8})) return false;
    a = part_call(n, "softmax", NULL, n->x, NULL, NULL);
    return network_output(n, part_call(n, "mul", NULL, a, n->x, NULL));
}

/* The transposed result is a view, which the app gets. */
static bool record_view(struct network *n)
{
    if (!network_begin(n, 2, (const int64_t[]){6, 8})) return false;
    return network_output(n, part_call(n, "transpose", NULL, part_relu(n, n->x), NULL, NULL));
}

static bool record_sum(struct network *n)
{
    const int64_t axis = 1;
    struct bp_sum_attrs attrs = {.size = sizeof attrs, .axes = {&axis, 1}, .keep = 1};

    if (!network_begin(n, 2, (const int64_t[]){6, 8})) return false;
    return network_output(
        n, part_call(n, "add", NULL, n->x, part_call(n, "sum", &attrs, n->x, NULL, NULL), NULL));
}

static bool record_image(struct network *n)
{
    struct bp_tensor *w, *b;

    if (!network_begin(n, 4, (const int64_t[]){1, 3, 6, 6})) return false;
    w = part_constant(n, 4, (const int64_t[]){4, 3, 3, 3});
    b = part_constant(n, 1, (const int64_t[]){4});
    return network_output(n, part_relu(n, part_call(n, "conv", NULL, n->x, w, b)));
}

/* A node is read by several others, and one of its inputs is computed by one of them. */
static bool record_diamond(struct network *n)
{
    struct bp_tensor *a, *b, *c;

    if (!network_begin(n, 2, (const int64_t[]){6, 8})) return false;
    a = part_call(n, "neg", NULL, n->x, NULL, NULL);
    b = part_relu(n, a);
    c = part_call(n, "mul", NULL, part_call(n, "add", NULL, b, a, NULL), b, NULL);
    return network_output(n, part_call(n, "sub", NULL, c, a, NULL));
}

static const struct {
    const char *name;
    bool (*record)(struct network *n);
} networks[NETWORKS] = {
    {"chain", record_chain},     {"branches", record_branches}, {"product", record_product},
    {"softmax", record_softmax}, {"view", record_view},         {"sum", record_sum},
    {"image", record_image},     {"diamond", record_diamond},   {"sums", record_sums},
};

const char *network_name(uint32_t number)
{
    return networks[number].name;
}

bool network_record(struct network *n, struct check *c, uint32_t number)
{
    return network_record_as(n, c, number, 0, 0);
}

bool network_record_as(struct network *n, struct check *c, uint32_t number, int64_t rows,
                       uint32_t weights)
{
    *n = (struct network){.c = c, .rows = rows, .weights = weights};
    return check_ok(c, bp_graph_create(c->fixture->core, &n->graph), "bp_graph_create") &&
           networks[number].record(n);
}

void network_finish(struct network *n)
{
    for (uint32_t i = 0; i < n->n_part; i++) bp_tensor_destroy(n->part[i]);
    bp_tensor_destroy(n->x);
    bp_graph_destroy(n->graph);
}

bool network_input(const struct network *n, struct bp_stream *stream, uint32_t seed,
                   struct bp_tensor **out)
{
    float data[NETWORK_ELEMENTS];
    uint64_t count = 1;

    for (uint32_t i = 0; i < n->rank; i++) count *= (uint64_t)n->shape[i];
    for (uint64_t i = 0; i < count; i++) data[i] = (float)((i * 53 + seed * 101 + 7) % 64) / 16 - 2;
    return check_ok(n->c, bp_tensor_create(n->c->fixture->device, BP_F32, n->rank, n->shape, out),
                    "bp_tensor_create") &&
           check_ok(n->c, bp_tensor_write(stream, *out, data, count * sizeof *data),
                    "bp_tensor_write");
}

bool network_start(const struct network *n, struct bp_program *program, struct bp_stream *stream,
                   struct bp_tensor *x, struct bp_tensor **out)
{
    return check_ok(n->c, bp_program_run(program, stream, &x, 1, out, n->n_out), "bp_program_run");
}

bool network_read(const struct network *n, struct bp_stream *stream, struct bp_tensor *const *from,
                  struct network_values *out)
{
    bool good = true;

    memset(out, 0, sizeof *out);
    for (uint32_t i = 0; i < n->n_out && good; i++) {
        struct bp_tensor_info info = {.size = sizeof info};
        good = check_ok(n->c, bp_tensor_get_info(from[i], &info), "bp_tensor_get_info") &&
               check_that(n->c, info.dtype == BP_F32 && info.bytes <= sizeof out->at[i],
                          "output %u has another type", i) &&
               check_ok(n->c, bp_tensor_read(stream, from[i], out->at[i], info.bytes),
                        "bp_tensor_read");
        out->n[i] = info.bytes / sizeof(float);
    }
    return good;
}

bool network_run(const struct network *n, struct bp_program *program, struct bp_stream *stream,
                 struct bp_tensor *x, struct network_values *out)
{
    struct bp_tensor *result[NETWORK_OUTPUTS] = {NULL};
    bool good = network_start(n, program, stream, x, result) &&
                network_read(n, stream, result, out);

    for (uint32_t i = 0; i < n->n_out; i++) bp_tensor_destroy(result[i]);
    return good;
}

bool network_has_kernels(const struct network *n)
{
    struct bp_program *program = NULL;
    enum bp_status status;
    bool good = check_ok(n->c, bp_program_create(n->graph, n->c->fixture->device, &program),
                         "bp_program_create");

    if (!good) return false;
    setenv("BP_PASSES", "none", 1);
    status = bp_program_compile(program);
    unsetenv("BP_PASSES");
    if (status == BP_ERR_UNSUPPORTED || status == BP_ERR_NO_KERNEL)
        check_unsupported(n->c, "no kernels run this network: %s", bp_error_message());
    else check_ok(n->c, status, "bp_program_compile, without passes");
    bp_program_destroy(program);
    return status == BP_OK;
}

bool network_expected(const struct network *n, uint32_t seed, struct network_values *out)
{
    struct bp_stream *stream = n->c->fixture->stream;
    struct bp_program *program = NULL;
    struct bp_tensor *x = NULL;
    bool good;

    setenv("BP_PASSES", "none", 1);
    good = network_input(n, stream, seed, &x) &&
           check_ok(n->c, bp_program_create(n->graph, n->c->fixture->device, &program),
                    "bp_program_create") &&
           network_run(n, program, stream, x, out);
    unsetenv("BP_PASSES");
    bp_program_destroy(program);
    bp_tensor_destroy(x);
    return good;
}

bool network_agree(const struct network *n, const struct network_values *got,
                   const struct network_values *want, const char *what)
{
    for (uint32_t o = 0; o < n->n_out; o++) {
        float largest = 0;
        if (!check_that(n->c, got->n[o] == want->n[o], "%s: output %u has another size", what, o))
            return false;
        for (uint64_t i = 0; i < want->n[o]; i++)
            if (fabsf(want->at[o][i]) > largest) largest = fabsf(want->at[o][i]);
        for (uint64_t i = 0; i < want->n[o]; i++)
            if (!check_that(n->c, fabsf(got->at[o][i] - want->at[o][i]) <= 1e-4f * largest,
                            "%s: element %d of output %u is %g, expected %g", what, (int)i, o,
                            (double)got->at[o][i], (double)want->at[o][i]))
                return false;
    }
    return true;
}
