/* SPDX-License-Identifier: Apache-2.0 */
/* op.h: declares operators inside the core: their definitions, an invocation of one, and the
 * interfaces of inference, gradient and decomposition rules. */
#ifndef BP_OP_PRIVATE_H
#define BP_OP_PRIVATE_H

#include "../tensor/tensor.h"

#include <string.h>

enum bp_row_number {
#define OP(op, ins, outs, facts) BP_ROW_##op,
#define OPA(op, ins, outs, attrs, facts) BP_ROW_##op,
#include <ops/ops.def>
    BP_ROW_COUNT
};

/* The maximum number of input tensors, and of output tensors, of a call; and of declared ports of
 * an operator. */
enum { BP_FLAT_MAX = 256, BP_PORT_MAX = 16 };

struct bp_invocation;
struct bp_grad;
struct bp_decomposition;

struct bp_opdef {
    struct bp_opinfo info;
    enum bp_status (*infer)(
        struct bp_invocation *inv); /* fills site->out from the inputs and attributes */
    enum bp_status (*values)(const void *attrs); /* NULL, or returns an error for invalid attribute
                                                    values */
    enum bp_status (*grad)(struct bp_grad *grad);  /* NULL: by decompose, or not differentiable */
    enum bp_status (*decompose)(struct bp_decomposition *expansion); /* NULL: a kernel is needed */
    bool bound, random; /* stated in the definition */
    uint8_t keeps;      /* LAYOUT_FROM: the number of inputs */
    uint8_t saves;      /* SAVES: a bit for each optional output that `grad` reads */
    /* Derived by bp_opdef_derive. key_words: a bit for each 8 bytes of the attribute struct that
     * are KEY, except lists. */
    bool has_run, has_lists, has_host, has_groups, is_view, updates;
    bool varies; /* an output has any number of tensors */
    bool simple; /* plain, one output, up to four inputs, none optional, no lists */
    bool broadcasts; /* elementwise: each input broadcasts to output 0 */
    bool plain; /* none of bound, random, has_host, is_view, updates, varies */
    uint64_t key_words;
};
extern struct bp_opdef bp_opdef[BP_ROW_COUNT];

/* Returns the number of a row of the table; BP_ROW_COUNT: it is an operator of a plugin. */
static inline uint32_t bp_opdef_number(const struct bp_opdef *row)
{
    uintptr_t at = (uintptr_t)row - (uintptr_t)bp_opdef;

    return at < sizeof bp_opdef ? (uint32_t)(at / sizeof *bp_opdef) : BP_ROW_COUNT;
}

/* Finds an operator by name or alias; NULL if there is none. Initializes the table on first use. */
const struct bp_opdef *bp_opdef_find(const char *name);
void bp_opdefs_init(void);
/* op_def.c: fills the derived members of an operator definition whose other members are set. attr:
 * a writable op->attr. */
void bp_opdef_derive(struct bp_opdef *row, struct bp_attr *attr);
/* op_def.c: returns the type variable of the indices and counts that an operator of the table
 * returns, none of which is above the number of elements of an input; BP_VAR_COUNT: it returns
 * none. */
uint32_t bp_opinfo_index_output(const struct bp_opinfo *op);

/* plugin_operators.c: operators that plugins define. find returns NULL if there is none. add
 * registers an operator for the process, permanently; it returns NULL, or the reason why the
 * operator is invalid. rules NULL: it has none. */
const struct bp_opdef *bp_plugin_op_find(const char *name);
const char *bp_plugin_op_add(const struct bp_operator *op, const struct bp_op_rules *rules);
/* Returns the rules of an operator of a plugin. */
const struct bp_op_rules *bp_plugin_op_rules(const struct bp_opdef *row);

/* The functions that run a plugin's rules as rules of the core. The core sets them before it loads
 * a plugin; functions: constant data. */
struct bp_rule_functions {
    enum bp_status (*decompose)(struct bp_decomposition *expansion);
    enum bp_status (*grad)(struct bp_grad *grad);
};
void bp_plugin_op_init(const struct bp_rule_functions *functions);
void bp_plugin_rules_init(void); /* plugin_rule.c: sets those of the core */

void bp_typed_view_init(struct bp_typed_view *tv, const struct bp_view *of);
void bp_typed_view_dense(struct bp_typed_view *tv, const struct bp_type *type);

/* One call whose arguments have been checked: the input of inference, kernel selection and
 * preparation. */
