/* SPDX-License-Identifier: Apache-2.0 */
/* rounds.h: composes operators whose steps run again and again, once for each column or draw: the
 * same executors run with the same tensors, of which some hold the state between rounds.
 *
 *   struct npu_rounds rounds = npu_rounds_begin(b);
 *   ... steps that read rounds.at, the number of the round ...
 *   npu_rounds_end(b, &rounds, n); */
#ifndef NPU_ROUNDS_H
#define NPU_ROUNDS_H

#include "compose.h"

/* at: the number of the round, from 0 on, an i64 of one element. */
struct npu_rounds {
    uint32_t first;
    struct kit_arg at;
};

struct npu_rounds npu_rounds_begin(struct kit_build *b);
/* The steps since the beginning run `times` times. */
void npu_rounds_end(struct kit_build *b, const struct npu_rounds *rounds, int64_t times);

/* A state that begins as a value of the same shape; and its next value. */
struct kit_arg npu_state(struct kit_build *b, struct kit_arg value);
void npu_state_set(struct kit_build *b, struct kit_arg state, struct kit_arg value);
/* The numbers 0 to n - 1 as i64 along an axis; the other axes have the extent 1. */
struct kit_arg npu_places(struct kit_build *b, int64_t n, uint32_t rank, uint32_t axis);
/* The place of an axis that an i64 of one element names, which is in range. */
struct kit_arg npu_select(struct kit_build *b, struct kit_arg x, uint32_t axis, struct kit_arg at);
/* Functions that have an argument for the axis between the tensors: the first place with the
 * largest element, and the elements at the places of an index. */
struct kit_arg npu_argmax(struct kit_build *b, struct kit_arg x, uint32_t axis);
struct kit_arg npu_gather(struct kit_build *b, struct kit_arg x, uint32_t axis,
                          struct kit_arg index);

#endif
