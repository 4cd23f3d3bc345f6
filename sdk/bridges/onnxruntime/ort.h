/* SPDX-License-Identifier: Apache-2.0 */
/* ort.h: declares the execution provider inside its library: the functions of ONNX Runtime that it
 * calls, the devices that it offers, and the sub-graphs that it has compiled. */
#ifndef ORT_BRIDGE_H
#define ORT_BRIDGE_H

#include <backplane/model.h>
#include <bridge.h>
#include <pthread.h>

#include "abi.h"

#define ORT_NAME "BackplaneExecutionProvider"
/* The prefix of the provider's options among those of a session. */
#define ORT_PREFIX "ep.backplaneexecutionprovider."

#define TRY(expression) \
    do { \
        struct ort_status *try_status = (expression); \
        if (try_status) return try_status; \
    } while (0)

/* status.c: the functions of slots.def; those that this version of ONNX Runtime lacks are NULL. */
struct ort_calls {
#define ORT(slot, since, result, name, arguments) result(*name) arguments;
#define EP(slot, since, result, name, arguments) result(*name) arguments;
#define EDIT(slot, since, result, name, arguments) result(*name) arguments;
#include "slots.def"
#undef ORT
#undef EP
#undef EDIT
};
extern struct ort_calls ort;

/* Fills `ort`. Returns the minor version of ONNX Runtime; 0: it is too old, or no 1.x. */
uint32_t ort_calls_init(const struct ort_base *base);

/* status.c: statuses of ONNX Runtime, with the message of the failed call of Backplane, or an own
 * one. */
