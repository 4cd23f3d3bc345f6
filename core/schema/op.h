/* SPDX-License-Identifier: Apache-2.0 */
/* op.h: operators inside the core: the rows, a call under way, inference and gradient rules. */
#ifndef BP_OP_PRIVATE_H
#define BP_OP_PRIVATE_H

#include "../tensor/tensor.h"

enum bp_row_number {
#define OP(op, ins, outs, facts) BP_ROW_##op,
#define OPA(op, ins, outs, attrs, facts) BP_ROW_##op,
#include <ops/ops.def>
    BP_ROW_COUNT
};

/* The most tensors that go into a call, or come out of it; and the most declared ports of a row. */
enum { BP_FLAT_MAX = 256, BP_PORT_MAX = 16 };

struct bp_invocation;
struct bp_grad;
struct bp_decomposition;

struct bp_opdef {
    struct bp_opinfo info;
    enum bp_status (*infer)(
        struct bp_invocation *site); /* fills site->out from the inputs and attributes */
    enum bp_status (*values)(const void *attrs); /* NULL, or refuses what attributes cannot be */
    enum bp_status (*grad)(struct bp_grad *grad);  /* NULL: not differentiable, or by expand */
    enum bp_status (*decompose)(struct bp_decomposition *expansion); /* NULL: a kernel is needed */
    bool bound, random; /* words of the row */
    uint8_t keeps;      /* LAYOUT_FROM: how many inputs */
    /* Derived. key_words: a bit for each 8 bytes of the struct that are KEY, lists apart. */
    bool has_run, has_lists, has_host, has_groups, is_view, updates;
    bool varies; /* an output is any number of tensors */
    bool simple; /* plain, one output, up to four inputs that are not optional, no lists */
    bool plain; /* none of bound, random, has_host, is_view, updates, varies */
    uint64_t key_words;
};
extern struct bp_opdef bp_opdef[BP_ROW_COUNT];

/* The row of a name or an alias; NULL. Makes the table ready on first use. */
const struct bp_opdef *bp_opdef_find(const char *name);
void bp_opdefs_init(void);
/* op_def.c: what is derived of a row whose other members are filled. attr: op->attr, to be
 * written. */
void bp_opdef_derive(struct bp_opdef *row, struct bp_attr *attr);

/* plugin_operators.c: operators that plugins bring. find: NULL if there is none. add: for the
 * process, for ever; NULL, or why it cannot be. */
const struct bp_opdef *bp_plugin_op_find(const char *name);
const char *bp_plugin_op_add(const struct bp_operator *op);

void bp_typed_view_init(struct bp_typed_view *tv, const struct bp_view *of);
void bp_typed_view_dense(struct bp_typed_view *tv, const struct bp_type *type);

/* A call whose arguments have been checked: what inference, selection and preparation work on. */
struct bp_invocation {
    const struct bp_opdef *row;
    struct bp_device *device;       /* of the inputs */
    void *attrs;                    /* own copy, full length, or NULL */
    const char *kernel;             /* the only row that will do, or NULL */
    const char *prefer;             /* of steps of an expansion: the row that is asked first, or
                                       NULL */
    bool decompose;                    /* runs as what it is defined in, whatever rows there are */
    bool in_place;                  /* an output is given that is the input it may share: not of
                                       updates, which always are */
    struct bp_graph *graph;         /* the call is recorded there; device is NULL then */
    const struct bp_view *in[BP_FLAT_MAX];
    struct bp_constant constant[BP_FLAT_MAX];
    uint16_t in_at[BP_PORT_MAX + 1], out_at[BP_PORT_MAX + 1];
    uint32_t n_in, n_out;
    uint32_t dtype[BP_VAR_COUNT];   /* of each variable that is bound */
    uint32_t bound;                 /* bit of each variable that is */
    struct bp_type out[BP_FLAT_MAX];
    uint32_t want;                  /* bit of each declared output that is wanted */
    const struct bp_view *given[BP_FLAT_MAX]; /* outputs that the caller gave, or NULL */
    /* Of an operator that makes views, by its inference: how they view input share. */
    int64_t view_stride[BP_RANK_MAX]; /* of all of them, elements */
    int64_t view_offset[BP_FLAT_MAX]; /* of each */
    bool view_copies; /* the strides of the input do not allow it: a dense copy is viewed */
};

