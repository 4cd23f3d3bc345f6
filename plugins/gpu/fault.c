/* SPDX-License-Identifier: Apache-2.0 */
/* fault.c: manages the words into which kernels write that they found bad values in their inputs.
 * Each kernel row has its own word in the pinned memory of a stream, so that the error message can
 * name the row. */
#include "gpu.h"

/* The index of the row's word. If there are more rows than words, they share the last word. */
static int word_of(struct gpu_stream *stream, const char *row)
{
    int i = 0;

    while (i < GPU_FAULTS - 1 && stream->fault[i].row && stream->fault[i].row != row) i++;
    stream->fault[i].row = row;
    return i;
}

/* Marks these words as writable by the launch that was counted last. */
static void may_write(struct gpu_stream *stream, uint64_t words)
{
    for (int i = 0; i < GPU_FAULTS; i++) {
        struct gpu_fault *fault = &stream->fault[i];
        if (!(words >> i & 1)) continue;
        fault->last = stream->launched;
        if (!fault->first) fault->first = fault->last;
    }
}

uint32_t *gpu_fault_take(struct gpu_stream *stream, const char *row)
{
    int i;

    pthread_mutex_lock(&stream->lock);
    i = word_of(stream, row);
    if (stream->captured) {
        stream->faults_captured |= UINT64_C(1) << i;
    } else {
        stream->launched++;
        may_write(stream, UINT64_C(1) << i);
    }
    pthread_mutex_unlock(&stream->lock);
    return &stream->words->fault[i];
}

void gpu_fault_replay(struct gpu_stream *stream, uint64_t words)
{
    pthread_mutex_lock(&stream->lock);
    stream->launched++;
    may_write(stream, words);
    pthread_mutex_unlock(&stream->lock);
}

uint64_t gpu_fault_launched(struct gpu_stream *stream)
{
    uint64_t launched;

    pthread_mutex_lock(&stream->lock);
    launched = stream->launched;
    pthread_mutex_unlock(&stream->lock);
    return launched;
}

/* Reads and clears the word for launches up to number `until`. Later launches may still run. */
static uint32_t read_word(struct gpu_stream *stream, int i, uint64_t until)
{
    struct gpu_fault *fault = &stream->fault[i];

    if (fault->first > until) return 0;
    fault->first = fault->last > until ? until + 1 : 0;
    return __atomic_exchange_n(&stream->words->fault[i], 0, __ATOMIC_RELAXED);
}

/* Of several faults, reports the one of the row that was launched first. */
enum bp_status gpu_fault_report(struct gpu_stream *stream, uint64_t until)
{
    const struct gpu_device *device = stream->device;
    uint64_t earliest = UINT64_MAX;
    const char *row = NULL;
    uint32_t code = 0;

    pthread_mutex_lock(&stream->lock);
    for (int i = 0; i < GPU_FAULTS && stream->fault[i].row; i++) {
        uint64_t first = stream->fault[i].first;
        uint32_t found = read_word(stream, i, until);
        if (!found || first >= earliest) continue;
        earliest = first;
        row = stream->fault[i].row;
        code = found;
    }
    pthread_mutex_unlock(&stream->lock);
    if (!row) return BP_OK;
    return bp_fail(device->gpu->host, BP_ERR_FAULT,
                   GPU_NAME ":%u: kernel %s found bad values in its inputs (code %u); what it "
                   "wrote is undefined",
                   device->index, row, code);
}