struct bp_invocation {
    const struct bp_opdef *row;
    struct bp_device *device;       /* of the inputs */
    void *attrs;                    /* owned copy in full length, or NULL */
    const char *kernel;             /* the only kernel row to use, or NULL */
    const char *prefer;             /* for steps of a decomposition: the kernel row that is tried
                                       first, or NULL */
    bool decompose;                    /* run the decomposition, even if a kernel exists */
    bool whole;                     /* a call that no kernel runs is not decomposed or converted:
                                       BP_ERR_NO_KERNEL, without a message */
    bool in_place;                  /* a preallocated output is the input that it may share; not set
                                       for updates, which always are */
    bool view_copies; /* set by inference: the strides of the input that a view operator shares do
                         not allow the views: a dense copy is viewed */
    uint32_t allow;                 /* enum bp_allow, of the program that the call is for */
    struct bp_graph *graph;         /* the graph that records the call; device is NULL then */
    uint16_t in_at[BP_PORT_MAX + 1], out_at[BP_PORT_MAX + 1];
    uint32_t n_in, n_out;
    uint32_t dtype[BP_VAR_COUNT];   /* of each bound type variable */
    uint32_t bound;                 /* bit of each bound type variable */
    uint32_t want;                  /* bit of each declared output that is wanted */
    int64_t view_stride[BP_RANK_MAX]; /* set by the inference of a view operator: how its outputs
                                         view the input, in elements */
    /* Only the first n_in and n_out elements of these lists are set. */
    const struct bp_view *in[BP_FLAT_MAX];
    struct bp_constant constant[BP_FLAT_MAX];
    struct bp_type out[BP_FLAT_MAX];
    const struct bp_view *given[BP_FLAT_MAX]; /* preallocated outputs, or NULL */
    int64_t view_offset[BP_FLAT_MAX]; /* of each output, as view_stride */
};

static inline bool bp_port_varies(const struct bp_port *port)
{
    return port->kind == BP_PORT_VAROUT || port->kind == BP_PORT_VIEWS;
}

/* Begins an invocation of an operator with one input and one output, whose views and dtypes the
 * caller sets. */
static inline void bp_invocation_init_unary(struct bp_invocation *inv, const struct bp_opdef *row,
                                            struct bp_device *device)
{
    memset(inv, 0, offsetof(struct bp_invocation, in));
    inv->row = row;
    inv->device = device;
    inv->in_at[1] = inv->out_at[1] = 1;
    inv->n_in = inv->n_out = inv->want = 1;
    inv->in[0] = inv->given[0] = NULL;
    inv->constant[0] = (struct bp_constant){0};
    inv->out[0] = (struct bp_type){0};
    inv->view_offset[0] = 0;
}

/* Copies an invocation: of its lists, which are long, only the elements that are set. */
static inline void bp_invocation_copy(struct bp_invocation *to, const struct bp_invocation *from)
{
    memcpy(to, from, offsetof(struct bp_invocation, in));
    memcpy(to->in, from->in, from->n_in * sizeof *from->in);
    memcpy(to->constant, from->constant, from->n_in * sizeof *from->constant);
    memcpy(to->out, from->out, from->n_out * sizeof *from->out);
    memcpy(to->given, from->given, from->n_out * sizeof *from->given);
    memcpy(to->view_offset, from->view_offset, from->n_out * sizeof *from->view_offset);
}

/* Returns the declared output to which output number i of the flat list belongs. */
static inline uint32_t bp_out_port(const struct bp_opdef *row, const uint16_t *out_at, uint32_t i)
{
    uint32_t port = row->varies ? 0 : i;

    while (row->varies && out_at[port + 1] <= i) port++;
    return port;
}

/* Whether a call reads only the shape and dtype of input i of its flat list. */
static inline bool bp_reads_shape(const struct bp_opdef *row, const uint16_t *in_at, uint32_t i)
{
    uint32_t port = 0;

    while (port + 1 < row->info.n_in && in_at[port + 1] <= i) port++;
    return row->info.in[port].shape_only;
}

/* The bits of the tensors of the flat list of outputs that are wanted. Decompositions have these
 * bits: a variadic output with a decomposition is the only output, and all its tensors are
 * wanted. */
static inline uint32_t bp_wants_flat(const struct bp_opdef *row, uint32_t want, uint32_t n_out)
{
    return row->varies ? (1u << n_out) - 1 : want;
}
static inline bool bp_invocation_wants(const struct bp_invocation *inv, uint32_t i)
{
    return inv->want >> bp_out_port(inv->row, inv->out_at, i) & 1;
}

