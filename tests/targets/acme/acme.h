/* SPDX-License-Identifier: Apache-2.0 */
/* acme.h: declares what the files of an example share: a plugin for the devices of a made-up
 * vendor, Acme. docs/new-target.md explains the files in order. Read next: library.c. */
#ifndef ACME_H
#define ACME_H

#include <backplane/attrs.h>
#include <backplane/kernel.h>
#include <backplane/plugin.h>
#include <backplane/runtime.h>
#include <kit/call.h>
#include <kit/context.h>
#include <kit/library.h>
#include <kit/rows.h>
#include <kit/stream.h>

/* Numbers of Acme's header. */
enum {
    ACME_NOT_READY = 600,
    ACME_TO_DEVICE = 1, /* kinds of copies */
    ACME_TO_HOST = 2,
    ACME_WITHIN = 3,
    ACME_ALIGNMENT = 64,
    ACME_AXES = 8
};

/* Acme's description of a tensor, which its operators take by address. */
struct acme_tensor {
    void *data;
    int32_t dtype, rank;
    int64_t shape[ACME_AXES], stride[ACME_AXES];
};

/* The functions of the library: calls.def. */
struct acme_calls {
#define CALL(result, name, parameters) result(*name) parameters;
#define OPERATOR(name) void *name;
#include "calls.def"
};

struct acme_device {
    struct acme *acme;
    struct kit_report report; /* its number is the device's */
    struct kit_streams streams;
};

/* An instance of the plugin: self of all callbacks. */
struct acme {
    const struct bp_host *host;
    const struct acme_calls *call;
    uint32_t n_device;
    struct acme_device *device;
};

struct acme_stream {
    struct kit_stream kit; /* must be first */
    struct acme_device *device;
    void *raw;
    uint32_t *words; /* KIT_FAULTS fault words in pinned memory, which operators write */
};

/* library.c */
enum bp_status acme_open(const struct bp_host *host, const struct acme_calls **out);
void *acme_function(const struct acme *acme, const char *name); /* of an operator, or NULL */
enum bp_status acme_check(const struct acme_device *device, const char *function, int code);
void acme_note(const struct acme_device *device, const char *function, int code);
#define ACME_CALL(device, name, ...) \
    acme_check(device, #name, (device)->acme->call->name(__VA_ARGS__))
#define ACME_NOTE(device, name, ...) \
    acme_note(device, #name, (device)->acme->call->name(__VA_ARGS__))

/* device.c: makes a device current in the calling thread until `caller` restores the thread's own
 * device. */
enum bp_status acme_use(void *self, uint32_t index, struct kit_context *caller,
                        struct acme_device **out);

extern const struct bp_kernels acme_kernels; /* rows.c */

/* The callbacks of runtime.h: acme_device_count and so on. */
#define ACME_CALLBACKS(X) \
    X(device_count) \
    X(device_properties) X(memory_allocate) X(memory_free) X(memory_info) X(copy_in) X(copy_out) \
        X(copy_within) X(synchronize) X(stream_create) X(stream_destroy) X(stream_wait) \
            X(event_create) X(event_destroy) X(event_record) X(event_query) X(event_wait)
#define X(name) __typeof__(*((struct bp_runtime *)0)->name) acme_##name;
ACME_CALLBACKS(X)
#undef X

#endif
