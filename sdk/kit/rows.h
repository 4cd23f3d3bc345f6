/* SPDX-License-Identifier: Apache-2.0 */
/* rows.h: describes kernel rows that call a vendor's functions as data: a row names the function
 * and lists its arguments; the plugin's own part turns arguments into the vendor's types and calls
 * the function: docs/kit.md.
 *
 * An operator that needs several calls has a function that adds a step for each call, with tensors
 * between the steps in the workspace of the launch:
 *
 *   static enum bp_status scale_build(struct kit_build *b)
 *   {
 *       struct kit_arg t = kit_temporary_like(b, b->out[0]);
 *
 *       KIT_STEP(b, "Muls", KIT_IN(0), KIT_SCALAR(scale, factor), t);
 *       return KIT_STEP(b, "Adds", t, KIT_SCALAR(scale, offset), KIT_SCALAR_IS(1), KIT_OUT(0));
 *   }
 *
 * The functions that add to a build need no checks: a failure stays in the build, and the last one
 * returns it. */
#ifndef KIT_ROWS_H
#define KIT_ROWS_H

#include <backplane/kernel.h>
#include <backplane/plugin.h>
#include <stdbool.h>
#include <stddef.h>

enum {
    KIT_STEPS = 1 << 18, /* with those that kit_repeat adds */
    KIT_ARGS = 512,
    KIT_TENSORS = 224,
    KIT_AXES_MAX = 8,
    KIT_INTS_MAX = 64,
    KIT_RESULTS = 4
};

/* Where the value of an argument comes from. `at` is the number of a port, of a tensor of the
 * build, or the offset of an attribute. */
enum kit_from {
    KIT_FROM_NONE, /* no tensor: a null pointer */
    KIT_FROM_IN,   /* the first tensor of an input port; a null pointer if it is absent */
    KIT_FROM_OUT,
    KIT_FROM_INS, /* all tensors of an input port; with `size`: so many, from number `i` on */
    KIT_FROM_OUTS,
    KIT_FROM_TENSOR, /* a tensor of the build */
    KIT_FROM_I64,    /* an attribute */
    KIT_FROM_F64,
    KIT_FROM_INTS, /* `size` integers of an attribute */
    KIT_FROM_DIMS,
    KIT_FROM_AXIS,     /* an attribute, an axis of input `size`: counted from the first axis */
    KIT_FROM_AXES,     /* the same for dims; no axes: all of them */
    KIT_FROM_INT,      /* the integer `i` */
    KIT_FROM_NUMBER,   /* the number `f` */
    KIT_FROM_ARRAY,    /* `size` integers of the build */
    KIT_FROM_TEXT,     /* the text `text` */
    KIT_FROM_IN_DTYPE, /* the dtype of an input or output */
    KIT_FROM_OUT_DTYPE,
    KIT_FROM_OWN, /* the plugin's own value number `at` */
};

/* How the function takes it. */
enum kit_as {
    KIT_AS_TENSOR,
    KIT_AS_TENSORS, /* a list */
    KIT_AS_INT,     /* an integer or a bool of any size */
    KIT_AS_F64,
    KIT_AS_F32,
    KIT_AS_SCALAR, /* an object that holds a number */
    KIT_AS_ARRAY,  /* an object that holds integers */
    KIT_AS_BOOLS,  /* an object that holds bools */
    KIT_AS_FLOATS, /* an object that holds integers, as floats */
    KIT_AS_DTYPE,
    KIT_AS_TEXT,
};

/* How the function uses a tensor. kit_step finds out where it is KIT_AUTO: inputs of the call
 * are read, outputs written; a temporary is written by the first step that has it, and read by all
 * others. */
enum kit_role {
    KIT_AUTO,
    KIT_READS,
    KIT_WRITES,
    KIT_UPDATES /* reads and writes */
};

