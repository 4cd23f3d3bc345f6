/* SPDX-License-Identifier: Apache-2.0 */
/* random.h: creates generators of random numbers. A random operator draws its numbers from the
 * generator of the stream on which it runs.
 *
 * The numbers are those of Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2,
 * 3", SC 2011): the key is the seed, and the counter counts blocks of four words. Element i of a
 * contiguous result uses word i % 4 of block offset + i / 4; each call then advances the offset
 * past the blocks that it used. One seed therefore gives the same numbers on every device, whatever
 * its degree of parallelism. */
#ifndef BP_RANDOM_H
#define BP_RANDOM_H

#include <backplane/api.h>
#include <backplane/stream.h>

#ifdef __cplusplus
extern "C" {
#endif

struct bp_generator;

/* Creates a generator with offset 0. Several streams, of any devices, may share one generator: each
 * call uses its own part of the numbers, in the order of the calls. */
BP_API enum bp_status bp_generator_create(uint64_t seed, struct bp_generator **out_generator);
BP_API void bp_generator_destroy(struct bp_generator *generator);

/* Set and get the state of a generator, so that an app can save and restore it. offset: in blocks
 * of four words. */
BP_API enum bp_status bp_generator_set(struct bp_generator *generator, uint64_t seed,
                                       uint64_t offset);
BP_API enum bp_status bp_generator_get(struct bp_generator *generator, uint64_t *out_seed,
                                       uint64_t *out_offset);

/* Later calls on the stream draw from generator. NULL: from the generator of the stream's core,
 * which is shared by all streams that have no other generator; its seed is BP_SEED, or 0. */
BP_API enum bp_status bp_stream_set_generator(struct bp_stream *stream,
                                              struct bp_generator *generator);

#ifdef __cplusplus
}
#endif

#endif
