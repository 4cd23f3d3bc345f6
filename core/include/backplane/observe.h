/* SPDX-License-Identifier: Apache-2.0 */
/* observe.h: lets an app observe its calls, waits, memory and kernels, by counts, reports and a
 * watcher function. */
#ifndef BP_OBSERVE_H
#define BP_OBSERVE_H

#include <backplane/call.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The ways to run a call for which the device has no kernel. Each use is one step, which is counted
 * together with its bytes and its time. The core tries them in the order INDEX, LAYOUT, DECOMPOSE,
 * DTYPE, DEVICE; a COPY is a step that another way needs, or the operator assign itself. Inputs
 * that are broadcast, for a kernel that does not broadcast, count as strided tensors. X(NAME,
 * number, word, text). */
#define BP_FALLBACKS(X) \
    X(LAYOUT, 1, layout, "strided tensors are copied, for a kernel that takes dense ones") \
    X(DECOMPOSE, 2, decompose, "the operator runs as those that it is defined in") \
    X(DTYPE, 3, dtype, "half types are converted to f32 and back") \
    X(DEVICE, 4, device, "another device runs it, by way of copies") \
    X(COPY, 5, copy, "the library copies strided tensors, as assign has no kernel for them") \
    X(INDEX, 6, index, "indices of 64 bits are converted to 32 bits, or back")

enum bp_fallback_kind {
    BP_FALLBACK_NONE = 0,
#define X(NAME, number, word, text) BP_FALLBACK_##NAME = number,
    BP_FALLBACKS(X)
#undef X
    BP_FALLBACK_COUNT,
};

/* One kind of fallback of one operator: how often it ran on a device since the device was opened.
 * BP_FALLBACK=allow|warn|deny: warn, the default, logs the first use of DTYPE, DEVICE, COPY and
 * INDEX for each operator, and why; deny makes DTYPE and DEVICE errors (BP_ERR_NO_KERNEL, with the
 * reason of each kernel row). The other kinds give exactly the result that a kernel would. Where
 * COPY and INDEX go through host memory, they wait for the stream: see BP_BLOCK_COPY. */
struct bp_fallback_info { /* output struct: set size before the call */
    size_t size;
    const char *op;
    uint64_t calls, bytes, nanoseconds; /* bytes: written by these steps. Time: on the host */
    uint32_t kind;                      /* enum bp_fallback_kind */
    uint32_t zero;                      /* 0 */
    const char *where; /* the name of the device that runs these steps */
    const char *why;   /* why no kernel of the device runs the operator's first such call, with the
                          reason of each kernel row. Both texts live as long as the device */
};
BP_API uint32_t bp_device_fallbacks(struct bp_device *device);
BP_API enum bp_status bp_device_fallback(struct bp_device *device, uint32_t index,
                                         struct bp_fallback_info *out);

/* An operator call that runs on a stream, as its watcher sees it. The watcher is called twice:
 * before the call runs (out is NULL) and, unless the call fails, after it has been submitted to the
 * stream. Pointers are valid until the watcher returns. */
struct bp_watched { /* output struct; the library sets size */
    size_t size;
    const struct bp_opinfo *op;
    const void *attrs;            /* the operator's attribute struct in full length, including the
                                     values of inputs that the host reads (BP_PORT_HOST); NULL: the
                                     operator has none */
    struct bp_tensor *const *in;  /* inputs, flat in declared order; NULL if absent, or if the host
                                     reads the input */
    struct bp_tensor *const *out; /* the results, flat; NULL if the caller does not want one */
    uint32_t n_in, n_out;
};
typedef void bp_watcher(void *ctx, const struct bp_watched *call);

/* Calls watcher(ctx, call) for each operator call on stream, by name or typed, on the calling
 * thread; watcher NULL: stops this. The watcher does not see calls of which an operator is
 * composed, prepared calls, programs, or calls that the watcher itself makes. Calls are slower
 * while a watcher is set. No other thread may use the stream during this function. */
BP_API enum bp_status bp_stream_watch(struct bp_stream *stream, bp_watcher *watcher, void *ctx);

/* Counts of the eager calls that a stream caches, so that a call with the same operator, dtypes,
 * shapes and KEY attributes is not prepared again. */
struct bp_call_stats { /* output struct: set size before the call */
    size_t size;
    uint64_t hits, misses; /* calls that the stream's cache had, and calls that had to be searched
                              for further */
    uint64_t entries;      /* calls in the cache now, at most 4,096 */
    uint64_t evicted;      /* calls removed to make room for others: approximately the least
                              recently used ones */
    uint64_t prepared;     /* calls that were checked and prepared, by all streams of the device */
};
BP_API enum bp_status bp_stream_calls(struct bp_stream *stream, struct bp_call_stats *out);

/* The reasons why a call may wait although its name does not state it: this list is complete.
 * X(NAME, text). */
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