/* One argument. */
struct kit_arg {
    uint8_t from;   /* enum kit_from */
    uint8_t as;     /* enum kit_as */
    uint8_t format; /* of a tensor: the plugin's number; 0: the usual one */
    uint8_t role;   /* of a tensor: enum kit_role */
    uint16_t at, size;
    union {
        int64_t i;
        double f;
        const char *text;
    };
};

/* Arguments for tables and steps: initialisers, of constants alone in tables. KIT_VALUE(KIT_IN(0))
 * is such an argument as an expression. The names of attributes are those of schema.def:
 * KIT_AXES(sum, axes, 0) are the axes of input 0 that the attribute `axes` of sum names. */
#define KIT_ARG(...) \
    { \
        __VA_ARGS__ \
    }
#define KIT_VALUE(...) ((struct kit_arg)__VA_ARGS__)
#define KIT_FIELD(op, attr) .at = offsetof(struct bp_##op##_attrs, attr)
#define KIT_NONE KIT_ARG(.from = KIT_FROM_NONE)
#define KIT_IN(port) KIT_ARG(.from = KIT_FROM_IN, .at = port)
#define KIT_OUT(port) KIT_ARG(.from = KIT_FROM_OUT, .at = port)
#define KIT_UPDATED(port) KIT_ARG(.from = KIT_FROM_OUT, .at = port, .role = KIT_UPDATES)
#define KIT_INS(port) KIT_ARG(.from = KIT_FROM_INS, .as = KIT_AS_TENSORS, .at = port)
#define KIT_OUTS(port) KIT_ARG(.from = KIT_FROM_OUTS, .as = KIT_AS_TENSORS, .at = port)
#define KIT_INT(op, attr) KIT_ARG(.from = KIT_FROM_I64, .as = KIT_AS_INT, KIT_FIELD(op, attr))
#define KIT_DOUBLE(op, attr) KIT_ARG(.from = KIT_FROM_F64, .as = KIT_AS_F64, KIT_FIELD(op, attr))
#define KIT_FLOAT(op, attr) KIT_ARG(.from = KIT_FROM_F64, .as = KIT_AS_F32, KIT_FIELD(op, attr))
#define KIT_SCALAR(op, attr) KIT_ARG(.from = KIT_FROM_F64, .as = KIT_AS_SCALAR, KIT_FIELD(op, attr))
#define KIT_SCALAR_INT(op, attr) \
    KIT_ARG(.from = KIT_FROM_I64, .as = KIT_AS_SCALAR, KIT_FIELD(op, attr))