static inline bool bp_port_varies(const struct bp_port *port)
{
    return port->kind == BP_PORT_VAROUT || port->kind == BP_PORT_VIEWS;
}

/* The declared output to which output number i, flat, belongs. */
static inline uint32_t bp_out_port(const struct bp_opdef *row, const uint16_t *out_at, uint32_t i)
{
    uint32_t port = row->varies ? 0 : i;

    while (row->varies && out_at[port + 1] <= i) port++;
    return port;
}
static inline bool bp_invocation_wants(const struct bp_invocation *site, uint32_t i)
{
    return site->want >> bp_out_port(site->row, site->out_at, i) & 1;
}

/* check.c: for a rule of inference: the output of any number has n tensors, whose types it fills
 * then. Their dtype is set, as that of other outputs, if an input binds their variable. */
enum bp_status bp_invocation_count(struct bp_invocation *site, int64_t n);

/* check.c: fills site from a call: presence, handles, dtypes, attributes, inference. want: n_want
 * entries, 0 for an output that is not wanted (NULL: all n_want are); or bp_want_all: all that the
 * call makes, however many. */
extern const uint8_t bp_want_all[1];
enum bp_status bp_invocation_init(struct bp_invocation *site, struct bp_device *device,
                                  struct bp_graph *graph, const struct bp_call *call,
                                  const uint8_t *want, size_t n_want);
void bp_invocation_finish(struct bp_invocation *site);
enum bp_status bp_call_check(const struct bp_call *call);

/* Checks outputs that the caller gives, a list of site->n_out or NULL each, against what was
 * inferred. */
enum bp_status bp_invocation_set_outputs(struct bp_invocation *site,
                                         struct bp_tensor *const *given);

/* The input tensors as one list, in the order of site->in; absent ones NULL. */
void bp_invocation_flatten(const struct bp_invocation *site, const struct bp_call *call,
                           struct bp_tensor **out_flat);

/* The view of a declared input; NULL if it is absent. */
static inline const struct bp_view *bp_invocation_in(const struct bp_invocation *site,
                                                     uint32_t port)
{
    return site->in_at[port] < site->in_at[port + 1] ? site->in[site->in_at[port]] : NULL;
}

/* attrs.c: an own copy of attributes in full length, lists included, in one block for free(). */
enum bp_status bp_attrs_copy(const struct bp_opinfo *op, const void *given, void **out_attrs);

/* Whether the values of a struct in full length can be. */
enum bp_status bp_attrs_check(const struct bp_opinfo *op, const void *attrs);

/* The 8 bytes number i of a struct; whether the KEY words of two, in full length, are equal. */
static inline uint64_t bp_attrs_word(const void *attrs, uint32_t i)
{
    uint64_t word;

    memcpy(&word, (const char *)attrs + 8 * (size_t)i, sizeof word);
    return word;
}
static inline bool bp_same_keys(const struct bp_opdef *row, const void *a, const void *b)
{
    for (uint64_t m = row->key_words; m; m &= m - 1) {
        uint32_t i = (uint32_t)__builtin_ctzll(m);
        if (bp_attrs_word(a, i) != bp_attrs_word(b, i)) return false;
    }
    return true;
}

/* Refuses a struct that differs from the prepared one in a KEY attribute. */
enum bp_status bp_attrs_check_run(const struct bp_opinfo *op, const void *prepared,
                                  const void *given);

/* Whether the attributes past size bytes are all zero: a row that knows no more may take them. */
bool bp_attrs_tail_zero(const struct bp_opinfo *op, const void *attrs, size_t size);

