/* SPDX-License-Identifier: Apache-2.0 */
/* networks.h: declares functions that record graphs with the shapes of known networks through the
 * app API, with weights from a seed. */
#ifndef BP_EXAMPLE_NETWORKS_H
#define BP_EXAMPLE_NETWORKS_H

#include <backplane/backplane.h>

struct network {
    struct bp_device *device;
    struct bp_stream *stream;
    struct bp_graph *graph;
    struct bp_tensor *kept[2048]; /* all tensors that were recorded or made, until network_finish
                                     destroys them */
    size_t n_kept;
    uint64_t seed;
    uint32_t output; /* number of the value that is the network's result */
    enum bp_status status; /* of the first failure; later calls then do nothing */
};

/* Records ResNet-50 (He et al. 2015, table 1): from an image of 1 x 3 x extent x extent to 1000
 * numbers. */
void network_resnet50(struct network *n, int64_t extent);

/* Records encoder layers as in BERT-base (Devlin et al. 2018): hidden size 768, 12 heads, inner
 * size 3072; the input of 1 x length x 768 is the output of BERT's embedding. */
void network_bert(struct network *n, int64_t layers, int64_t length);

/* Begin and end a network on a device: call network_init, record one of the networks above, then
 * call network_finish. */
enum bp_status network_init(struct network *n, struct bp_device *device, uint64_t seed);
void network_finish(struct network *n);

/* The parts of both networks, defined in network_parts.c. A weight has normal values of variance 2
 * / fan_in; all elements of a vector have the same value. Each function returns a tensor that the
 * network keeps, or NULL after a failure. */
struct bp_tensor *network_weight(struct network *n, uint32_t rank, const int64_t *shape,
                                 int64_t fan_in);
struct bp_tensor *network_vector(struct network *n, int64_t count, float value);
struct bp_tensor *network_input(struct network *n, const char *name, uint32_t rank,
                                const int64_t *shape);
struct bp_tensor *network_call(struct network *n, const char *op, const void *attrs,
                               struct bp_tensor *const *in, size_t n_in);
struct bp_tensor *network_reshape(struct network *n, struct bp_tensor *x, uint32_t rank,
                                  const int64_t *shape);
struct bp_tensor *network_result(struct network *n, struct bp_tensor *y);

#define CALL(n, op, attrs, ...) \
    network_call(n, #op, attrs, (struct bp_tensor *[]){__VA_ARGS__}, \
                 sizeof((struct bp_tensor *[]){__VA_ARGS__}) / sizeof(struct bp_tensor *))

#endif