struct ort_status *ort_failure(enum bp_status status);
struct ort_status *ort_error(int32_t code, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
struct ort_status *ort_no_memory(void);
/* Releases a status that does not matter. */
void ort_forget(struct ort_status *status);
void ort_log(const struct ort_logger *logger, int32_t severity, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

enum {
    ORT_DEVICES = 8,       /* that ONNX Runtime takes of a factory */
    ORT_VENDOR = 0xB4C7,   /* of our memory; no vendor of PCI has the number */
    ORT_WEIGHT_MIN = 1024, /* bytes of an initializer whose memory is used in place */
};

/* A device that the factory offers. Its number is that of its memory in ONNX Runtime. */
struct ort_offer {
    char name[64]; /* "xpu:0" */
    struct bp_device *device;
    struct bridge_memory *memory;
    struct bp_device_properties properties;
    const struct ort_hardware *hardware; /* on which ONNX Runtime lists it, or NULL */
    struct ort_memory_info *info; /* of its memory; NULL: it uses host memory */
    struct bp_stream *stream;     /* for copies outside of streams; lock guards it */
    pthread_mutex_t lock;
};

struct ort_factory {
    struct ort_ep_factory base; /* first */
    struct ort_transfer transfer;
    struct bp_core *core;
    const struct ort_logger *logger;
    struct ort_offer offer[ORT_DEVICES];
    uint32_t n_offer;
    bool is_open;  /* the devices have been looked for */
    uint32_t peer; /* minor version of ONNX Runtime */
};
/* The factory of a process: there is one at a time. */
extern struct ort_factory ort_factory;

/* The options of a session for the provider. */
struct ort_options {
    char fallback[8];        /* allow or deny */
    char device[64];         /* in place of the device that the session names, or "" */
    char precision[12];      /* exact or winograd */
    char cache[1024];        /* the folder of compiled programs, or "" */
    bool tune;               /* the compiler measures kernels */
    bool context_enable;     /* write a model of compiled nodes */
    bool context_embed;      /* with their contents inside */
    char context_path[1024]; /* the file of that model, or "" */
};

/* A provider of one session. */
struct ort_provider {
    struct ort_ep base; /* first */
    struct ort_offer *offer;
    const struct ort_logger *logger;
    struct ort_options options;
    uint32_t fallback; /* enum bp_core_fallback: of threads that compile and run its sub-graphs */
    uint32_t n_unit; /* compiled so far: names of contexts */
};

/* factory.c: objects that use the devices count themselves, because ONNX Runtime may unregister the
 * library before it releases them. */
void ort_factory_use(void);
void ort_factory_unuse(void);

/* options.c. */
struct ort_status *ort_options_read(const struct ort_session_options *from,
                                    struct ort_options *out);

/* memory.c: allocators and copies of devices that have memory of their own. */
struct ort_status *ort_allocator_create(struct ort_ep_factory *self,
                                        const struct ort_memory_info *info,
                                        const struct ort_pairs *options,
                                        struct ort_allocator **out);
void ort_allocator_release(struct ort_ep_factory *self, struct ort_allocator *allocator);
struct ort_status *ort_transfer_get(struct ort_ep_factory *self, struct ort_transfer **out);
/* The offer whose memory this is; NULL: none. */
struct ort_offer *ort_offer_of(const struct ort_memory_device *device);

/* stream.c. */
struct ort_status *ort_stream_create(struct ort_ep_factory *self,
                                     const struct ort_memory_device *device,
                                     const struct ort_pairs *options,
                                     struct ort_stream_impl **out);
/* The handle of a stream of ONNX Runtime; NULL if the stream is none of ours, or NULL. */
void *ort_stream_handle(const struct ort_sync_stream *stream);
/* Returns the stream behind a handle, for work of a run. ort_stream_end gets the status of that
 * work, and returns it. */
enum bp_status ort_stream_begin(void *handle, struct bp_stream **out);
struct ort_status *ort_stream_end(void *handle, struct ort_status *status);

/* proto.c: writes messages of protobuf. A failed allocation is remembered, and the buffer is then
 * empty. */
struct ort_proto {
    uint8_t *at;
    size_t n, room;
    bool failed;
};
void ort_proto_number(struct ort_proto *p, uint32_t field, int64_t value);
void ort_proto_float(struct ort_proto *p, uint32_t field, float value);
void ort_proto_bytes(struct ort_proto *p, uint32_t field, const void *data, size_t size);
void ort_proto_text(struct ort_proto *p, uint32_t field, const char *text);
/* Adds a message, and frees it. */
void ort_proto_message(struct ort_proto *p, uint32_t field, struct ort_proto *message);
void ort_proto_finish(struct ort_proto *p);

/* write.c: writes a graph of ONNX Runtime as a model in ONNX's format. */
enum ort_write_flags {
    ORT_WRITE_TYPES = 1, /* the types of all values, and no data of initializers */
    ORT_WRITE_ALL = 2,   /* the data of all initializers */
};
/* An initializer whose data is not in the model. */
struct ort_weight {
    char *name;
    const struct ort_value *value;
    const void *data;
    uint32_t dtype, rank;
    int64_t shape[BP_RANK_MAX];
    uint64_t bytes;
    char *file; /* that has the data from `offset` on; NULL: none */
    uint64_t offset;
    uint32_t input; /* of the fused node, whose value it is in a run; UINT32_MAX: none */
};
struct ort_writing {
    uint32_t flags;
    const struct ort_graph *graph; /* while it is written */
    struct ort_proto model;
    struct ort_weight *weight; /* without ORT_WRITE_TYPES: those of ORT_WEIGHT_MIN bytes or more */
    size_t n_weight;
};
struct ort_status *ort_write_graph(struct ort_writing *w, const struct ort_graph *graph);
/* Writes a model of one node of the graph, without ports. */
struct ort_status *ort_write_alone(struct ort_writing *w, const struct ort_graph *graph,
                                   const struct ort_node *node);
void ort_writing_finish(struct ort_writing *w);

/* weight.c: a tensor of a weight, and the file of an initializer that has one. */
enum bp_status ort_weight_make(struct ort_offer *offer, const struct ort_weight *w,
                               struct bp_tensor **out);
struct ort_status *ort_weight_find_file(const struct ort_graph *graph,
                                        const struct ort_value_info *info, struct ort_weight *w);

/* claim.c: chooses the nodes of a graph that the provider runs. */
struct ort_status *ort_claim(struct ort_provider *ep, const struct ort_graph *graph,
                             struct ort_support *support);

/* A compiled sub-graph. */
struct ort_unit {
    struct ort_compute base; /* first */
    struct ort_provider *ep;
    struct bp_model *model;
    struct ort_writing text;  /* the model's bytes and its weights, until the first run */
    bool is_checked;          /* the weights are where they were at the load; lock guards it */
    pthread_mutex_t lock;     /* of idle */
    struct ort_runner *idle;
    uint32_t n_in, n_out;
    char cache[2048];         /* the folder of its compiled programs, or "" */
    uint32_t *from;           /* for each input of the model: that of the fused node */
};

/* unit.c. */
struct ort_status *ort_unit_create(struct ort_provider *ep, const struct ort_graph *graph,
                                   const struct ort_node *fused, struct ort_unit **out);
void ort_unit_destroy(struct ort_unit *unit);
/* Checks in the first run that the weights lie where they lay at the load; loads the model again if
 * they do not. */
struct ort_status *ort_unit_check(struct ort_unit *unit, struct ort_context *context);

/* context_read.c and context.c: EPContext nodes. ort_context_is_ours returns whether a node is one
 * of this provider.
 * ort_context_read takes the model out of a graph of one such node, and the folder of its programs;
 * out stays empty for another graph. ort_context_write makes the node of a unit, and
 * ort_context_cache returns the folder in which the unit keeps its programs for it. */
struct ort_status *ort_context_is_ours(const struct ort_node *node, bool *out);
struct ort_status *ort_context_read(const struct ort_provider *ep, const struct ort_graph *graph,
                                    struct ort_proto *out, char *out_cache, size_t cache_size);
struct ort_status *ort_context_write(struct ort_unit *unit, const struct ort_graph *graph,
                                     const struct ort_node *fused, struct ort_node **out);
struct ort_status *ort_context_cache(const struct ort_provider *ep, const struct ort_graph *graph,
                                     char *out, size_t size);

/* run.c: one run of a unit at a time. */
struct ort_runner;
struct ort_status *ort_unit_run(struct ort_unit *unit, struct ort_context *context);
void ort_runner_destroy(struct ort_runner *runner);
struct ort_runner *ort_runner_next(const struct ort_runner *runner); /* in a list of idle ones */

#endif
