/* SPDX-License-Identifier: Apache-2.0 */
/* kernel.h: defines interface 2 of a plugin: kernels, and the structs by which kernels see tensors
 * and attributes.
 *
 * A kernel is a row: the name of an operator, the dtypes that the kernel accepts, and a function.
 * The meaning of an operator, its ports and its attributes are in its schema.def (read
 * docs/ops.md); the attribute structs are in backplane/attrs.h. Support is a look-up in these rows:
 * a device runs the operators for which it has rows, and a row that does not suit a configuration
 * reports that in accepts or prepare.
 *
 * Before the core launches a row, it has checked shapes, dtypes, attributes, presence and overlap,
 * and has inferred the outputs: kernels check nothing. Index values in data are not checked in
 * advance: a kernel that finds a bad index writes launch->fault, or a word of the plugin's own if
 * launch->fault is NULL, and continues without trapping. */
#ifndef BP_KERNEL_H
#define BP_KERNEL_H

#include <backplane/op.h>
#include <backplane/rule.h>
#include <backplane/status.h>
#include <backplane/types.h>

#ifdef __cplusplus
extern "C" {
#endif

enum bp_view_flags {
    BP_VIEW_STRIDED = 1,  /* not contiguous in row-major order */
    BP_VIEW_CONSTANT = 2, /* frozen: the contents will not change */
};

/* A tensor as a kernel sees it, 48 bytes. Strides count elements, are always set and never
 * negative; stride 0 repeats an element. Axis 0 is the outermost. A view of rank 0 has one element;
 * count may be 0, and data is then NULL. An input may be empty while an output is not: the sum of
 * no elements is 0. */
struct bp_view { /* hot */
    void *data;  /* first element: an address, or the byte offset in memory on BP_DEVICE_HANDLES */
    void *memory;                  /* the plugin's handle of the allocation */
    const int64_t *shape, *stride; /* rank each */
    int64_t count;                 /* elements */
    uint8_t dtype, rank, flags, space;
    uint16_t layout;               /* 0: the strides describe the whole layout; otherwise the number
                                      of one of the plugin's layouts, from 1: struct bp_layout */
    uint16_t device;
};

struct bp_kernel;

/* One launch. Every pointer is valid during the call only: a kernel that defers its work must copy
 * the data that it needs. Inputs and outputs are in declared order, variadic groups flat, absent
 * tensors NULL.
 *
 * An output that updates an input (BP_PORT_UPDATE) is that input: two equal views of the same
 * memory, with the same data, dtype, shape and strides. This also holds if the core has moved the
 * tensor to other memory or converted it to another dtype for the launch: that copy contains the
 * tensor's contents, and the core writes it back after the launch. Elements that the kernel does
 * not write keep their values. Other outputs have undefined contents, and do not share memory with
 * an input unless the row has BP_KERNEL_IN_PLACE. */
struct bp_launch { /* hot */
    void *self;
    const struct bp_kernel *kernel; /* the row, as registered */
    void *plan;                     /* the plan that prepare made, or NULL */
    const struct bp_view *const *in, *const *out;
    const uint16_t *in_at, *out_at; /* index of the first tensor of each declared port; one more
                                       entry than ports */
    uint32_t n_in, n_out;
    const void
        *attrs;      /* the operator's attribute struct, all fields current; NULL if it has none */
    void *workspace; /* memory of the size and alignment that the plan requested; NULL if it
                        requested none. On BP_DEVICE_HANDLES the byte offset in workspace_memory,
                        which may be 0: workspace_size shows whether there is a workspace */
    void *workspace_memory;         /* the handle of the workspace, as bp_view.memory */
    size_t workspace_size;
    void *stream; /* the plugin's stream, as in runtime.h: never NULL if the plugin has
                     stream_create */
    uint32_t device;
    uint32_t width;                 /* threads that this launch may use; 1: the calling thread
                                       only */
    uint32_t *fault; /* on BP_DEVICE_INLINE, a word of the host: if values in the inputs are wrong,
                        the kernel writes a code that is not 0 and continues; the call then fails
                        with BP_ERR_FAULT. NULL on all other devices: there the kernel writes to a
                        word in the plugin's own memory, which the plugin reads when the work is
                        waited for; BP_ERR_FAULT is then a failure of work, as runtime.h
                        describes */
    uint64_t tag;                   /* the stream's number for this launch */
    int64_t *result; /* for BP_OP_BOUND, else NULL: one entry for each output, in host memory, also
                        on BP_DEVICE_HANDLES. It must hold the true extent of the bound axis when
                        the stream has been synchronised, which the core does immediately after the
                        launch: if the device computes the extent, the plugin copies it here by
                        then. Not written if the launch fails */
    uint64_t seed, offset; /* for BP_OP_RANDOM: Philox4x32-10 with this key; element i uses word i %
                              4 of block offset + i / 4 */
    const uint64_t *rng; /* address of seed and of a base that is added to offset, in memory of the
                            device that the kernel reads when it runs; NULL: use seed and offset.
                            Not NULL only in recorded launches of rows with BP_KERNEL_RNG: before
                            each replay the core writes other numbers there */
};

/* Algorithms that an app may allow for its programs, beside those that keep operators' rules. */
enum bp_allow {
    BP_ALLOW_WINOGRAD = 1, /* convolutions by Winograd's algorithm: fewer multiplications, but
                              roundings are coarser, and a NaN, an infinity or a very large number
                              in an image changes results whose windows do not contain it */
    BP_ALLOW_FAST_MATH = 2 /* any other roundings than those of the operators' rules, in another
                              order in each run too; NaN, infinities and denormal numbers need not
                              be kept */
};

/* One configuration, as prepare and accepts see it before any launch. Views have no data unless
 * BP_VIEW_CONSTANT is set. The compiler first calls prepare or accepts before it has converted a
 * constant to the layout in which a row takes it: the view has neither data nor BP_VIEW_CONSTANT
 * then. Later it calls prepare again with both. */
struct bp_prep { /* parameters */
    size_t size;
    const struct bp_kernel *kernel;
    const struct bp_view *const *in, *const *out;
    const uint16_t *in_at, *out_at;
    uint32_t n_in, n_out;
    const void *attrs; /* only KEY attributes may be read: see op.h */
    uint32_t device;
    uint32_t width;    /* the most threads that a launch of the plan gets */

    /* For each input that is constant (BP_VIEW_CONSTANT): a number that identifies this memory with
     * these contents, unique in this process for ever; for other inputs 0. Plans that keep the same
     * rearrangement of one constant can share it, by this number and the address. NULL: the numbers
     * are not known. */
    const uint64_t *constant;

    uint32_t allow; /* enum bp_allow: what the app allows; 0 for calls outside programs */
};

/* The result of prepare. plan does not change once it is made: several threads may launch it at the
 * same time; data that launches change lies in the workspace. */
struct bp_plan { /* output struct */
    size_t size;
    void *plan;
    uint64_t workspace;           /* bytes of device memory that each launch needs */
    uint64_t workspace_alignment; /* a power of two; 0: the device's alignment */
    uint64_t bytes; /* bytes of memory that the plan keeps, as far as known: a cache counts them */
    uint64_t unread; /* bit i: no launch reads the contents of input i, a constant of which the plan
                        keeps a copy in another layout. The core may then free the contents; the
                        address stays valid, and host->constant_read brings them back for a prepare
                        that reads them */
};

enum bp_kernel_flags {
    BP_KERNEL_STRIDED = 1,       /* takes any strides; without it, all views are contiguous: the
                                    core copies others, by the device's row of assign if that takes
                                    them, else by copy_within or through host memory. An input that
                                    is broadcast still has its own shape */
    BP_KERNEL_DETERMINISTIC = 2, /* equal inputs give bitwise equal results, at any width */
    BP_KERNEL_IN_PLACE = 4, /* an output may be the input that the operator lets it share; not
                               needed for an output that updates an input, because that output
                               always is the input */
    BP_KERNEL_NO_CAPTURE = 8, /* launches must not be recorded (capture.h): they wait, allocate
                                 memory, or read something anew each time, which a replay would not
                                 do */
    BP_KERNEL_SAME_SHAPE = 16, /* of elementwise operators, does not broadcast: all inputs have the
                                  shape of the output. The core expands other inputs: by strides of
                                  0 with BP_KERNEL_STRIDED, else by copies. No effect on operators
                                  whose inputs do not all broadcast to the output. A plugin that
                                  uses the flag sets needs_minor to 5 or more: older cores do not
                                  know it */
    BP_KERNEL_RNG = 32, /* of operators with BP_OP_RANDOM, uses launch->rng if that is not NULL.
                           Launches of random rows without the flag are not recorded */
};

/* A kernel row. Of the rows that fit a call, the core uses the one of highest priority whose
 * accepts or prepare returns BP_OK; among equal priorities the first. BP_OPROW(op) of attrs.h sets
 * op, attrs_size, in_known and out_known. */
struct bp_kernel { /* rows */
    const char *op;       /* the operator's own name, not an alias */
    const char *name;     /* unique in the plugin: "cpu_softmax_f32_avx512"; letters, digits and
                             '_', '.', '-', 63 at most */
    uint64_t types[4];    /* mask of dtypes for each type variable T U I R; 0: the operator lacks it
                             A row with a dtype that the operator lacks (except i32 for indices that
                             it returns as i64: the core converts them), or without a dtype for one
                             of its variables, is not used: bp_kernel_info.reason says why */
    uint32_t flags;       /* enum bp_kernel_flags */
    int32_t priority;     /* 0: portable; 100: hand-tuned or a library */
    uint32_t attrs_size;  /* size of the attribute struct that the row knows; 0 if the operator has
                             none */
    uint16_t in_known, out_known; /* numbers of declared ports that the row knows */

    /* Runs the kernel, or enqueues it to launch->stream. It takes no lock of its own that another
     * launch can hold for long, and allocates no memory. */
    enum bp_status (*launch)(const struct bp_launch *launch);

    /* Returns whether the row accepts a configuration: BP_OK, or BP_ERR_UNSUPPORTED without a
     * message. NULL: the row accepts all that types and flags admit. Not called if prepare is
     * set. */
    enum bp_status (*accepts)(void *self, const struct bp_prep *prep);

    /* Makes a plan for a configuration. BP_ERR_UNSUPPORTED without a message: the core tries the
     * next row. NULL: the row needs no plan. */
    enum bp_status (*prepare)(void *self, const struct bp_prep *prep, struct bp_plan *out);
    void (*plan_destroy)(void *self, const struct bp_kernel *kernel, void *plan);

    /* The layout in which the row takes and writes the tensors of each declared port, in_known and
     * out_known entries: 0: strides; otherwise the number of one of the plugin's layouts, from 1.
     * NULL: all strides. Only compiled programs use a row with layouts. Rows of assign whose two
     * layouts differ convert tensors. A plugin with such a row sets needs_minor to 10 or more:
     * older cores call the row with tensors in strides. ABI 0.10 */
    const uint16_t *in_layout, *out_layout;
};

/* A layout of the plugin that strides do not describe, for example blocks of channels, with
 * padding. Compiled programs keep intermediate results in it between rows that take it, and convert
 * constants once; inputs and outputs of programs, tensors that nodes update, and views are always
 * in strides. Each layout needs rows of assign from strides and to strides. The view of a tensor in
 * a layout has the tensor's own shape and count; its strides are those of a contiguous tensor and
 * mean nothing. The kernel that writes the tensor writes its padding too, if another kernel reads
 * that. */
struct bp_layout { /* rows */
    const char *name; /* unique in the plugin; letters, digits and '_', '.', '-', 63 at most */

    /* The bytes of a tensor of this type, from its first byte on; the memory is aligned as that of
     * other tensors. A type always has the same result. BP_ERR_UNSUPPORTED, without a message:
     * tensors of this type are not kept in the layout. */
    enum bp_status (*bytes)(void *self, uint32_t device, const struct bp_view *type,
                            uint64_t *out_bytes);
};

/* The dtype and shape of one output of a plugin's own operator. */
struct bp_inferred {
    uint32_t dtype; /* the core has set it if an input binds the port's type variable */
    uint32_t rank;  /* at most 8 axes */
    int64_t extent[8];
};

/* An operator of the plugin itself: apps call it by name, models name it as DOMAIN.NAME, and kernel
 * rows name it like any other operator. Its attribute struct is size, followed by a field for each
 * attribute without gaps (op.h); its rows set attrs_size, in_known and out_known themselves. Its
 * gradient and its decomposition are in bp_kernels.rule (rule.h).
 *
 * info.name is a domain, a dot and a name of letters, digits and '_'; it may contain more dots.
 * Inputs are BP_PORT_IN, BP_PORT_OPT or, last, BP_PORT_VAR; outputs are BP_PORT_OUT, BP_PORT_OPTOUT
 * or, last, BP_PORT_VAROUT (with a rule `count`); flags are 0. The struct, and all that it points
 * to, is constant data. If two plugins define an operator of one name, ports, types and attributes
 * must be the same; the core uses the inference and the rules of the first one. */
struct bp_operator { /* rows */
    /* Fills the types of the n_out outputs, in declared order. Pure: prep has inputs, without data,
     * and attributes; kernel and out are NULL. BP_ERR_INVALID, without a message: these inputs do
     * not fit together. infer NULL: all outputs have the shape of the first input. */
    enum bp_status (*infer)(const struct bp_prep *prep, struct bp_inferred *out, uint32_t n_out);
    struct bp_opinfo info;
};

struct bp_kernels { /* table */
    size_t size;
    const struct bp_kernel *first;
    size_t count, stride; /* stride: sizeof(struct bp_kernel) of the plugin's headers */

    /* Returns whether this machine can run the row at all (it may lack an ISA level or a library);
     * the core calls it once for each row after create. BP_OK, or BP_ERR_UNSUPPORTED with a message
     * that names the missing feature. NULL: every row can run. */
    enum bp_status (*usable)(void *self, const struct bp_kernel *kernel);

    /* The plugin's own operators. op_stride: sizeof(struct bp_operator) of the plugin's headers. */
    const struct bp_operator *op;
    size_t op_count, op_stride;

    /* The rules of the plugin's own operators. rule_stride: sizeof(struct bp_op_rules) of the
     * plugin's headers. */
    const struct bp_op_rules *rule;
    size_t rule_count, rule_stride;

    /* The plugin's layouts, which rows name by their numbers, from 1. layout_stride: sizeof(struct
     * bp_layout) of the plugin's headers. ABI 0.10 */
    const struct bp_layout *layout;
    size_t layout_count, layout_stride;
};

#ifdef __cplusplus
}
#endif

#endif