/* Returns how often calls on the device have waited for a reason (enum bp_block) of this list. With
 * BP_BLOCK=deny each such call fails with BP_ERR_BLOCKED instead and has no effect: it has neither
 * written to memory nor submitted a part of its work to the stream. (bp_graph_run has then run the
 * nodes before the one that it names.) */
BP_API uint64_t bp_device_blocked(struct bp_device *device, enum bp_block reason);

/* Returns how many copies to the device came from another device by a copy of their plugin, without
 * a wait and without host memory in between (bp_tensor_copy). 0 for no device. */
BP_API uint64_t bp_device_peer_copies(struct bp_device *device);

/* The memory of the device that the core holds, in bytes except for counts. The core takes memory
 * from the driver in segments and keeps freed memory for later allocations. At every moment
 *
 *     reserved = allocated + rounding + pending + free */
struct bp_memory_stats { /* output struct: set size before the call */
    size_t size;
    uint64_t reserved;       /* taken from the driver */
    uint64_t allocated;      /* requested by tensors and workspaces that live */
    uint64_t rounding;       /* bytes that these allocations occupy beyond their request */
    uint64_t pending;        /* freed by its owner, but work that may use it is not known to have
                                ended */
    uint64_t free;           /* freed and available for the next allocation: of one stream, or of
                                any stream */
    uint64_t largest_free;   /* the largest block of free */
    uint64_t peak;           /* peak of allocated, computed as the sum of the peaks of all pools: an
                                upper bound, which is exact if only one pool is active at a time */
    uint64_t peak_reserved;  /* peak of reserved */
    uint64_t limit;          /* limit of reserved plus plans: BP_MEM_LIMIT, or 0 for no limit */
    uint64_t live;           /* number of allocations that live */
    uint64_t allocations;    /* number of allocations since the device was opened. Their memory came
                                from: */
    uint64_t hits;           /* free memory of the stream itself, at the first attempt */
    uint64_t from_common;    /* memory of the device that belonged to no stream */
    uint64_t from_others;    /* memory of another stream, whose work with it was known to have
                                ended */
    uint64_t from_segments;    /* a new segment from the driver */
    uint64_t after_poll;     /* memory whose work was found to have ended when the device was
                                polled. As last resorts: */
    uint64_t after_release;  /* a new segment, after free segments were returned to the driver */
    uint64_t after_pressure; /* memory that caches released */
    uint64_t stolen;         /* memory of another stream, with a wait for that stream on the
                                device */
    uint64_t after_wait;     /* memory for whose work the host waited: BP_BLOCK_MEMORY */
    uint64_t failures;       /* allocations that failed: out of memory */
    uint64_t segments, segments_ever; /* segments now; segments ever taken since the device was
                                     opened */
    uint64_t device_total, device_free; /* as the driver reports; 0: unknown */
    uint64_t captured;       /* part of allocated: memory that recorded work holds, in use or not */
    uint64_t plans;          /* not part of reserved: memory that plans of calls keep, such as
                                weights in the order that a library requires */
};
BP_API enum bp_status bp_device_memory(struct bp_device *device, struct bp_memory_stats *out);

/* Like bp_memory_stats, for one pool: the memory in one space that belongs to one stream, or to no
 * stream. Memory that a stream borrowed counts in the pool from which it was borrowed. */
struct bp_pool_stats { /* output struct: set size before the call */
    size_t size;
    uint64_t reserved, allocated, rounding, pending, free, largest_free;
    uint64_t peak; /* peak of allocated, exact */
    uint64_t live, allocations;
    uint32_t stream; /* bp_stream_number of the stream; 0: memory of no stream */
    uint32_t space;  /* enum bp_space */
    uint64_t captured;
};
/* The number of pools of the device: it never decreases. */
BP_API uint32_t bp_device_pools(struct bp_device *device);
BP_API enum bp_status bp_device_pool(struct bp_device *device, uint32_t index,
                                     struct bp_pool_stats *out);

/* Describes one kernel row of the device's plugin or of an add-on, for reports and tests. */
struct bp_kernel_info { /* output struct: set size before the call */
    size_t size;
    const char *op, *name;
    uint64_t types[4];
    uint32_t flags;     /* enum bp_kernel_flags */
    int32_t priority;
    const char *reason; /* why this machine, or a call, cannot run the row, or "" */
    const char *plugin; /* the name of the plugin or add-on that brought the row */
    const char *layouts; /* of a row that only programs run, as reason says, because it takes or
                            writes tensors in layouts of the plugin: their names by declared port,
                            "blocks, - -> blocks"; of other rows "" */
};
BP_API uint32_t bp_device_kernels(struct bp_device *device);
BP_API enum bp_status bp_device_kernel(struct bp_device *device, uint32_t index,
                                       struct bp_kernel_info *out);

#ifdef __cplusplus
}
#endif

#endif
