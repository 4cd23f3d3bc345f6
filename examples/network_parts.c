/* SPDX-License-Identifier: Apache-2.0 */
/* network_parts.c: implements the weights and operator calls from which networks.h records
 * networks. */
#include "networks.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum bp_status network_init(struct network *n, struct bp_device *device, uint64_t seed)
{
    *n = (struct network){.device = device, .seed = seed};
    n->status = bp_stream_create(device, &n->stream);
    if (!n->status) n->status = bp_graph_create(bp_device_core(device), &n->graph);
    return n->status;
}

void network_finish(struct network *n)
{
    for (size_t i = 0; i < n->n_kept; i++) bp_tensor_destroy(n->kept[i]);
    bp_graph_destroy(n->graph);
    bp_stream_destroy(n->stream);
}

static struct bp_tensor *network_parts_keep(struct network *n, struct bp_tensor *t)
{
    if (n->n_kept == sizeof n->kept / sizeof *n->kept) {
        bp_tensor_destroy(t);
        n->status = bp_error_set(BP_ERR_UNSUPPORTED, "a network of more calls than there is room");
        return NULL;
    }
    return n->kept[n->n_kept++] = t;
}

/* Returns the next number of splitmix64 (Steele, Lea, Flood 2014), scaled to between 0 and 1. */
static double network_parts_uniform(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15;

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return ((double)((z ^ (z >> 31)) >> 11) + 0.5) * 0x1p-53;
}

/* Generates two normal numbers at a time (Box and Muller 1958). */
static void fill_normal(uint64_t *seed, double deviation, float *to, int64_t count)
{
    for (int64_t i = 0; i < count; i += 2) {
        double r = deviation * sqrt(-2 * log(network_parts_uniform(seed)));
        double angle = 6.283185307179586 * network_parts_uniform(seed);
        to[i] = (float)(r * cos(angle));
        if (i + 1 < count) to[i + 1] = (float)(r * sin(angle));
    }
}

/* Makes a constant tensor. deviation: the standard deviation of its normal values; if negative, all
 * elements are -deviation. */
static struct bp_tensor *network_parts_constant(struct network *n, uint32_t rank,
                                                const int64_t *shape, double deviation)
{
    struct bp_tensor_info info = {.size = sizeof info};
    struct bp_tensor *t;
    float *data;

    if (n->status) return NULL;
    n->status = bp_tensor_create(n->device, BP_F32, rank, shape, &t);
    if (n->status || !network_parts_keep(n, t)) return NULL;
    n->status = bp_tensor_get_info(t, &info);
    data = malloc(info.bytes + sizeof *data);
    if (!data) n->status = BP_ERR_MEMORY;
    if (!n->status) {
        if (deviation >= 0) fill_normal(&n->seed, deviation, data, info.count);
        for (int64_t i = 0; deviation < 0 && i < info.count; i++) data[i] = (float)-deviation;
        n->status = bp_tensor_write(n->stream, t, data, info.bytes);
    }
    free(data);
    if (!n->status) n->status = bp_tensor_freeze(t);
    return n->status ? NULL : t;
}

struct bp_tensor *network_weight(struct network *n, uint32_t rank, const int64_t *shape,
                                 int64_t fan_in)
{
    return network_parts_constant(n, rank, shape, sqrt(2.0 / (double)fan_in));
}

struct bp_tensor *network_vector(struct network *n, int64_t count, float value)
{
    return network_parts_constant(n, 1, &count, -(double)value);
}

struct bp_tensor *network_input(struct network *n, const char *name, uint32_t rank,
                                const int64_t *shape)
{
    struct bp_tensor *t;

    if (!n->status) n->status = bp_graph_input(n->graph, name, BP_F32, rank, shape, &t);
    return n->status ? NULL : network_parts_keep(n, t);
}

struct bp_tensor *network_call(struct network *n, const char *op, const void *attrs,
                               struct bp_tensor *const *in, size_t n_in)
{
    struct bp_arg arg[8];
    const struct bp_call call = {.size = sizeof call, .op = op, .in = arg, .n_in = n_in,
                                 .attrs = attrs};
    struct bp_tensor *out = NULL;

    for (size_t i = 0; i < n_in; i++) arg[i] = (struct bp_arg){&in[i], 1};
    if (!n->status) n->status = bp_call_run(bp_graph_scope(n->graph), &call, &out, 1, NULL);
    return n->status ? NULL : network_parts_keep(n, out);
}

struct bp_tensor *network_reshape(struct network *n, struct bp_tensor *x, uint32_t rank,
                                  const int64_t *shape)
{
    const struct bp_reshape_attrs attrs = {.size = sizeof attrs, .shape = {shape, rank}};

    return CALL(n, reshape, &attrs, x);
}

struct bp_tensor *network_result(struct network *n, struct bp_tensor *y)
{
    struct bp_graph_info info = {.size = sizeof info};

    if (!n->status) n->status = bp_graph_output(n->graph, y, "y");
    if (!n->status) n->status = bp_graph_get_info(n->graph, &info);
    n->output = info.values - 1; /* y is the graph's last value */
    return y;
}
