/* SPDX-License-Identifier: Apache-2.0 */
/* xpu.h: what the files of the xpu plugin share: the instance, its devices, streams, kernels.
 *
 * A device of OpenCL 1.2 or later is a device here. Memory is a buffer object: bp_memory.handle is
 * a cl_mem, addresses are byte offsets in it (BP_DEVICE_HANDLES). A stream is an in-order queue.
 * Each device has a context of its own: buffers and events of one serve no other. */
#ifndef XPU_H
#define XPU_H

#include "opencl.h"
#include <backplane/kernel.h>
#include <backplane/runtime.h>
#include <dialect/portable.h>
#include <pthread.h>
#include <stdbool.h>

enum {
    XPU_FAULTS = 64,  /* launches that may be told apart by their fault words */
    XPU_UNSTARTED = 16, /* launches that a driver may gather before it is told to start */
    XPU_RESULTS = 64, /* true extents that one launch may write */
    XPU_LANES = 256,  /* of a team, if the device and the kernel can have so many */
    XPU_LANES_FEWEST = 64,
};

/* What the arguments of a kernel are: those that are the same in the next launch need not be set
 * again. */
struct xpu_setting {
    bool is_whole;     /* all of them were set */
    uint64_t released; /* buffers, by then: a later one may have the handle of one that is gone */
    unsigned char *args;
    int64_t count, run;
    cl_mem memory[PORTABLE_OPERANDS];
    cl_ulong at[PORTABLE_OPERANDS];
};

/* An entry of a portable kernel. Arguments are state of the object: set and enqueued under lock. */
struct xpu_kernel {
    cl_kernel kernel;
    size_t lanes;                 /* of a team, for which it was compiled */
    pthread_mutex_t lock;
    struct xpu_setting set;
};

/* The entries of a family for one type, compiled when one is first needed. */
struct xpu_program {
    pthread_mutex_t lock;
    _Atomic(struct xpu_kernel *) kernel; /* one for each entry; NULL: not compiled yet */
};

struct xpu_stream {
    struct xpu_device *device;
    struct xpu_stream *next;      /* of the device, under its lock */
    uint64_t number;              /* which no other stream of the device has had */
    cl_command_queue queue;
    pthread_mutex_t lock;
    cl_mem faults, results;       /* made when first needed */
    const char *name[XPU_FAULTS]; /* of the kernels that were given the fault words */
    _Atomic uint32_t given;       /* launches */
    uint64_t launched, checked;   /* those with a fault word; those of them that went well */
};

struct xpu_event {
    cl_event event; /* NULL: recorded never */
    struct xpu_device *device;
    uint64_t stream;              /* number of its stream, which may be gone */
    uint64_t launched;            /* of the stream, when it was recorded */
    uint32_t fault[XPU_FAULTS];   /* its fault words then, if there were any */
};

struct xpu_device {
    struct xpu *self;
    cl_platform_id platform;
    cl_device_id id;
    cl_context context;
    uint32_t number;
    size_t lanes;                 /* of a team, at most */
    uint32_t units;               /* that run teams side by side */
    double launch_work;           /* of one launch, in additions, about; 0: any */
    size_t parameters;            /* bytes that the arguments of a kernel may take */
    bool has_f64;                 /* else its dtypes are those that need none */
    bool is_processor;            /* a team is one lane, which makes runs of independent elements */
    bool has_blocks;              /* teams share memory that is fast: portable_has_blocks */
    bool has_host_memory;         /* device and host have one memory: what is mapped stays so */
    char options[192];            /* to compile for it */
    struct xpu_stream *common;    /* the stream NULL */
    pthread_mutex_t lock;
    struct xpu_stream *streams;   /* all of them */
    uint64_t n_stream;            /* made so far */
    struct xpu_program program[PORTABLE_FAMILIES][PORTABLE_TYPES_COUNT];
};

/* An instance. Constant after create, but for the count. */
struct xpu {
    const struct bp_host *host;
    const struct xpu_calls *call;
    struct xpu_device *device;
    uint32_t n_device;
    _Atomic uint64_t released;    /* buffers, so far */
};

/* device.c: finds the devices that BP_XPU_DEVICES admits; the callbacks. */
enum bp_status xpu_devices_init(struct xpu *self);
void xpu_devices_finish(struct xpu *self);
enum bp_status xpu_device_count(void *self, uint32_t *out_count);
enum bp_status xpu_device_properties(void *self, uint32_t device,
                                     struct bp_device_properties *out);

/* Whether the driver has the extension for it. */
bool xpu_device_extends(const struct xpu_device *device, const char *extension);

