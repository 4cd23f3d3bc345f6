/* SPDX-License-Identifier: Apache-2.0 */
/* device.h: a device, opened by name. */
#ifndef BP_DEVICE_H
#define BP_DEVICE_H

#include <backplane/api.h>
#include <backplane/core.h>
#include <backplane/runtime.h>

#ifdef __cplusplus
extern "C" {
#endif

struct bp_device;

/* Opens a device: "cpu:0", or "cpu" for its index 0. Loads the plugin of that kind: the one of
 * highest priority that has devices; its devices are those of the kind. A device opened twice is
 * one.
 *
 * BP_ERR_NOT_FOUND: no plugin of this kind, or no such index; the message lists the kinds there
 * are. BP_ERR_ABSENT, BP_ERR_PLUGIN: there is one, and the message says why it cannot be used. */
BP_API enum bp_status bp_device_create(struct bp_core *core, const char *name,
                                       struct bp_device **out_device);

/* Opens device number device of plugin index: for tools that test one plugin. */
BP_API enum bp_status bp_device_create_at(struct bp_core *core, uint32_t plugin, uint32_t device,
                                          struct bp_device **out_device);
BP_API void bp_device_destroy(struct bp_device *device);

/* "cpu:0". "" for no device. */
BP_API const char *bp_device_name(struct bp_device *device);

/* The core that it was opened in; no reference is taken. NULL for no device. */
BP_API struct bp_core *bp_device_core(struct bp_device *device);

/* Set out->size before the call. */
BP_API enum bp_status bp_device_properties(struct bp_device *device,
                                           struct bp_device_properties *out);

/* Waits for all work on all streams of the device. A failure of that work is returned; since it is
 * not known whose it was, all streams of the device answer it from then on. */
BP_API enum bp_status bp_device_synchronize(struct bp_device *device);

/* What the plugin leaves out and the core supplies. Bits of enum bp_emulated. */
enum bp_emulated {
    BP_EMULATED_STREAMS = 1,     /* streams share the device's one order */
    BP_EMULATED_EVENTS = 2,      /* waiting for an event waits for its stream */
    BP_EMULATED_STREAM_WAIT = 4, /* the host waits */
    BP_EMULATED_MEMORY_INFO = 8, /* own count */
    BP_EMULATED_RECORDING = 16,  /* programs (program.h) run node by node; not said of devices that
                                    work inline, where nothing would be saved */
    BP_EMULATED_COLLECTIVES = 32, /* collectives (comm.h) go by way of host memory; not said of
                                     devices that work inline, where they are the host's */
};
BP_API uint32_t bp_device_emulated(struct bp_device *device);

/* Why a call may wait although its name does not say so: the whole list. X(NAME, text). */
#define BP_BLOCKS(X) \
    X(EXTENTS, "an operator whose extents depend on data") \
    X(HOST_VALUE, "a value that the host needs lies on a device") \
    X(MEMORY, "memory is exhausted, and work that holds some is waited for") \
    X(INLINE_WAIT, "an inline stream waits for another stream") \
    X(STREAM_WAIT, "a stream waits for another, which the device cannot do by itself") \
    X(COPY, "a copy by way of the host, between devices or of many short pieces") \
    X(QUEUE_FULL, "a stream's queue is full") \
    X(EVENT_QUERY, "a query of an event on a device without events") \
    X(WRITE, "a write of more than a queue sets aside, behind other work")

enum bp_block {
#define X(NAME, text) BP_BLOCK_##NAME,
    BP_BLOCKS(X)
#undef X
    BP_BLOCK_COUNT,
};

/* How often a call on the device has waited so, for a reason (enum bp_block). With BP_BLOCK=deny
 * each such call fails with BP_ERR_BLOCKED instead, and has done nothing: neither written to memory
 * nor given a part of its work to the stream. (bp_graph_run has then run the nodes before the one
 * that it names.) */
BP_API uint64_t bp_device_blocked(struct bp_device *device, uint32_t reason);

/* How many copies to the device came from another one by their plugin, without a wait and without
 * host memory between (bp_tensor_copy). 0 for no device. */
BP_API uint64_t bp_device_peer_copies(struct bp_device *device);

/* What the core has of the device's memory, in bytes but for counts. Memory is taken from the
 * driver in chunks and kept for the next who asks. At every moment
 *
 *     reserved = allocated + rounding + pending + free */
struct bp_memory_stats { /* answer: set size before the call */
    size_t size;
    uint64_t reserved;       /* taken from the driver */
    uint64_t allocated;      /* asked for by tensors and workspaces that live */
    uint64_t rounding;       /* more than that: what they take beyond what they asked for */
    uint64_t pending;        /* given back, but work that may use it is not known to have ended */
    uint64_t free;           /* given back, for the next who asks: on a stream, or anywhere */
    uint64_t largest_free;   /* the largest piece of that */
    uint64_t peak;           /* of allocated: the sum of the pools' own peaks, and so exact where
                                one pool at a time is busy, else no less than it was */
    uint64_t peak_reserved;
    uint64_t limit;          /* of reserved and plans: BP_MEM_LIMIT, or 0 */
    uint64_t live;           /* allocations that live */
    uint64_t allocations;    /* made since the device was opened. They came from: */
    uint64_t hits;           /* the stream's own memory, without more ado */
    uint64_t from_common;    /* memory of the device that no stream had */
    uint64_t from_others;    /* another stream's, which was surely done with it */
    uint64_t from_chunks;    /* a new chunk */
    uint64_t after_poll;     /* memory whose work turned out to have ended; at the end: */
    uint64_t after_release;  /* a chunk, after free ones had gone back to the driver */
    uint64_t after_pressure; /* what caches gave up */
    uint64_t stolen;         /* another stream's, behind a wait for it on the device */
    uint64_t after_wait;     /* what the host waited for: BP_BLOCK_MEMORY */
    uint64_t failures;       /* not made: out of memory */
    uint64_t chunks, chunks_ever; /* now; since the device was opened */
    uint64_t device_total, device_free; /* as the driver says; 0: unknown */
    uint64_t captured;       /* part of allocated: what recorded work holds, in use or not */
    uint64_t plans;          /* besides: what plans of calls keep, such as weights in the order in
                                which a library wants them */
};
BP_API enum bp_status bp_device_memory(struct bp_device *device, struct bp_memory_stats *out);

/* The same for one pool: the memory of a stream, or of none, in one space. Memory that a stream
 * borrowed counts where it came from. */
struct bp_pool_stats { /* answer: set size before the call */
    size_t size;
    uint64_t reserved, allocated, rounding, pending, free, largest_free;
    uint64_t peak; /* of allocated, exact */
    uint64_t live, allocations;
    uint32_t stream; /* bp_stream_number; 0: memory of no stream */
    uint32_t space;  /* enum bp_space */
    uint64_t captured;
};
/* How many pools there are: it only grows. */
BP_API uint32_t bp_device_pools(struct bp_device *device);
BP_API enum bp_status bp_device_pool(struct bp_device *device, uint32_t index,
                                     struct bp_pool_stats *out);

/* Gives memory that nobody uses back to the driver: chunks that are free as a whole, and whose work
 * is known to have ended or found to. Waits for no work, but the driver may. */
BP_API enum bp_status bp_device_trim(struct bp_device *device);

/* The kernel rows of the device's plugin, for reports and conformance. */
struct bp_kernel_info { /* answer: set size before the call */
    size_t size;
    const char *op, *name;
    uint64_t types[4];
    uint32_t flags;     /* enum bp_kernel_flags */
    int32_t priority;
    const char *reason; /* why this machine cannot run it, or "" */
};
BP_API uint32_t bp_device_kernels(struct bp_device *device);
BP_API enum bp_status bp_device_kernel(struct bp_device *device, uint32_t index,
                                       struct bp_kernel_info *out);

#ifdef __cplusplus
}
#endif

#endif
