/* SPDX-License-Identifier: Apache-2.0 */
/* abi.h: declares the binary interface between ONNX Runtime and execution providers that are
 * libraries of their own, as far as the bridge uses it. Names are ours; slots, orders of members
 * and numbers are facts of the interface, from version 1.23 on. ONNX Runtime reads the members of a
 * struct that existed in the version that the struct states. */
#ifndef ORT_ABI_H
#define ORT_ABI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Objects of ONNX Runtime. */
struct ort_attr;
struct ort_context;       /* of a kernel: its inputs and outputs in one run */
struct ort_ep_device;
struct ort_external;      /* where the file of an initializer has the data */
struct ort_graph;
struct ort_hardware;
struct ort_logger;
struct ort_memory_device;
struct ort_memory_info;
struct ort_node;
struct ort_node_context;
struct ort_pairs;         /* of keys and values */
struct ort_run_options;
struct ort_session_options;
struct ort_status;
struct ort_support;       /* what a provider claims of a graph */
struct ort_sync_stream;
struct ort_tensor_type;
struct ort_type;
struct ort_value;
struct ort_value_info;

enum {
    ORT_SINCE = 23, /* the version that our structs state, and the oldest that is supported */
    ORT_PARENT = 24,   /* names the node that a sub-graph belongs to */
    ORT_IMPLICIT = 27, /* passes to a fused node the values that only its sub-graphs use */
    ORT_KNOWN = 32, /* the newest version that was tested */
};

enum ort_code {
    ORT_FAIL = 1,
    ORT_INVALID_ARGUMENT = 2,
    ORT_NO_SUCH_FILE = 3,
    ORT_RUNTIME_EXCEPTION = 6,
    ORT_NOT_IMPLEMENTED = 9,
    ORT_EP_FAIL = 11,
    ORT_NOT_FOUND = 14,
};

enum ort_severity {
    ORT_INFO = 1,
    ORT_WARNING = 2,
    ORT_ERROR = 3,
};

enum ort_attr_kind {
    ORT_ATTR_INT = 1,
    ORT_ATTR_INTS = 2,
    ORT_ATTR_FLOAT = 3,
    ORT_ATTR_FLOATS = 4,
    ORT_ATTR_STRING = 5,
    ORT_ATTR_STRINGS = 6,
    ORT_ATTR_GRAPH = 7,
    ORT_ATTR_TENSOR = 8,
};

enum {
    ORT_TYPE_TENSOR = 1,  /* of ONNXType */
    ORT_HARDWARE_CPU = 0, /* of OrtHardwareDeviceType */
    ORT_HARDWARE_GPU = 1,
    ORT_MEMORY_GPU = 1,   /* of OrtMemoryInfoDeviceType; 0: host memory */
    ORT_MEMORY_DEFAULT = 0,
    ORT_ALLOCATOR_DEVICE = 0,
};

/* The argument of the library's entry. */
struct ort_base {
    const void *(*table)(uint32_t version); /* NULL: the version is newer than ONNX Runtime */
    const char *(*version)(void);           /* "1.32.0" */
};

/* Structs that a provider fills. `version` is first in each. */

struct ort_fusion_options {
    uint32_t version;
    bool drop_constant_initializers;
};

struct ort_compute {
    uint32_t version;
    struct ort_status *(*create)(struct ort_compute *self, struct ort_node_context *context,
                                 void **out_state);
    struct ort_status *(*run)(struct ort_compute *self, void *state, struct ort_context *context);
    void (*release)(struct ort_compute *self, void *state);
};

struct ort_allocator {
    uint32_t version;
    void *(*alloc)(struct ort_allocator *self, size_t size);
    void (*free)(struct ort_allocator *self, void *memory);
    const struct ort_memory_info *(*info)(const struct ort_allocator *self);
    void *(*reserve)(struct ort_allocator *self, size_t size);
    struct ort_status *(*stats)(const struct ort_allocator *self, struct ort_pairs **out);
    void *(*alloc_on_stream)(struct ort_allocator *self, size_t size,
                             struct ort_sync_stream *stream);
};

