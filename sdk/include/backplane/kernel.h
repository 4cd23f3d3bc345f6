/* SPDX-License-Identifier: Apache-2.0 */
/* kernel.h: interface 2 of a plugin: kernels, and what they see of tensors and attributes.
 *
 * A kernel is a row: the name of an operator, the dtypes that it takes, and a function. What an
 * operator means, its ports and its attributes, is in its schema.def (read docs/ops.md); the
 * attribute structs are in backplane/attrs.h. Support is a look-up in these rows: a device runs
 * what it has rows for, and a row that a configuration does not suit says so in accepts or prepare.
 *
 * The core has checked shapes, dtypes, attributes, presence and overlap before it launches a row,
 * and has inferred the outputs: kernels check nothing. Index values in data are not checked in
 * front: a kernel that finds a bad one writes launch->fault, or a word of the plugin's own where
 * that is NULL, and goes on without trapping. */
#ifndef BP_KERNEL_H
#define BP_KERNEL_H

#include <backplane/op.h>
#include <backplane/status.h>
#include <backplane/types.h>

#ifdef __cplusplus
extern "C" {
#endif

enum bp_view_flags {
    BP_VIEW_STRIDED = 1,  /* not contiguous in row-major order */
    BP_VIEW_CONSTANT = 2, /* frozen: the contents will not change */
};

/* What a kernel sees of a tensor, 48 bytes. Strides count elements, are always filled and never
 * negative; 0 repeats. Axis 0 is the outermost. rank 0 is one element; count may be 0, data then
 * NULL. An input may be empty where an output is not: the sum of nothing is 0. */
struct bp_view { /* hot */
    void *data;  /* first element: an address, or the byte offset in memory on BP_DEVICE_HANDLES */
    void *memory;                  /* the plugin's handle of the allocation */
    const int64_t *shape, *stride; /* rank each */
    int64_t count;                 /* elements */
    uint8_t dtype, rank, flags, space;
    uint16_t layout;               /* 0: strides say all */
    uint16_t device;
};

struct bp_kernel;

/* One launch. Every pointer is valid during the call only: who defers work copies what it needs.
 * Inputs and outputs stand in declared order, variadic groups flat, absent ones NULL.
 *
 * An output that updates an input (BP_PORT_UPDATE) is that input: two equal views of one memory,
 * with the same data, dtype, shape and strides. That is so too where the core has put the tensor
 * into other memory or another dtype for the launch: its contents are there, and go back after it.
 * What a kernel does not write keeps its value. Other outputs have undefined contents, and their
 * memory is no input's unless the row has BP_KERNEL_IN_PLACE. */
struct bp_launch { /* hot */
    void *self;
    const struct bp_kernel *kernel; /* the row, as registered */
    void *plan;                     /* what prepare made, or NULL */
    const struct bp_view *const *in, *const *out;
    const uint16_t *in_at, *out_at; /* where each declared port begins; one more entry than ports */
    uint32_t n_in, n_out;
    const void
        *attrs;      /* the operator's attribute struct, all fields current; NULL if it has none */
    void *workspace; /* as large and as aligned as the plan asked; NULL if it asked for none. On
                        BP_DEVICE_HANDLES the byte offset in workspace_memory, which may be 0: ask
                        workspace_size whether there is one */
    void *workspace_memory;         /* its handle, as bp_view.memory */
    size_t workspace_size;
    void *stream; /* the plugin's own, as in runtime.h: never NULL where there is stream_create */
    uint32_t device;
    uint32_t width;                 /* threads that this launch may use; 1: the calling one only */
    uint32_t *fault; /* a word of the host's, on BP_DEVICE_INLINE: write a code that is not 0 where
                        values in the inputs are wrong, and go on; the call fails with
                        BP_ERR_FAULT. NULL on all other devices: there the kernel writes to a word
                        in memory of the plugin's own, which it looks at when the work is waited
                        for; BP_ERR_FAULT is then a failure of work, as runtime.h says */
    uint64_t tag;                   /* the stream's number for this launch */
    int64_t *result; /* of BP_OP_BOUND: one for each output, in the host's memory, also on
                        BP_DEVICE_HANDLES. The true extent of the bound axis stands there when the
                        stream has been synchronised, which follows at once: what a device computes
                        the plugin copies there by then. Not written to if the launch fails. Else
                        NULL */
    uint64_t seed, offset; /* of BP_OP_RANDOM: Philox4x32-10 with this key; element i takes word
                              i % 4 of block offset + i / 4 */
    const uint64_t *rng; /* where seed and a base that is added to offset lie; NULL: use seed and
                            offset. In this version always NULL */
};

/* One configuration, before any launch. Views have no data unless BP_VIEW_CONSTANT is set. */
struct bp_prep { /* parameters */
    size_t size;
    const struct bp_kernel *kernel;
    const struct bp_view *const *in, *const *out;
    const uint16_t *in_at, *out_at;
    uint32_t n_in, n_out;
    const void *attrs; /* KEY attributes only may be read: see op.h */
    uint32_t device;
    uint32_t width;    /* threads that launches of the plan will get at most */

    /* Of each input that is constant (BP_VIEW_CONSTANT): a number that only this memory, with these
     * contents, ever has in this process; else 0. Plans that keep the same rearrangement of one
     * constant can share it, by this number and the address. NULL: not known. */
    const uint64_t *constant;
};

/* What prepare answers. plan is immutable once made: launches of it may run at once on several
 * threads; what they change lies in the workspace. */
struct bp_plan { /* answer */
    size_t size;
    void *plan;
    uint64_t workspace;           /* bytes of device memory that each launch needs */
    uint64_t workspace_alignment; /* a power of two; 0: the device's */
    uint64_t bytes; /* of memory that the plan keeps, as far as known: what a cache counts */
};

enum bp_kernel_flags {
    BP_KERNEL_STRIDED = 1,       /* takes any strides; without it, all views are contiguous */
    BP_KERNEL_DETERMINISTIC = 2, /* the same inputs give the same bits, at any width */
    BP_KERNEL_IN_PLACE = 4, /* an output may be the input that the operator lets it share; needless
                               for one that updates an input, which always is that input */
    BP_KERNEL_NO_CAPTURE = 8, /* launches are not to be recorded (capture.h): they wait, allocate,
                                 or read something anew each time that a replay would not */
};

/* A row. Of the rows that fit, the one of highest priority whose accepts and prepare agree is
 * taken; among equals the first. BP_OPROW(op) of attrs.h fills op, attrs_size, in_known and
 * out_known. */
struct bp_kernel { /* rows */
    const char *op;       /* operator, its own name, no alias */
    const char *name;     /* unique in the plugin: "cpu_softmax_f32_avx512"; letters, digits and
                             '_', '.', '-', 63 at most */
    uint64_t types[4];    /* mask of dtypes for each type variable T U I R; 0 where there is none. A
                             row with a dtype that the operator does not have, or without any for a
                             variable that it has, is not used: bp_kernel_info.reason says which */
    uint32_t flags;       /* enum bp_kernel_flags */
    int32_t priority;     /* 0: portable; 100: hand-tuned or a library */
    uint32_t attrs_size;  /* of the attribute struct known to the row; 0 if the operator has none */
    uint16_t in_known, out_known; /* declared ports known to the row */

    /* Runs, or enqueues to launch->stream. Takes no lock of its own that another launch can hold
     * long, allocates nothing. */
    enum bp_status (*launch)(const struct bp_launch *launch);

    /* Whether the row takes a configuration: BP_OK, or BP_ERR_UNSUPPORTED without a message. NULL:
     * it takes all that types and flags admit. Not asked where prepare is given. */
    enum bp_status (*accepts)(void *self, const struct bp_prep *prep);

    /* Makes a plan for a configuration. BP_ERR_UNSUPPORTED without a message: the next row is
     * tried. NULL: none is needed. */
    enum bp_status (*prepare)(void *self, const struct bp_prep *prep, struct bp_plan *out);
    void (*plan_destroy)(void *self, const struct bp_kernel *kernel, void *plan);
};

/* What the outputs of a plugin's own operator are. */
struct bp_inferred {
    uint32_t dtype; /* set where an input binds the port's type variable */
    uint32_t rank;  /* of at most 8 axes */
    int64_t extent[8];
};

/* An operator of the plugin's own: apps call it by name, models as DOMAIN.NAME, rows name it as any
 * other. Its attribute struct is size, then a field for each attribute without gaps (op.h); rows
 * say attrs_size, in_known and out_known themselves. It has no gradient.
 *
 * info.name is a domain, a dot and a name of letters, digits and '_'; there may be more dots.
 * Inputs are BP_PORT_IN, BP_PORT_OPT or, last, BP_PORT_VAR; outputs BP_PORT_OUT or BP_PORT_OPTOUT;
 * flags are 0. All of it, and what it points to, is constant data. Where two plugins bring one
 * name, ports, types and attributes have to be the same: the inference of the first is asked. */
struct bp_operator { /* rows */
    /* Fills the types of the n_out outputs, in declared order. Pure: prep has inputs, without data,
     * and attributes; kernel and out are NULL. BP_ERR_INVALID, without a message: these inputs do
     * not go together. NULL: all outputs have the shape of the first input. */
    enum bp_status (*infer)(const struct bp_prep *prep, struct bp_inferred *out, uint32_t n_out);
    struct bp_opinfo info;
};

struct bp_kernels { /* table */
    size_t size;
    const struct bp_kernel *first;
    size_t count, stride; /* stride: sizeof(struct bp_kernel) of the plugin's headers */

    /* Whether this machine can run the row at all (an ISA level, a library that may be missing);
     * asked once for each row after create. BP_OK, or BP_ERR_UNSUPPORTED with a message that says
     * what is missing. NULL: every row. */
    enum bp_status (*usable)(void *self, const struct bp_kernel *kernel);

    /* Operators of its own. op_stride: sizeof(struct bp_operator) of the plugin's headers. */
    const struct bp_operator *op;
    size_t op_count, op_stride;
};

#ifdef __cplusplus
}
#endif

#endif
