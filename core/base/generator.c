/* SPDX-License-Identifier: Apache-2.0 */
/* generator.c: implements generators: a seed, and the offset of the next unused random numbers.
 * Kernels compute the numbers. */
#include "generator.h"

#include "../device/device.h"

#include <stdlib.h>

enum bp_status bp_generator_create(uint64_t seed, struct bp_generator **out_generator)
{
    struct bp_generator *generator;

    if (!out_generator)
        return bp_error(BP_ERR_INVALID, "bp_generator_create: out_generator is NULL");
    generator = bp_handle_alloc(sizeof *generator);
    if (!generator) return bp_error(BP_ERR_MEMORY, "bp_generator_create: no memory");
    generator->magic = bp_magic(BP_MAGIC_GENERATOR);
    atomic_init(&generator->refs, 1);
    pthread_mutex_init(&generator->lock, NULL);
    generator->seed = seed;
    *out_generator = generator;
    return BP_OK;
}

void bp_generator_release(struct bp_generator *generator)
{
    if (atomic_fetch_sub_explicit(&generator->refs, 1, memory_order_acq_rel) != 1) return;
    pthread_mutex_destroy(&generator->lock);
    generator->magic = 0;
    free(generator);
}

void bp_generator_destroy(struct bp_generator *generator)
{
    if (bp_generator_is(generator)) bp_generator_release(generator);
}

enum bp_status bp_generator_set(struct bp_generator *generator, uint64_t seed, uint64_t offset)
{
    if (!bp_generator_is(generator)) return bp_not_a("generator");
    pthread_mutex_lock(&generator->lock);
    generator->seed = seed;
    generator->offset = offset;
    pthread_mutex_unlock(&generator->lock);
    return BP_OK;
}

enum bp_status bp_generator_get(struct bp_generator *generator, uint64_t *out_seed,
                                uint64_t *out_offset)
{
    if (!bp_generator_is(generator)) return bp_not_a("generator");
    if (!out_seed || !out_offset)
        return bp_error(BP_ERR_INVALID, "bp_generator_get: out_seed or out_offset is NULL");
    bp_generator_reserve(generator, 0, out_seed, out_offset);
    return BP_OK;
}

void bp_generator_reserve(struct bp_generator *generator, uint64_t blocks, uint64_t *out_seed,
                          uint64_t *out_offset)
{
    pthread_mutex_lock(&generator->lock);
    *out_seed = generator->seed;
    *out_offset = generator->offset;
    generator->offset += blocks;
    pthread_mutex_unlock(&generator->lock);
}

enum bp_status bp_stream_set_generator(struct bp_stream *stream, struct bp_generator *generator)
{
    if (!bp_stream_is(stream)) return bp_not_a("stream");
    if (generator && !bp_generator_is(generator)) return bp_not_a("generator");
    if (generator) atomic_fetch_add_explicit(&generator->refs, 1, memory_order_relaxed);
    if (stream->generator) bp_generator_release(stream->generator);
    stream->generator = generator;
    return BP_OK;
}