struct ort_transfer {
    uint32_t version;
    void (*release)(struct ort_transfer *self);
    bool (*can_copy)(const struct ort_transfer *self, const struct ort_memory_device *src,
                     const struct ort_memory_device *dst);
    struct ort_status *(*copy)(struct ort_transfer *self, const struct ort_value **src,
                               struct ort_value **dst, struct ort_sync_stream **stream, size_t n);
};

struct ort_notification {
    uint32_t version;
    void (*release)(struct ort_notification *self);
    struct ort_status *(*activate)(struct ort_notification *self);
    struct ort_status *(*wait_on_device)(struct ort_notification *self,
                                         struct ort_sync_stream *consumer);
    struct ort_status *(*wait_on_host)(struct ort_notification *self);
};

struct ort_stream_impl {
    uint32_t version;
    void (*release)(struct ort_stream_impl *self);
    void *(*handle)(struct ort_stream_impl *self);
    struct ort_status *(*notification)(struct ort_stream_impl *self, struct ort_notification **out);
    struct ort_status *(*flush)(struct ort_stream_impl *self);
    struct ort_status *(*run_end)(struct ort_stream_impl *self);
};

struct ort_ep {
    uint32_t version;
    const char *(*name)(const struct ort_ep *self);
    struct ort_status *(*capability)(struct ort_ep *self, const struct ort_graph *graph,
                                     struct ort_support *support);
    struct ort_status *(*compile)(struct ort_ep *self, const struct ort_graph **graph,
                                  const struct ort_node **fused, size_t n,
                                  struct ort_compute **out_compute, struct ort_node **out_context);
    void (*release_compute)(struct ort_ep *self, struct ort_compute **compute, size_t n);
    struct ort_status *(*layout)(struct ort_ep *self, int32_t *out);
    struct ort_status *(*convert_layout)(struct ort_ep *self, const char *domain,
                                         const char *operator, int32_t layout, int32_t *out);
    struct ort_status *(*dynamic_options)(struct ort_ep *self, const char *const *key,
                                          const char *const *value, size_t n);
    struct ort_status *(*run_start)(struct ort_ep *self, const struct ort_run_options *options);
    struct ort_status *(*run_end)(struct ort_ep *self, const struct ort_run_options *options,
                                  bool synchronize);
    struct ort_status *(*allocator)(struct ort_ep *self, const struct ort_memory_info *info,
                                    struct ort_allocator **out);
    struct ort_status *(*stream)(struct ort_ep *self, const struct ort_memory_device *device,
                                 struct ort_stream_impl **out);
    const char *(*compatibility)(struct ort_ep *self, const struct ort_graph *graph);
};

struct ort_ep_factory {
    uint32_t version;
    const char *(*name)(const struct ort_ep_factory *self);
    const char *(*vendor)(const struct ort_ep_factory *self);
    struct ort_status *(*devices)(struct ort_ep_factory *self,
                                  const struct ort_hardware *const *hardware, size_t n,
                                  struct ort_ep_device **out, size_t room, size_t *out_n);
    struct ort_status *(*create)(struct ort_ep_factory *self,
                                 const struct ort_hardware *const *hardware,
                                 const struct ort_pairs *const *facts, size_t n,
                                 const struct ort_session_options *options,
                                 const struct ort_logger *logger, struct ort_ep **out);
    void (*release)(struct ort_ep_factory *self, struct ort_ep *ep);
    uint32_t (*vendor_id)(const struct ort_ep_factory *self);
    const char *(*version_text)(const struct ort_ep_factory *self);
    struct ort_status *(*validate)(struct ort_ep_factory *self,
                                   const struct ort_hardware *const *hardware, size_t n,
                                   const char *compatibility, int32_t *out);
    struct ort_status *(*allocator)(struct ort_ep_factory *self,
                                    const struct ort_memory_info *info,
                                    const struct ort_pairs *options, struct ort_allocator **out);
    void (*release_allocator)(struct ort_ep_factory *self, struct ort_allocator *allocator);
    struct ort_status *(*transfer)(struct ort_ep_factory *self, struct ort_transfer **out);
    bool (*is_stream_aware)(const struct ort_ep_factory *self);
    struct ort_status *(*stream)(struct ort_ep_factory *self,
                                 const struct ort_memory_device *device,
                                 const struct ort_pairs *options, struct ort_stream_impl **out);
};

#endif
