/* SPDX-License-Identifier: Apache-2.0 */
/* fault.c: manages the words into which kernels write that they found bad values in their inputs;
 * see stream.h. */
#include "stream.h"
#include <stdio.h>

/* The index of the row's word. If there are more rows than words, they share the last word. */
static int fault_word_of(struct kit_stream *stream, const char *row)
{
    int i = 0;

    while (i < KIT_FAULTS - 1 && stream->fault[i].row && stream->fault[i].row != row) i++;
    stream->fault[i].row = row;
    return i;
}

/* Marks these words as writable by the launch that was counted last. */
static void fault_may_write(struct kit_stream *stream, uint64_t words)
{
    for (int i = 0; i < KIT_FAULTS; i++) {
        struct kit_fault *fault = &stream->fault[i];
        if (!(words >> i & 1)) continue;
        fault->last = stream->launched;
        if (!fault->first) fault->first = fault->last;
    }
}

int kit_fault_take(struct kit_stream *stream, const char *row)
{
    int i;

    pthread_mutex_lock(&stream->lock);
    i = fault_word_of(stream, row);
    if (stream->captured) {
        stream->faults_captured |= UINT64_C(1) << i;
    } else {
        stream->launched++;
        fault_may_write(stream, UINT64_C(1) << i);
    }
    pthread_mutex_unlock(&stream->lock);
    return i;
}

void kit_fault_replay(struct kit_stream *stream, uint64_t words)
{
    pthread_mutex_lock(&stream->lock);
    stream->launched++;
    fault_may_write(stream, words);
    pthread_mutex_unlock(&stream->lock);
}

struct kit_mark kit_mark_make(struct kit_stream *stream)
{
    struct kit_mark mark = {.stream = stream->number};

    pthread_mutex_lock(&stream->lock);
    mark.launched = stream->launched;
    pthread_mutex_unlock(&stream->lock);
    return mark;
}

bool kit_fault_is_possible(const struct kit_stream *stream)
{
    bool possible = false;

    for (int i = 0; i < KIT_FAULTS && stream->fault[i].row; i++)
        possible |= stream->fault[i].first != 0;
    return possible;
}

/* Reads and clears the word for launches up to number `until`. Later launches may still run. */
static uint32_t fault_read(struct kit_fault *fault, uint32_t *word, uint64_t until)
{
    if (fault->first > until) return 0;
    fault->first = fault->last > until ? until + 1 : 0;
    return __atomic_exchange_n(word, 0, __ATOMIC_RELAXED);
}

enum bp_status kit_fault_report(const struct kit_report *report, struct kit_stream *stream,
                                uint32_t *words, uint64_t until)
{
    uint64_t earliest = UINT64_MAX;
    const char *row = NULL;
    uint32_t code = 0;

    pthread_mutex_lock(&stream->lock);
    for (int i = 0; i < KIT_FAULTS && stream->fault[i].row; i++) {
        uint64_t first = stream->fault[i].first;
        uint32_t found = fault_read(&stream->fault[i], &words[i], until);
        if (!found || first >= earliest) continue;
        earliest = first;
        row = stream->fault[i].row;
        code = found;
    }
    pthread_mutex_unlock(&stream->lock);
    if (!row) return BP_OK;
    return bp_fail(report->host, BP_ERR_FAULT,
                   "%s:%u: kernel %s found bad values in its inputs (code %u); what it wrote is "
                   "undefined",
                   report->plugin, report->device, row, code);
}
