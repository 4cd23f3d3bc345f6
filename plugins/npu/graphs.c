/* SPDX-License-Identifier: Apache-2.0 */
/* graphs.c: captures the work of a stream, which CANN 8.1 and newer can do, and replays it. */
#include "npu.h"

struct npu_recording {
    void *raw;
    uint64_t faults; /* mask of the fault words that its launches may write */
};

static bool graphs_exist(const struct npu *npu)
{
    return npu->call->aclmdlRICaptureBegin && npu->call->aclmdlRICaptureEnd &&
           npu->call->aclmdlRIExecuteAsync && npu->call->aclmdlRIDestroy;
}

enum bp_status npu_capture_begin(void *self, uint32_t index, void *p)
{
    struct npu_stream *stream = p, *other = NULL;
    KIT_CONTEXT caller = {NULL};
    struct npu_device *device;
    enum bp_status status;

    TRY(npu_device_use(self, index, &caller, &device));
    if (!graphs_exist(device->npu))
        return bp_fail(device->npu->host, BP_ERR_UNSUPPORTED,
                       "npu:%u: AscendCL %d.%d.%d has no function aclmdlRICaptureBegin: CANN "
                       "8.1 is needed",
                       index, device->npu->version[0], device->npu->version[1],
                       device->npu->version[2]);
    if (!atomic_compare_exchange_strong(&device->captured, &other, stream))
        return bp_fail(device->npu->host, BP_ERR_BUSY,
                       "npu:%u: another stream of the device is captured", index);
    status = NPU_CALL(device, aclmdlRICaptureBegin, stream->raw, NPU_CAPTURE_RELAXED);
    if (status) {
        atomic_store(&device->captured, NULL);
        return status;
    }
    stream->kit.captured = true;
    stream->kit.faults_captured = 0;
    return BP_OK;
}

/* Ends the capture, also if that fails: a stream that stays captured would be of no use, so a
 * second call makes sure that it does not. */
static enum bp_status graphs_end(struct npu_stream *stream, void **out)
{
    const struct npu_calls *call = stream->device->npu->call;
    enum bp_status status = NPU_CALL(stream->device, aclmdlRICaptureEnd, stream->raw, out);
    void *rest = NULL;

    if (status && !call->aclmdlRICaptureEnd(stream->raw, &rest) && rest)
        NPU_NOTE(stream->device, aclmdlRIDestroy, rest);
    stream->kit.captured = false;
    atomic_store(&stream->device->captured, NULL);
    return status;
}

enum bp_status npu_capture_end(void *self, uint32_t index, void *p, void **out_recording)
{
    const struct bp_host *host = ((struct npu *)self)->host;
    struct npu_stream *stream = p;
    KIT_CONTEXT caller = {NULL};
    struct npu_recording *recording = host->allocate(host->ctx, sizeof *recording,
                                                     _Alignof(struct npu_recording));
    enum bp_status status;

    if (!recording) {
        npu_capture_abort(self, index, p);
        return bp_fail(host, BP_ERR_MEMORY, "npu:%u: no memory for a recording", index);
    }
    npu_device_reuse(self, index, &caller);
    *recording = (struct npu_recording){.faults = stream->kit.faults_captured};
    status = graphs_end(stream, &recording->raw);
    if (status) host->release(host->ctx, recording, sizeof *recording);
    else *out_recording = recording;
    return status;
}

void npu_capture_abort(void *self, uint32_t index, void *p)
{
    KIT_CONTEXT caller = {NULL};
    struct npu_device *device = npu_device_reuse(self, index, &caller);
    void *raw = NULL;

    if (graphs_end(p, &raw) == BP_OK && raw) NPU_NOTE(device, aclmdlRIDestroy, raw);
}

enum bp_status npu_replay(void *self, uint32_t index, void *p, void *q)
{
    const struct npu_recording *recording = p;
    struct npu_stream *stream = q;
    KIT_CONTEXT caller = {NULL};
    struct npu_device *device;

    TRY(npu_device_use(self, index, &caller, &device));
    if (recording->faults) kit_fault_replay(&stream->kit, recording->faults);
    return NPU_CALL(device, aclmdlRIExecuteAsync, recording->raw, stream->raw);
}

void npu_recording_destroy(void *self, uint32_t index, void *p)
{
    KIT_CONTEXT caller = {NULL};
    struct npu_device *device = npu_device_reuse(self, index, &caller);
    const struct bp_host *host = device->npu->host;
    struct npu_recording *recording = p;

    NPU_NOTE(device, aclmdlRIDestroy, recording->raw);
    host->release(host->ctx, recording, sizeof *recording);
}
