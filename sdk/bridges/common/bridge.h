/* SPDX-License-Identifier: Apache-2.0 */
/* bridge.h: declares the parts that bridges to other frameworks share: device memory that a
 * framework knows by addresses, tensors over such memory, element types and classes of failures. A
 * bridge is an app: it uses the app API only. */
#ifndef BRIDGE_H
#define BRIDGE_H

#include <backplane/backplane.h>

#include <stdbool.h>

/* memory.c: the memory of one device, by addresses. A framework computes addresses inside an
 * allocation (first byte plus offset) and passes them to kernels; the bridge finds the buffer
 * again. On a device whose memory has handles, or no DLPack type, an allocation gets a range of
 * addresses that the process reserves and that holds no memory: an access by the host faults at
 * once. On a device that reads host memory by its address, every host
 * address is found, allocated here or not. Any thread may call these functions. */
struct bridge_memory;

struct bridge_place {
    struct bp_buffer *buffer; /* no reference */
    uint64_t offset;          /* of the address in the buffer, in bytes */
    bool is_allocated;        /* bridge_memory_allocate has made it; else it is the host's */
};

enum bp_status bridge_memory_create(struct bp_device *device, struct bridge_memory **out_memory);
/* Destroys the object; allocations that were not freed are freed. */
void bridge_memory_destroy(struct bridge_memory *memory);

struct bp_device *bridge_memory_device(struct bridge_memory *memory);
/* Whether the device reads and writes host memory by its address. */
bool bridge_memory_is_host(struct bridge_memory *memory);

/* Allocates memory for work of a stream (NULL: none; bp_buffer_create). An allocation of 0 bytes
 * has an address too. */
enum bp_status bridge_memory_allocate(struct bridge_memory *memory, struct bp_stream *stream,
                                      uint64_t size, void **out_address);
/* Frees an allocation by its first address; NULL does nothing. Never waits. */
void bridge_memory_free(struct bridge_memory *memory, void *address);

/* Finds the place of size bytes from an address on. BP_ERR_NOT_FOUND, without a message: no
 * allocation contains them. */
enum bp_status bridge_memory_find(struct bridge_memory *memory, const void *address, uint64_t size,
                                  struct bridge_place *out_place);

/* The bytes that are allocated now, and their maximum so far. */
struct bridge_usage {
    uint64_t bytes, peak, allocations;
};
struct bridge_usage bridge_memory_usage(struct bridge_memory *memory);

/* wrap.c: tensors over memory, for one thread at a time. A tensor is kept for each type that was
 * used lately and is moved to the memory of the next call (bp_tensor_rebind), because creating a
 * tensor costs more than a small operator. */
enum {
    BRIDGE_WRAPS = 64
};

struct bridge_wrap {
    struct bp_tensor *tensor; /* NULL: the entry is free */
    bool holds;               /* an allocation, until the tensor is moved or destroyed */
    uint64_t hash;
    uint64_t round;           /* of its last use; in use if it is the current one */
    uint32_t dtype, rank;
    int64_t shape[BP_RANK_MAX];
};

struct bridge_wraps {
    struct bridge_memory *memory;
    struct bridge_wrap *entry; /* BRIDGE_WRAPS, or more if one round uses more */
    uint32_t n_entry;
    uint64_t round;
};

enum bp_status bridge_wraps_init(struct bridge_wraps *wraps, struct bridge_memory *memory);
void bridge_wraps_finish(struct bridge_wraps *wraps);

/* Begins a round: tensors of earlier rounds may be used again for other memory. Work that was
 * submitted keeps its memory. */
void bridge_wraps_begin(struct bridge_wraps *wraps);
/* Ends a round: destroys its tensors over allocations, which would otherwise stay allocated after
 * they were freed, until the tensors are moved. Tensors over other memory of the host stay. */
void bridge_wraps_end(struct bridge_wraps *wraps);

/* Returns a tensor in row-major order whose first element is at an address; it belongs to the
 * wraps and is valid in this round. An empty tensor may have any address. BP_ERR_NOT_FOUND: as
 * bridge_memory_find. BP_ERR_INVALID: the address is no multiple of the element's size. */
enum bp_status bridge_wrap(struct bridge_wraps *wraps, const void *address, uint32_t dtype,
                           uint32_t rank, const int64_t *shape, struct bp_tensor **out_tensor);

/* types.c: element types by the numbers that ONNX's TensorProto gives them. UINT32_MAX, or 0: there
 * is no such type on the other side. */
uint32_t bridge_dtype_of_onnx(int64_t number);
int32_t bridge_dtype_to_onnx(uint32_t dtype);

/* types.c: what a framework has to do about a failure, by status. */
enum bridge_fault {
    BRIDGE_FAULT_NONE,
    BRIDGE_FAULT_ARGUMENT,    /* the call is wrong */
    BRIDGE_FAULT_MISSING,     /* a file, device or operator does not exist */
    BRIDGE_FAULT_UNSUPPORTED, /* the call is right, and the device or the library lacks something */
    BRIDGE_FAULT_MEMORY,      /* out of memory */
    BRIDGE_FAULT_DEVICE,      /* the device, its driver or its plugin has failed */
    BRIDGE_FAULT_OTHER,
};
enum bridge_fault bridge_fault_of(enum bp_status status);

/* types.c: the failure of a bridge's own allocation, with a message. */
enum bp_status bridge_no_memory(void);

#endif
