/* SPDX-License-Identifier: Apache-2.0 */
/* rank.h: declares a rank for tests, with its own device and stream, and tensors of f32 on them. */
#ifndef BP_TEST_CCL_RANK_H
#define BP_TEST_CCL_RANK_H

#include "kit.h"

struct rank {
    struct bp_core *core;
    struct bp_device *device;
    struct bp_stream *stream;
    struct bp_comm *comm;
    uint32_t rank, size;
};

/* Opens a rank without a communicator. device: a name ("cpu:0"), or the path of a plugin, of which
 * the first device is used. */
static inline struct rank rank_open(const char *device, uint32_t rank, uint32_t size)
{
    struct rank r = {.rank = rank, .size = size};
    uint32_t index;

    OK(bp_core_create(NULL, &r.core));
    if (strchr(device, '/')) {
        OK(bp_core_load_path(r.core, device, &index));
        OK(bp_device_create_at(r.core, index, 0, &r.device));
    } else {
        OK(bp_device_create(r.core, device, &r.device));
    }
    OK(bp_stream_create(r.device, &r.stream));
    return r;
}

static inline struct rank rank_join(const char *device, uint32_t rank, uint32_t size,
                                    const struct bp_comm_id *id)
{
    struct rank r = rank_open(device, rank, size);

    OK(bp_comm_create(r.device, id, rank, size, &r.comm));
    return r;
}

static inline void rank_close(struct rank *r)
{
    bp_comm_destroy(r->comm);
    bp_stream_destroy(r->stream);
    bp_device_destroy(r->device);
    bp_core_destroy(r->core);
}

/* Creates a tensor of the n numbers at data, and frees data. */
static inline struct bp_tensor *rank_write(struct rank *r, int64_t n, float *data)
{
    struct bp_tensor *t;

    OK(bp_tensor_create(r->device, BP_F32, 1, &n, &t));
    OK(bp_tensor_write(r->stream, t, data, (uint64_t)n * sizeof *data));
    free(data);
    return t;
}

/* Reads the tensor's n numbers; the caller frees them. */
static inline float *rank_read(struct rank *r, struct bp_tensor *t, int64_t n)
{
    float *data = malloc((size_t)n * sizeof *data);

    OK(bp_tensor_read(r->stream, t, data, (uint64_t)n * sizeof *data));
    return data;
}

static inline struct bp_tensor *rank_view(struct bp_tensor *t, int64_t at, int64_t n)
{
    struct bp_tensor *made;
    int64_t one = 1;

    OK(bp_tensor_view(t, at, 1, &n, &one, &made));
    return made;
}

#endif