/* memory.c */
enum bp_status xpu_memory_allocate(void *self, uint32_t device, uint32_t space, uint64_t size,
                                   struct bp_memory *out);
void xpu_memory_free(void *self, uint32_t device, uint32_t space, const struct bp_memory *memory);
/* Gives a buffer back, if it is one. */
void xpu_buffer_release(struct xpu *self, cl_mem buffer);
enum bp_status xpu_copy_in(void *self, uint32_t device, void *stream, const struct bp_copy *copy);
enum bp_status xpu_copy_out(void *self, uint32_t device, void *stream, const struct bp_copy *copy);
enum bp_status xpu_copy_within(void *self, uint32_t device, void *stream,
                               const struct bp_copy *copy);

/* stream.c */
enum bp_status xpu_stream_create(void *self, uint32_t device, void **out_stream);
void xpu_stream_destroy(void *self, uint32_t device, void *stream);
enum bp_status xpu_synchronize(void *self, uint32_t device, void *stream);
enum bp_status xpu_stream_wait(void *self, uint32_t device, void *stream, void *event);
/* The plugin's stream behind what the core names. */
struct xpu_stream *xpu_stream_of(struct xpu *self, uint32_t device, void *stream);

/* event.c */
enum bp_status xpu_event_create(void *self, uint32_t device, void **out_event);
void xpu_event_destroy(void *self, uint32_t device, void *event);
enum bp_status xpu_event_record(void *self, uint32_t device, void *stream, void *event);
enum bp_status xpu_event_query(void *self, uint32_t device, void *event);
enum bp_status xpu_event_wait(void *self, uint32_t device, void *event, uint64_t timeout_ns);

/* fault.c: words that kernels write where values in their inputs are wrong. A launch takes the next
 * of the stream's words; they are read when somebody waits. */

/* The buffer and the offset of the word for a launch of row. */
enum bp_status xpu_fault_take(struct xpu_stream *stream, const struct bp_kernel *row,
                              struct portable_operand *out);
/* Has the words copied to word[XPU_FAULTS], in the stream's order, if launches were given any since
 * they were last found good; *out_launched is for xpu_fault_check. */
enum bp_status xpu_fault_read(struct xpu_stream *stream, uint32_t *word, uint64_t *out_launched);
/* When the copy is there: BP_ERR_FAULT names the kernel; the words are cleared. */
enum bp_status xpu_fault_check(struct xpu_stream *stream, const uint32_t *word, uint64_t launched);

/* program.c: the kernel of an entry, compiled at first. */
enum bp_status xpu_kernel_get(struct xpu_device *device, enum portable_family family,
                              enum portable_type type, int entry, struct xpu_kernel **out);
void xpu_programs_init(struct xpu_device *device);
void xpu_programs_finish(struct xpu_device *device);

/* key.c: what a program that is compiled with these options depends on. */
struct xpu_source;
struct xpu_key {
    uint32_t size;
    char text[1536]; /* the longest: 6 times 142, options, two hashes, a UUID */
};
struct xpu_key xpu_cache_key(const struct xpu_device *device, const struct xpu_source *source,
                             const char *options);

/* FNV-1a, 64 bits (http://www.isthe.com/chongo/tech/comp/fnv/), of size bytes more. */
#define XPU_HASH_BEGIN UINT64_C(14695981039346656037)
uint64_t xpu_hash(uint64_t hash, const void *data, size_t size);

/* cache.c: compiled programs on disk, by what they were compiled from, for which device and driver.
 * A folder that is full, read-only or holds junk costs the compilation only. */
/* The program's binary, in memory of malloc; NULL: not there. */
unsigned char *xpu_cache_read(const struct xpu_key *key, size_t *out_size);
void xpu_cache_write(const struct xpu_key *key, const unsigned char *binary, size_t size);
void xpu_cache_remove(const struct xpu_key *key);
/* Who is to compile a program that is not there: of several processes, and devices, one; the others
 * wait (a minute at most) and then find it. A turn, for xpu_cache_end; -1: there is no cache, or it
 * took too long. */
int xpu_cache_begin(const struct xpu_key *key);
void xpu_cache_end(const struct xpu_key *key, int turn);

/* Says what a call of OpenCL answered; xpu_work_fail: one that tells how work has ended. */
enum bp_status xpu_fail(const struct xpu *self, uint32_t device, const char *call, cl_int code);
enum bp_status xpu_work_fail(const struct xpu *self, uint32_t device, const char *call,
                             cl_int code);

#endif
