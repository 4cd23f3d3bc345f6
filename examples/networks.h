/* SPDX-License-Identifier: Apache-2.0 */
/* networks.h: graphs of the shape of known networks, recorded through the app API, with weights
 * from a seed. */
#ifndef BP_EXAMPLE_NETWORKS_H
#define BP_EXAMPLE_NETWORKS_H

#include <backplane/backplane.h>

struct network {
    struct bp_device *device;
    struct bp_stream *stream;
    struct bp_graph *graph;
    struct bp_tensor *kept[2048]; /* all that was recorded or made, until the end */
    size_t n_kept;
    uint64_t seed;
    uint32_t output; /* the value that is the result */
    enum bp_status status; /* of the first failure; nothing more is done then */
};

/* ResNet-50 (He et al. 2015, table 1): image 1 x 3 x extent x extent to 1000 numbers. */
void network_resnet50(struct network *n, int64_t extent);

/* Encoder layers as in BERT-base (Devlin et al. 2018): hidden 768, 12 heads, 3072 inside; input
 * 1 x length x 768, what the embedding would give. */
void network_bert(struct network *n, int64_t layers, int64_t length);

/* A network on a device; build one of the above, then finish it. */
enum bp_status network_init(struct network *n, struct bp_device *device, uint64_t seed);
void network_finish(struct network *n);

/* network_parts.c: what both are made of. A weight: normal, of variance 2 / fan_in; a vector: all
 * of one number. Each answers a tensor that the network keeps, or NULL after a failure. */
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
