/* SPDX-License-Identifier: Apache-2.0 */
/* networks.h: small networks that suites compile as programs. */
#ifndef BP_CONFORM_NETWORKS_H
#define BP_CONFORM_NETWORKS_H

#include "../check.h"

enum {
    NETWORKS = 9,
    NETWORK_PARTS = 8,
    NETWORK_OUTPUTS = 2,
    NETWORK_ELEMENTS = 512
};

/* A network: one input of f32, constants that are frozen, and one or two outputs of f32. */
struct network {
    struct check *c;
    struct bp_graph *graph;
    struct bp_tensor *x;                   /* symbolic */
    struct bp_tensor *part[NETWORK_PARTS]; /* owned: symbolic tensors and constants */
    uint32_t n_part, n_out, rank;
    int64_t shape[4]; /* of the input */
    int64_t rows;     /* the first extent of the input; 0: the network's own */
    uint32_t weights; /* which numbers the constants have */
};

/* Results of a run: the elements of each output. */
struct network_values {
    float at[NETWORK_OUTPUTS][NETWORK_ELEMENTS];
    uint64_t n[NETWORK_OUTPUTS];
};

const char *network_name(uint32_t number);
/* Records network `number`. false: the case has failed. The caller calls network_finish. */
bool network_record(struct network *n, struct check *c, uint32_t number);
/* The same with another first extent, up to 4, and other numbers in the constants. */
bool network_record_as(struct network *n, struct check *c, uint32_t number, int64_t rows,
                       uint32_t weights);
void network_finish(struct network *n);

/* Creates an input whose numbers depend on `seed`. */
bool network_input(const struct network *n, struct bp_stream *stream, uint32_t seed,
                   struct bp_tensor **out);

/* Runs a program of the network into n_out new tensors, and reads the results. */
bool network_start(const struct network *n, struct bp_program *program, struct bp_stream *stream,
                   struct bp_tensor *x, struct bp_tensor **out);
bool network_read(const struct network *n, struct bp_stream *stream, struct bp_tensor *const *from,
                  struct network_values *out);
/* Both, one after the other. */
bool network_run(const struct network *n, struct bp_program *program, struct bp_stream *stream,
                 struct bp_tensor *x, struct network_values *out);

/* Whether kernels alone run the network; otherwise the case is unsupported, or has failed. */
bool network_has_kernels(const struct network *n);
/* Runs the network by kernels alone (BP_PASSES=none), for the input of a seed. */
bool network_expected(const struct network *n, uint32_t seed, struct network_values *out);

/* Checks that results agree: within 1e-4 of the largest element of each output. */
bool network_agree(const struct network *n, const struct network_values *got,
                   const struct network_values *want, const char *what);

#endif