/* select.c: the kernel row and the plan for a site. */
struct bp_choice {
    const struct bp_kernel *kernel;
    struct bp_plan plan;
};
enum bp_status bp_select(const struct bp_invocation *site, const struct bp_view *const *out,
                         struct bp_choice *out_choice);

/* Whether the device has a row for the call's dtypes that takes any strides. */
bool bp_select_strided(const struct bp_invocation *site);

/* queued_launch.c: puts a copy of a launch, of the views and attributes it points to, into the
 * queue of a timeline. */
enum bp_status bp_launch_enqueue(struct bp_timeline *timeline, const struct bp_launch *launch,
                                 const struct bp_kernel *kernel, const struct bp_opdef *row,
                                 struct bp_device *device);

/* view.c: an operator that makes views; result: room for all outputs. out_copies: the strides of
 * the input do not allow the views, and none was made: a dense copy of it has to be viewed. */
enum bp_status bp_call_view(struct bp_stream *stream, const struct bp_opdef *row,
                            const struct bp_call *call, const uint8_t *want, size_t n_want,
                            struct bp_tensor **result, bool *out_copies);

/* run.c: the body of every typed call: results are new tensors; out entries are NULL where not
 * wanted. */
enum bp_status bp_call_typed(struct bp_scope *scope, enum bp_row_number row,
                             const struct bp_arg *in, size_t n_in, const void *attrs,
                             struct bp_tensor **const *out, size_t n_out);

/* The same where an output is any number of tensors: a list, and for how many it has room; of
 * other outputs the place (NULL: not wanted) and 1. */
struct bp_room {
    struct bp_tensor **at;
    size_t n;
};
enum bp_status bp_call_groups(struct bp_scope *scope, enum bp_row_number row,
                              const struct bp_arg *in, size_t n_in, const void *attrs,
                              const struct bp_room *out, size_t n_out);

/* host_value.c: attributes with those that are given as tensors filled in, in one block for free();
 * out_attrs is left alone if there are none. Reading a tensor may wait, which is counted. stream
 * NULL: the call is recorded, and each tensor is read where it lies, when all work on its device
 * has ended. */
enum bp_status bp_host_values(struct bp_stream *stream, const struct bp_opdef *row,
                              const struct bp_arg *in, size_t n_in, const void *attrs,
                              void **out_attrs);

/* Refuses such tensors, where there is no stream that could read them. */
enum bp_status bp_host_refuse(const struct bp_opdef *row, const struct bp_arg *in, size_t n_in);

/* What a gradient rule sees. It sets dx[i] for each i with want[i]: a new reference, or leaves NULL
 * for zero. Rules are written in the typed calls, so that they work wherever calls go. */
struct bp_grad {
    struct bp_scope *scope;
    const struct bp_opdef *row;
    const void *attrs;
    struct bp_tensor *const *in, *const *out, *const *dy; /* NULL where absent, or zero */
    const uint8_t *want;
    struct bp_tensor **dx;
    uint32_t n_in, n_out;
    /* By the operators that the row is defined in, for a rule that does some cases itself. */
    enum bp_status (*expanded)(struct bp_grad *grad);
};

/* What an expansion sees: it writes the operator in typed calls on scope, and sets out[i] for each
 * i that is wanted. Every call of it runs, or fails, whatever the values are. */
struct bp_decomposition {
    struct bp_scope *scope;
    const struct bp_opdef *row;
    const void *attrs;
    struct bp_tensor *const *in; /* NULL where absent */
    uint32_t want;               /* bit of each output */
    struct bp_tensor **out;
};

/* What rows name exists: one declaration for each. */
#define OP(op, ins, outs, facts) facts
#define OPA(op, ins, outs, attrs, facts) facts
#define INFER(rule) enum bp_status bp_infer_##rule(struct bp_invocation *site);
#define VALUES(rule) enum bp_status bp_values_##rule(const void *attrs);
#define GRAD(rule) enum bp_status bp_grad_##rule(struct bp_grad *grad);
#define DECOMPOSE(rule) enum bp_status bp_decompose_##rule(struct bp_decomposition *expansion);
#include <ops/ops.def>

#endif
