/* SPDX-License-Identifier: Apache-2.0 */
/* op.h: describes an operator as data: ports, type variables, attributes. The operators are defined
 * in the schema.def files of sdk/ops.
 *
 * An operator is identified by its name. Numbers of operators are internal to the core.
 *
 * An operator's attributes are one struct: size, then fields of 8 bytes or multiples of 8, so that
 * the struct has no padding. The struct grows at the end, and an appended field has default zero,
 * which means the operator's former behaviour: a reader of a struct that is longer than the one it
 * knows checks that the tail is zero bytes. The core refuses a tail that is not zero
 * (BP_ERR_UNSUPPORTED); a kernel row that does not know a non-zero tail is no candidate for the
 * call. */
#ifndef BP_OP_H
#define BP_OP_H

#include <backplane/status.h>
#include <backplane/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* How many tensors a declared input or output has, and how the output gets its memory. */
enum bp_port_kind {
    BP_PORT_IN = 0,      /* one tensor */
    BP_PORT_OPT = 1,     /* one tensor or none */
    BP_PORT_VAR = 2,     /* any number of tensors */
    BP_PORT_HOST = 3,    /* one tensor or none, of integers (of floats for an F64 attribute):
                            supplies the attribute that has the port's name */
    BP_PORT_OUT = 8,     /* one tensor */
    BP_PORT_OPTOUT = 9,  /* one tensor if the caller wants it */
    BP_PORT_VIEW = 10,   /* one tensor, a view of the memory of input share: no kernel runs */
    BP_PORT_UPDATE = 11, /* one tensor: input share, which the operator overwrites */
    BP_PORT_VAROUT = 12, /* any number of tensors: inference determines how many */
    BP_PORT_VIEWS = 13,  /* any number of tensors that view the memory of input share */
};

/* Type variables: all ports of one variable have the same dtype. */
enum bp_type_var {
    BP_VAR_T = 0,
    BP_VAR_U = 1,
    BP_VAR_I = 2,
    BP_VAR_R = 3,
    BP_VAR_COUNT = 4,
};

struct bp_port {
    const char *name;
    uint8_t kind;  /* enum bp_port_kind */
    uint8_t var;   /* enum bp_type_var */
    int8_t share;  /* of an output: index of the input whose memory it may share (of any number of
                      tensors: any one of them), views or updates; or -1 */
    uint8_t shape_only; /* of an input: 1: the operator reads its shape and dtype only. Kernels must
                           not read its elements; the view may have no data */
    const char *doc;
};

enum bp_attr_kind {
    BP_ATTR_I64 = 0,   /* int64_t */
    BP_ATTR_F64 = 1,   /* double */
    BP_ATTR_FLAG = 2,  /* int64_t, 0 or 1 */
    BP_ATTR_DTYPE = 3, /* int64_t, enum bp_dtype */
    BP_ATTR_INTS = 4,  /* int64_t[count] */
    BP_ATTR_DIMS = 5,  /* struct bp_dims */
};

/* Any number of integers: axes, extents. The core copies the integers that it keeps. */
struct bp_dims {
    const int64_t *at; /* n of them; NULL if n is 0 */
    int64_t n;
};

enum bp_attr_when {
    BP_ATTR_KEY = 0, /* part of a call's signature: inference and prepare may read it */
    BP_ATTR_RUN = 1, /* read at launch only; a change of its value needs no new plan */
};

struct bp_attr {
    const char *name;
    uint8_t kind;    /* enum bp_attr_kind */
    uint8_t when;    /* enum bp_attr_when */
    uint16_t offset; /* of the field in the attribute struct, in bytes */
    uint16_t count;  /* number of integers of BP_ATTR_INTS; else 1 */
    uint16_t zero;   /* 0 */
    double value;    /* the default value, of each element */
    const char *doc;
};

/* Further properties of an operator. */
enum bp_op_flags {
    BP_OP_BOUND = 1,  /* extents of the outputs depend on data: known when it has run */
    BP_OP_RANDOM = 2, /* draws random numbers */
    BP_OP_EXPAND = 4, /* is defined in other operators: if the device has no kernel for it, it runs
                         as those */
    BP_OP_VIEW = 8,   /* makes a view: it needs no kernel */
    BP_OP_GRADIENT = 16, /* of an operator that a plugin defines: it has a gradient, by a rule or by
                            its definition in other operators */
};

/* One operator. The struct is constant data; a later version may append fields. */
struct bp_opinfo {
    const char *name;
    const char *alias;              /* its other names, separated by a space, or NULL */
    const char *doc;
    const struct bp_port *in, *out; /* arrays of n_in and n_out ports */
    const struct bp_attr *attr;     /* array of n_attr attributes */
    const void *defaults;           /* the attribute struct with its default values, or NULL */
    uint16_t n_in, n_out, n_attr;
    uint16_t attrs_size;            /* size of the attribute struct; 0 if there are no attributes */
    uint64_t types[BP_VAR_COUNT];   /* dtypes for which the operator is defined, by variable */
    uint32_t flags;                 /* enum bp_op_flags */
    uint32_t bound_axis;            /* with BP_OP_BOUND: the axis whose inferred extent is an upper
                                       bound */
};

#ifdef __cplusplus
}
#endif

#endif
