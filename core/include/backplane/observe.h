/* SPDX-License-Identifier: Apache-2.0 */
/* observe.h: what an app can see of calls, waits, memory and kernels: counts, reports, a
 * watcher. */
#ifndef BP_OBSERVE_H
#define BP_OBSERVE_H

#include <backplane/call.h>

#ifdef __cplusplus
extern "C" {
#endif

/* How a call runs for which the device has no kernel, in the order in which ways are tried. Each is
 * a step that is counted, with its bytes and its time. X(NAME, number, word, text). */
#define BP_FALLBACKS(X) \
    X(LAYOUT, 1, layout, "strided tensors are copied, for a kernel that takes dense ones") \
    X(DECOMPOSE, 2, decompose, "the operator runs as those that it is defined in") \
    X(DTYPE, 3, dtype, "half types are converted to f32 and back") \
    X(DEVICE, 4, device, "another device runs it, by way of copies")

enum bp_fallback_kind {
    BP_FALLBACK_NONE = 0,
#define X(NAME, number, word, text) BP_FALLBACK_##NAME = number,
    BP_FALLBACKS(X)
#undef X
    BP_FALLBACK_COUNT,
};

/* What ran so on a device since it was opened, by operator and kind. BP_FALLBACK=allow|warn|deny:
 * warn, as without it, logs the first time that an operator changes its dtype or device; deny makes
 * these two errors (BP_ERR_NO_KERNEL, with the reason of each kernel row). */
struct bp_fallback_info { /* answer: set size before the call */
    size_t size;
    const char *op;
    uint64_t calls, bytes, nanoseconds; /* bytes: written by these steps. Time: of the host */
    uint32_t kind;                      /* enum bp_fallback_kind */
    uint32_t zero;                      /* 0 */
};
BP_API uint32_t bp_device_fallbacks(struct bp_device *device);
BP_API enum bp_status bp_device_fallback(struct bp_device *device, uint32_t index,
                                         struct bp_fallback_info *out);

/* An operator call that runs on a stream, as its watcher sees it: twice, before it runs (out is
 * NULL) and, unless it fails, when it has been given to the stream. What it points to is valid
 * until the watcher returns. */
struct bp_watched { /* answer; size is set */
    size_t size;
    const struct bp_opinfo *op;
    const void *attrs;            /* the operator's attribute struct in full length, with values of
                                     inputs that the host reads (BP_PORT_HOST); NULL: it has none */
    struct bp_tensor *const *in;  /* flat in declared order; NULL where absent, or read by the
                                     host */
    struct bp_tensor *const *out; /* the results, flat; NULL where not wanted */
    uint32_t n_in, n_out;
};
typedef void bp_watcher(void *ctx, const struct bp_watched *call);

/* Has watcher(ctx, call) called for each operator call on stream, by name or typed, on the thread
 * that calls; NULL: for none any more. Calls that an operator is made of are not seen, nor are
 * prepared ones and programs, nor what the watcher itself calls. Calls are slower while somebody
 * watches. Not while another thread uses the stream. */
BP_API enum bp_status bp_stream_watch(struct bp_stream *stream, bp_watcher *watcher, void *ctx);

/* The eager calls that a stream remembers, so that one with the same operator, dtypes, shapes and
 * KEY attributes is not prepared again. */
struct bp_call_stats { /* answer: set size before the call */
    size_t size;
    uint64_t hits, misses; /* calls that were found, or had to be looked for further */
    uint64_t entries;      /* remembered now, at most 4,096 */
    uint64_t evicted;      /* forgotten for others: those not used for longest, about */
    uint64_t prepared;     /* by all streams of the device: calls that were checked and prepared */
};
BP_API enum bp_status bp_stream_calls(struct bp_stream *stream, struct bp_call_stats *out);

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
BP_API uint64_t bp_device_blocked(struct bp_device *device, enum bp_block reason);

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