#define KIT_DIMS(op, attr) KIT_ARG(.from = KIT_FROM_DIMS, .as = KIT_AS_ARRAY, KIT_FIELD(op, attr))
#define KIT_INTS(op, attr) \
    KIT_ARG(.from = KIT_FROM_INTS, .as = KIT_AS_ARRAY, KIT_FIELD(op, attr), \
            .size = sizeof(((struct bp_##op##_attrs *)0)->attr) / sizeof(int64_t))
#define KIT_AXIS(op, attr, in) \
    KIT_ARG(.from = KIT_FROM_AXIS, .as = KIT_AS_INT, KIT_FIELD(op, attr), .size = in)
#define KIT_AXES(op, attr, in) \
    KIT_ARG(.from = KIT_FROM_AXES, .as = KIT_AS_ARRAY, KIT_FIELD(op, attr), .size = in)
/* Constants, and values that a build function has computed. */
#define KIT_INT_IS(value) KIT_ARG(.from = KIT_FROM_INT, .as = KIT_AS_INT, .i = value)
#define KIT_DOUBLE_IS(value) KIT_ARG(.from = KIT_FROM_NUMBER, .as = KIT_AS_F64, .f = value)
#define KIT_FLOAT_IS(value) KIT_ARG(.from = KIT_FROM_NUMBER, .as = KIT_AS_F32, .f = value)
#define KIT_SCALAR_IS(value) KIT_ARG(.from = KIT_FROM_INT, .as = KIT_AS_SCALAR, .i = value)
#define KIT_NUMBER_IS(value) KIT_ARG(.from = KIT_FROM_NUMBER, .as = KIT_AS_SCALAR, .f = value)
#define KIT_TEXT_IS(value) KIT_ARG(.from = KIT_FROM_TEXT, .as = KIT_AS_TEXT, .text = value)
#define KIT_IN_DTYPE(port) KIT_ARG(.from = KIT_FROM_IN_DTYPE, .as = KIT_AS_DTYPE, .at = port)
#define KIT_OUT_DTYPE(port) KIT_ARG(.from = KIT_FROM_OUT_DTYPE, .as = KIT_AS_DTYPE, .at = port)
#define KIT_DTYPE_IS(dtype) KIT_ARG(.from = KIT_FROM_INT, .as = KIT_AS_DTYPE, .i = dtype)
#define KIT_OWN(number) KIT_ARG(.from = KIT_FROM_OWN, .as = KIT_AS_INT, .at = number)

/* A tensor of a build: in the workspace, or a tensor of the call with another type. */
struct kit_tensor {
    struct bp_view view; /* shape and stride point to the arrays below. data: of an alias, the
                             distance from the first byte of its base; else from the start of the
                             workspace */
    int64_t shape[KIT_AXES_MAX], stride[KIT_AXES_MAX];
    struct kit_arg base; /* of an alias, a tensor of the call or of the build; else KIT_NONE */
    bool word;           /* the stream's fault word */
    bool held;           /* a constant of the plan; view.data: from the start of all constants */
    bool written;        /* a step has written it */
};

/* One call of a function. of: its own number; of a step that kit_repeat has added, the number of
 * the step whose arguments it has. */
struct kit_step {
    const char *function;
    const struct kit_arg *arg;
    uint32_t n, of;
};

/* The extent of an output: the number of the output in the launch, and of the tensor. */
struct kit_result {
    uint32_t out, tensor;
};

/* The calls of one launch. kit_build_end has to be called. */
struct kit_build {
    void *self; /* the plugin's instance */
    const struct bp_kernel *kernel;
    const struct bp_view *const *in, *const *out; /* as in bp_prep and bp_launch */
    const uint16_t *in_at, *out_at;
    uint32_t n_in, n_out, device;
    const void *attrs;     /* RUN attributes have their values in launches only */
    uint64_t seed, offset; /* of random numbers; in launches only */
    enum bp_status status; /* the first failure */
    uint64_t bytes;        /* of temporaries so far */
    bool guarded;          /* a step uses the fault word */
    char *held;            /* the contents of constants, held_bytes; NULL: there are none */
    uint64_t held_bytes;
    uint32_t n_result;
    struct kit_result result[KIT_RESULTS];
    struct kit_step *step;
    uint32_t n_step, room, n_arg, n_tensor, n_int; /* room: for so many steps */
    struct kit_arg arg[KIT_ARGS];
    struct kit_tensor tensor[KIT_TENSORS];
    int64_t ints[KIT_INTS_MAX]; /* of KIT_FROM_ARRAY */
};

/* The call of a row, beside its kernel row: an element of a table parallel to the kernel rows.
 * If `build` is NULL, the row is one step: the function with `arg`. */
struct kit_row {
    const char *functions; /* the names of all functions that it calls, separated by spaces */
    enum bp_status (*build)(struct kit_build *b);
    const struct kit_arg *arg;
    uint32_t n;
    bool fills; /* if an input has no elements, all outputs get this number */
    double empty;
    bool each; /* the values depend on RUN attributes: built anew for each launch */
};

/* Fills a build from a configuration; and from a launch. */
void kit_build_prep(struct kit_build *b, void *self, const struct bp_prep *prep);
void kit_build_launch(struct kit_build *b, const struct bp_launch *launch);
void kit_build_end(struct kit_build *b);
/* Adds the steps of the row. BP_ERR_UNSUPPORTED, without a message: the row does not suit the
 * configuration. */
enum bp_status kit_build_row(struct kit_build *b, const struct kit_row *row);

/* Adds a step. The arguments are copied; the name is not. */
enum bp_status kit_step(struct kit_build *b, const char *function, const struct kit_arg *arg,
                        uint32_t n);
#define KIT_STEP(b, function, ...) \
    kit_step(b, function, (const struct kit_arg[]){__VA_ARGS__}, \
             sizeof((const struct kit_arg[]){__VA_ARGS__}) / sizeof(struct kit_arg))
/* Repeats the steps from number `first` (a former b->n_step) to the last one: they run `times`
 * times in all, at least once, with the same tensors. A temporary that a step updates (KIT_UPDATES)
 * keeps a value from one round to the next. Rounds can be parts of rounds. */
enum bp_status kit_repeat(struct kit_build *b, uint32_t first, int64_t times);
/* The configuration does not suit the row. */
enum bp_status kit_refuse(struct kit_build *b);

/* The same argument with another role. */
struct kit_arg kit_as(struct kit_arg arg, enum kit_role role);

/* Adds a contiguous tensor in the workspace. */
struct kit_arg kit_temporary(struct kit_build *b, uint32_t dtype, uint32_t rank,
                             const int64_t *shape);
struct kit_arg kit_temporary_like(struct kit_build *b, const struct bp_view *like);
/* Adds a contiguous constant, whose contents are copied. A plugin that supports constants copies
 * them to the device's memory once for each plan. */
struct kit_arg kit_constant(struct kit_build *b, uint32_t dtype, uint32_t rank,
                            const int64_t *shape, const void *data);
/* The tensor of an argument, with another type: contiguous, if the base is; the base's dtype may be
 * replaced by one of the same size. offset: bytes from the base's first byte. */
struct kit_arg kit_alias(struct kit_build *b, struct kit_arg base, uint32_t dtype, uint32_t rank,
                         const int64_t *shape, const int64_t *stride, int64_t offset);
/* The same with a shape alone, for a base that is contiguous, or of which only axes of extent 1
 * are added or left out; other bases: the configuration is refused. */
struct kit_arg kit_reshaped(struct kit_build *b, struct kit_arg base, uint32_t rank,
                            const int64_t *shape);
/* The fault word of the launch's stream (stream.h), an i32 of one element, for steps that check
 * indices: they write a value other than 0 if an index is bad, and leave it alone otherwise. */
struct kit_arg kit_word(struct kit_build *b);
/* For operators with BP_OP_BOUND: a temporary, an i64 of one element, that a step writes: the true
 * extent of output `out` (its number in the launch). The launch waits for it. */
struct kit_arg kit_extent(struct kit_build *b, uint32_t out);
/* An array of integers as an argument (KIT_AS_ARRAY; change `as` for KIT_AS_BOOLS). */
struct kit_arg kit_array(struct kit_build *b, const int64_t *at, uint32_t n);

/* The values of an argument. kit_arg_view: NULL: absent. kit_arg_ints: returns how many. */
const struct bp_view *kit_arg_view(const struct kit_build *b, const struct kit_arg *arg);
int64_t kit_arg_int(const struct kit_build *b, const struct kit_arg *arg);
double kit_arg_number(const struct kit_build *b, const struct kit_arg *arg);
bool kit_arg_is_number(const struct kit_arg *arg); /* not an integer */
uint32_t kit_arg_ints(const struct kit_build *b, const struct kit_arg *arg,
                      int64_t out[KIT_INTS_MAX]);
/* The tensors of a list: the first one and their number. */
const struct bp_view *const *kit_arg_views(const struct kit_build *b, const struct kit_arg *arg,
                                           uint32_t *out_n);

/* Whether every function of the row exists: `has` looks for one by its name. If one is missing,
 * `missing` receives its name. */
bool kit_row_has(const struct kit_row *row, bool (*has)(void *self, const char *function),
                 void *self, char missing[64]);

#endif