/* invocation.c: called by an inference rule: the variadic output has n tensors, whose types the
 * rule fills afterwards. Their dtype is set already, like that of other outputs, if an input binds
 * their type variable. */
enum bp_status bp_invocation_count(struct bp_invocation *inv, int64_t n);

/* check.c: fills site from a call: presence, handles, dtypes, attributes, inference. want: n_want
 * flags, 0 for an output that is not wanted (NULL: the first n_want are wanted); or bp_want_all:
 * all outputs that the call has, whatever their number. */
extern const uint8_t bp_want_all[1];
enum bp_status bp_invocation_init(struct bp_invocation *inv, struct bp_device *device,
                                  struct bp_graph *graph, const struct bp_call *call,
                                  const uint8_t *want, size_t n_want);
/* The same for a call of which bp_call_check was called and the row was found. */
enum bp_status bp_invocation_init_row(struct bp_invocation *inv, const struct bp_opdef *row,
                                      struct bp_device *device, struct bp_graph *graph,
                                      const struct bp_call *call, const uint8_t *want,
                                      size_t n_want);
void bp_invocation_finish(struct bp_invocation *inv);
enum bp_status bp_call_check(const struct bp_call *call);

/* Checks that t, which the caller gives for a result, is a tensor of the call's device and of this
 * type; its strides are free. what: its name in messages. */
enum bp_status bp_given_check(const struct bp_invocation *inv, const char *what,
                              const struct bp_tensor *t, const struct bp_type *type);

/* Checks preallocated outputs, a list of site->n_out tensors or NULL, against the inferred
 * types. */
enum bp_status bp_invocation_set_outputs(struct bp_invocation *inv, struct bp_tensor *const *given);

/* Writes the input tensors to one list, in the order of site->in; absent ones are NULL. */
void bp_invocation_flatten(const struct bp_invocation *inv, const struct bp_call *call,
                           struct bp_tensor **out_flat);

/* Returns the view of a declared input; NULL if it is absent. */
static inline const struct bp_view *bp_invocation_in(const struct bp_invocation *inv, uint32_t port)
{
    return inv->in_at[port] < inv->in_at[port + 1] ? inv->in[inv->in_at[port]] : NULL;
}

/* attrs.c: copies attributes in full length, lists included, to one block for free(). */
enum bp_status bp_attrs_copy(const struct bp_opinfo *op, const void *given, void **out_attrs);
/* The same for attributes in full length that were checked before, as those of a node. */
enum bp_status bp_attrs_clone(const struct bp_opinfo *op, const void *attrs, void **out_attrs);

/* Checks the values of an attribute struct in full length. */
enum bp_status bp_attrs_check(const struct bp_opinfo *op, const void *attrs);

/* Returns the i-th 8 bytes of an attribute struct. bp_same_keys: whether the KEY words of two
 * structs in full length are equal. */
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

/* Whether two structs in full length, or NULL, agree in all attributes, lists included. */
bool bp_attrs_same(const struct bp_opinfo *op, const void *x, const void *y);

/* Returns an error if an attribute struct differs from the prepared one in a KEY attribute. */
enum bp_status bp_attrs_check_run(const struct bp_opinfo *op, const void *prepared,
                                  const void *given);

/* Whether all attributes behind the first size bytes are zero: then a kernel row that does not know
 * them may run the call. */
bool bp_attrs_tail_zero(const struct bp_opinfo *op, const void *attrs, size_t size);

/* select.c: the kernel row and plan for an invocation. */
struct bp_choice {
    const struct bp_kernel *kernel;
    struct bp_plan plan;
};
enum bp_status bp_select(const struct bp_invocation *inv, const struct bp_view *const *out,
                         struct bp_choice *out_choice);
/* Destroys the plan of a choice. */
void bp_choice_drop(const struct bp_device *device, const struct bp_choice *choice);

/* Returns the kernel rows of an operator, a part of the entry's list, best first. */
const struct bp_kernel **bp_select_rows(const struct bp_device *device, const struct bp_opdef *row,
                                        uint32_t *out_n);
/* Whether the device has a kernel row for the call's dtypes that has all of these flags. */
bool bp_select_has(const struct bp_invocation *inv, uint32_t flags);
/* Whether the device has a usable kernel row for an operator of which type variable T is bound to a
 * dtype. */
bool bp_select_has_dtype(const struct bp_device *device, const struct bp_opdef *row,
                         uint32_t dtype);
