/* SPDX-License-Identifier: Apache-2.0 */
/* narrow.c: converts indices between 64 and 32 bits, through host memory. */
#include "tensor.h"

#include <inttypes.h>
#include <string.h>

/* Converts in place: value i is written to a place that has been read already. */
static void narrow_in_place(char *values, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        int64_t wide;
        int32_t narrow;
        memcpy(&wide, values + 8 * i, sizeof wide);
        narrow = wide < INT32_MIN ? INT32_MIN : wide > INT32_MAX ? INT32_MAX : (int32_t)wide;
        memcpy(values + 4 * i, &narrow, sizeof narrow);
    }
}

/* Converts in place, from the last value to the first: value i is written behind all places that
 * are still to be read. */
static void widen_in_place(char *values, uint64_t n)
{
    for (uint64_t i = n; i-- > 0;) {
        int32_t narrow;
        int64_t wide;
        memcpy(&narrow, values + 4 * i, sizeof narrow);
        wide = narrow;
        memcpy(values + 8 * i, &wide, sizeof wide);
    }
}

enum bp_status bp_transfer_indices(struct bp_stream *stream, struct bp_tensor *dst,
                                   struct bp_tensor *src)
{
    uint64_t n = (uint64_t)src->view.count;
    struct bp_core *core = dst->device->core;
    enum bp_status status;
    char *values;

    if (!n) return BP_OK;
    TRY(bp_transfer_record_wait(stream));
    values = bp_core_alloc(core, 8 * n, 64);
    if (!values)
        return bp_error(BP_ERR_MEMORY, "no host memory for %" PRIu64 " bytes of indices", 8 * n);
    status = bp_transfer_read(stream, src, values);
    if (status == BP_OK) {
        (dst->view.dtype == BP_I64 ? widen_in_place : narrow_in_place)(values, n);
        status = bp_transfer_write(stream, dst, values);
    }
    bp_core_free(core, values, 8 * n);
    return status;
}