/* The same for rows of at least this priority. */
bool bp_select_has_priority(const struct bp_device *device, const struct bp_opdef *row,
                            uint32_t dtype, int32_t least);

/* Whether an input of the call is broadcast: its shape is not that of output 0. Only operators that
 * broadcast have such inputs. */
bool bp_select_broadcasts(const struct bp_invocation *inv, const struct bp_view *out);

/* queued_launch.c: puts a launch into the queue of a timeline, with copies of the views and
 * attributes that it refers to. */
enum bp_status bp_launch_enqueue(struct bp_timeline *timeline, const struct bp_launch *launch,
                                 const struct bp_kernel *kernel, const struct bp_opdef *row,
                                 struct bp_device *device);

/* view.c: runs a view operator. result: room for all outputs. out_copies: the input's strides do
 * not allow the views and none was made; the caller must view a dense copy of the input. */
enum bp_status bp_call_view(struct bp_stream *stream, const struct bp_opdef *row,
                            const struct bp_call *call, const uint8_t *want, size_t n_want,
                            struct bp_tensor **result, bool *out_copies);

/* run.c: the implementation of every typed call. An entry of out is NULL if that output is not
 * wanted; otherwise it points to NULL, or to the tensor that gets the result. */
enum bp_status bp_call_typed(struct bp_scope *scope, enum bp_row_number row,
                             const struct bp_arg *in, size_t n_in, const void *attrs,
                             struct bp_tensor **const *out, size_t n_out);

/* Like bp_call_typed, for operators with variadic outputs. An element of out: for a variadic output
 * a list and its capacity; for another output the address of its tensor (NULL: not wanted) and
 * 1. */
struct bp_room {
    struct bp_tensor **at;
    size_t n;
};
enum bp_status bp_call_groups(struct bp_scope *scope, enum bp_row_number row,
                              const struct bp_arg *in, size_t n_in, const void *attrs,
                              const struct bp_room *out, size_t n_out);

/* host_value.c: copies the attributes and fills in those that the call passes as tensors, in one
 * block for free(); out_attrs stays unset if there are none. Reading a tensor may wait, and the
 * wait is counted. stream NULL: the call is recorded in a graph, and each tensor is read after all
 * work on its device has ended. */
enum bp_status bp_host_values(struct bp_stream *stream, const struct bp_opdef *row,
                              const struct bp_arg *in, size_t n_in, const void *attrs,
                              void **out_attrs);

/* Returns an error if attributes are passed as tensors, for calls without a stream that could read
 * them. */
enum bp_status bp_host_refuse(const struct bp_opdef *row, const struct bp_arg *in, size_t n_in);

/* The argument of a gradient rule. The rule sets dx[i] for each i with want[i] to a new reference;
 * NULL means zero. Rules are written with typed calls, so that they run on streams and can be
 * recorded in graphs. */
struct bp_grad {
    struct bp_scope *scope;
    const struct bp_opdef *row;
    const void *attrs;
    struct bp_tensor *const *in, *const *out, *const *dy; /* NULL: absent, or zero (dy) */
    const uint8_t *want;
    struct bp_tensor **dx;
    uint32_t n_in, n_out;
    /* Computes the gradient by the operator's decomposition, for a rule that handles only some
     * cases itself. */
    enum bp_status (*expanded)(struct bp_grad *grad);
};

/* The argument of a decomposition rule. The rule expresses the operator by typed calls on scope,
 * and sets out[i] for each i that is wanted. All of its calls run or fail independently of the
 * values of tensors. */
struct bp_decomposition {
    struct bp_scope *scope;
    const struct bp_opdef *row;
    const void *attrs;
    struct bp_tensor *const *in; /* NULL where absent */
    uint32_t want;               /* bit of each output, or of each tensor of a variadic one */
    struct bp_tensor **out;
    uint32_t n_in;
};

/* Declares all rules that the operator definitions name. */
#define OP(op, ins, outs, facts) facts
#define OPA(op, ins, outs, attrs, facts) facts
#define INFER(rule) enum bp_status bp_infer_##rule(struct bp_invocation *inv);
#define VALUES(rule) enum bp_status bp_values_##rule(const void *attrs);
#define GRAD(rule) enum bp_status bp_grad_##rule(struct bp_grad *grad);
#define DECOMPOSE(rule) enum bp_status bp_decompose_##rule(struct bp_decomposition *expansion);
#include <ops/ops.def>

#endif
