/* SPDX-License-Identifier: Apache-2.0 */
/* executor.c: implements executors of the stand-in for CANN, and the two phases of operators. */
#include "op.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char cann_executor_kind[] = "aclOpExecutor";

struct cann_executor {
    bool is_repeatable;
    struct cann_call call; /* last: its arguments and tensors follow */
};

/* The most arguments and tensors that a call may have: phase 1 collects them here, under the
 * lock. */
static struct cann_arg collected_arg[CANN_ARGS];
static struct cann_slot collected_slot[CANN_SLOTS];

/* The bytes that a call has behind its struct, with its tensors on the host or without. */
static size_t call_tail(const struct cann_call *call, bool on_host)
{
    size_t n = (size_t)call->n_slot;

    return strlen(call->op->letters) * sizeof *call->arg +
           n * (sizeof *call->slot + (on_host ? sizeof *call->host : 0));
}

/* Copies a call into memory that has room for its tail, too. */
static void call_copy(struct cann_call *to, const struct cann_call *from, bool on_host)
{
    size_t n_arg = strlen(from->op->letters), n_slot = (size_t)from->n_slot;

    *to = *from;
    to->arg = (void *)(to + 1);
    to->slot = (void *)(to->arg + n_arg);
    to->host = on_host ? (void *)(to->slot + n_slot) : NULL;
    memcpy(to->arg, from->arg, n_arg * sizeof *to->arg);
    memcpy(to->slot, from->slot, n_slot * sizeof *to->slot);
}

int aclSetAclOpExecutorRepeatable(void *executor);
int aclDestroyAclOpExecutor(void *executor);
int aclSetInputTensorAddr(void *executor, size_t index, void *tensor, void *data);
int aclSetOutputTensorAddr(void *executor, size_t index, void *tensor, void *data);
int aclSetTensorAddr(void *executor, size_t index, void *tensor, void *data);

int cann_refuse(const struct cann_call *call, int arg, const char *format, ...)
{
    char text[256];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return base_refuse(NN_INVALID, "%s %s", call->op->port[arg], text);
}

const struct cann_tensor *cann_type_at(const struct cann_call *call, int arg, int i)
{
    const struct cann_arg *a = &call->arg[arg];

    return i < a->n ? &call->slot[a->first + i].type : NULL;
}

const struct cann_tensor *cann_type(const struct cann_call *call, int arg)
{
    return cann_type_at(call, arg, 0);
}

const struct base_tensor *cann_host(const struct cann_call *call, int arg)
{
    const struct cann_arg *a = &call->arg[arg];

    return a->n ? &call->host[a->first] : NULL;
}

/* The elements that a view spans: from its first to its last. */
static int64_t tensor_span(const struct cann_tensor *t)
{
    int64_t last = 0;

    for (int i = 0; i < t->rank; i++) {
        if (!t->dims[i]) return 0;
        last += (t->dims[i] - 1) * t->strides[i];
    }
    return last + 1;
}

/* The elements of a tensor's storage. */
static int64_t storage_count(const struct cann_tensor *t)
{
    int64_t n = 1;

    for (int i = 0; i < t->storage_rank; i++) n *= t->storage[i];
    return n;
}

/* The extents of a matrix, or several, in FRACTAL_NZ; false: a matrix cannot have it. */
bool cann_nz_shape(const struct cann_tensor *t, struct cann_tensor *out)
{
    int64_t c = 32 / (int64_t)base_dtype_size((uint32_t)cann_bp_dtype(t->dtype));
    int r = t->rank;

    if (r < 2 || r > CANN_RANK - 2 || c < 8) return false;
    out->storage_rank = r + 2;
    for (int i = 0; i < r - 2; i++) out->storage[i] = t->dims[i];
    out->storage[r - 2] = (t->dims[r - 1] + c - 1) / c;
    out->storage[r - 1] = (t->dims[r - 2] + 15) / 16;
    out->storage[r] = 16;
    out->storage[r + 1] = c;
    return true;
}

/* Whether a product's factor in FRACTAL_NZ has the storage that its view needs: by extents, or as
 * one axis. Its strides are those of a contiguous matrix. */
static bool nz_fits(const struct cann_tensor *t)
{
    struct cann_tensor nz;
    int64_t dense = 1;

    if (!cann_nz_shape(t, &nz)) return false;
    for (int i = t->rank; i-- > 0;) {
        if (t->dims[i] != 1 && t->strides[i] != dense) return false;
        dense *= t->dims[i];
    }
    if (t->storage_rank == 1) return t->storage[0] == storage_count(&nz);
    return t->storage_rank == nz.storage_rank &&
           !memcmp(t->storage, nz.storage, (size_t)nz.storage_rank * sizeof *nz.storage);
}

static int tensor_check(struct cann_call *call, int arg, const struct cann_tensor *t, bool is_out)
{
    static const uint64_t formats = 1u << CANN_NCHW | 1u << CANN_NHWC | 1u << CANN_ND |
                                    1u << CANN_NCDHW | UINT64_C(1) << CANN_NC |
                                    UINT64_C(1) << CANN_NCL;

    if (t->dtype == CANN_BF16 && !cann_has_bf16())
        return base_refuse(NN_NO_KERNEL, "%s is BFLOAT16", call->op->port[arg]);
    if (t->format == CANN_NZ) {
        if (!call->op->takes_nz || is_out)
            return cann_refuse(call, arg, "has the format FRACTAL_NZ");
        return nz_fits(t) ? 0 : cann_refuse(call, arg, "has another storage than FRACTAL_NZ");
    }
    if (t->format < 0 || t->format > 63 || !(formats >> t->format & 1))
        return cann_refuse(call, arg, "has the format %d", t->format);
    for (int i = 0; i < t->rank; i++) {
        if (t->strides[i] < 0) return cann_refuse(call, arg, "has a stride below 0");
        if (is_out && !t->strides[i] && t->dims[i] > 1)
            return cann_refuse(call, arg, "is an output that repeats elements");
    }
    if (t->offset < 0 || t->offset + tensor_span(t) > storage_count(t))
        return cann_refuse(call, arg, "has a view of %lld elements from %lld on, a storage of %lld",
                           (long long)tensor_span(t), (long long)t->offset,
                           (long long)storage_count(t));
    return 0;
}

/* Adds a tensor to the call, as part of an argument. */
static int slot_add(struct cann_call *call, int arg, const void *handle)
{
    char letter = call->op->letters[arg];
    struct cann_slot *slot = &call->slot[call->n_slot];
    bool is_out = letter == 'O' || letter == 'M' || letter == 'R';

    if (!base_handle_is(handle, cann_tensor_kind))
        return base_misuse(NN_INVALID, "%s is no tensor%s", call->op->port[arg],
                           base_handle_was(handle) ? ": it was destroyed before" : "");
    if (call->n_slot == CANN_SLOTS) return cann_refuse(call, arg, "has too many tensors");
    *slot = (struct cann_slot){0};
    slot->tensor = (struct cann_tensor *)(uintptr_t)handle;
    slot->type = *slot->tensor;
    slot->data = slot->tensor->data;
    slot->is_out = is_out;
    slot->is_in = letter != 'O' && letter != 'M';
    slot->arg = arg;
    if (!call->arg[arg].n++) call->arg[arg].first = call->n_slot;
    call->n_slot++;
    return tensor_check(call, arg, &slot->type, is_out);
}

static int array_take(struct cann_call *call, int arg, const void *handle)
{
    bool bools = call->op->letters[arg] == 'B';
    const struct cann_array *array = handle;
    struct cann_arg *a = &call->arg[arg];

    if (!base_handle_is(handle, bools ? cann_bools_kind : cann_ints_kind))
        return base_misuse(NN_INVALID, "%s is no such array", call->op->port[arg]);
    if (array->n > CANN_INTS) return cann_refuse(call, arg, "has too many numbers");
    a->n_at = (int)array->n;
    for (int i = 0; i < a->n_at; i++)
        a->at[i] = bools ? ((const bool *)(const void *)array->at)[i]
                         : ((const int64_t *)(const void *)array->at)[i];
    return 0;
}

static int list_take(struct cann_call *call, int arg, const void *handle)
{
    const struct cann_list *list = handle;
    int code = 0;

    if (!base_handle_is(handle, cann_list_kind))
        return base_misuse(NN_INVALID, "%s is no list of tensors", call->op->port[arg]);
    for (uint64_t i = 0; i < list->n && !code; i++) code = slot_add(call, arg, list->tensor[i]);
    return code;
}

static int scalar_take(struct cann_call *call, int arg, const void *handle)
{
    if (!base_handle_is(handle, cann_scalar_kind))
        return base_misuse(NN_INVALID, "%s is no scalar", call->op->port[arg]);
    call->arg[arg].d = cann_scalar_number(handle);
    call->arg[arg].i = cann_scalar_integer(handle);
    return 0;
}

/* Copies an argument into the call. */
static int arg_take(struct cann_call *call, int arg, union cann_value value)
{
    struct cann_arg *a = &call->arg[arg];
    char letter = call->op->letters[arg];

    if (strchr("inubct", letter)) {
        a->i = value.i;
        return 0;
    }
    if (letter == 'd' || letter == 'f') {
        a->d = value.d;
        return 0;
    }
    a->is_null = !value.p;
    if (!value.p)
        return call->op->optional[arg] == '?'
                   ? 0
                   : base_refuse(NN_NULL, "%s is NULL", call->op->port[arg]);
    switch (letter) {
    case 'S': return scalar_take(call, arg, value.p);
    case 'A':
    case 'B': return array_take(call, arg, value.p);
    case 'L':
    case 'M': return list_take(call, arg, value.p);
    case 's': snprintf(a->text, sizeof a->text, "%s", (const char *)value.p); return 0;
    default: return slot_add(call, arg, value.p);
    }
}

/* Bytes of workspace: some operators need none; the others as many as they like. */
static uint64_t workspace_of(const struct cann_call *call)
{
    unsigned hash = 0;

    for (const char *c = call->op->name; *c; c++) hash = hash * 31 + (unsigned char)*c;
    if (hash % 3 == 0 || !call->n_slot) return 0;
    return ((uint64_t)cann_tensor_count(&call->slot[0].type) % 4096 + 511) / 512 * 512 + 512;
}

/* Operators return codes of their own for failures of the runtime. */
static int nn_code(int code, const struct cann_context *context)
{
    bool is_lost = context && context->device->sticky == code;

    return code == RT_CONTEXT_NULL || is_lost ? NN_RUNTIME : code;
}

/* Collects and checks the arguments of phase 1. Under the lock. */
static int call_collect(struct cann_call *call, const union cann_value *value)
{
    int code = 0;

    memset(collected_arg, 0, sizeof collected_arg);
    for (int i = 0; call->op->letters[i] && !code; i++) code = arg_take(call, i, value[i]);
    return code ? code : call->op->check(call);
}

int cann_prepare(const struct cann_op *op, const union cann_value *value, uint64_t *out_workspace,
                 void **out_executor)
{
    struct cann_context *context;
    int code = cann_enter_context(op->first, &context);
    struct cann_call call = {.op = op, .arg = collected_arg, .slot = collected_slot};
    struct cann_executor *e;

    if (!code && !secure_getenv("ASCEND_OPP_PATH"))
        code = base_refuse(NN_OPP_PATH, "ASCEND_OPP_PATH is not set");
    if (!code && (!out_workspace || !out_executor))
        code = base_refuse(NN_NULL, "workspaceSize or executor is NULL");
    if (code) return base_leave(nn_code(code, context));
    call.device = context->device;
    code = call_collect(&call, value);
    if (code) return base_leave(code);
    call.workspace = workspace_of(&call);
    e = base_handle_create(cann_executor_kind, sizeof *e + call_tail(&call, false));
    if (!e) return base_leave(NN_INTERNAL);
    call_copy(&e->call, &call, false);
    *out_workspace = call.workspace;
    *out_executor = e;
    return base_leave(0);
}

/* Finds the memory of a slot: the address of element 0 of its view, NULL with a misuse if the view
 * and 32 bytes more are not in memory of the device. Under the lock. */
static void *slot_reach(const struct cann_call *call, const struct cann_slot *slot)
{
    const struct cann_tensor *t = &slot->type;
    bool is_nz = t->format == CANN_NZ || (call->op->takes_nz && slot->is_out && slot->is_in);
    size_t width = base_dtype_size((uint32_t)cann_bp_dtype(t->dtype));
    int64_t span = is_nz ? storage_count(t) : tensor_span(t);
    const char *at = (const char *)slot->data + t->offset * (int64_t)width;
    size_t bytes = (size_t)span * width;
    struct base_range range = base_find(at);
    void *host = base_reach(call->device, at, bytes);

    if (host && range.place == BASE_DEVICE && bytes + 32 <= range.room + range.slack) return host;
    base_misuse(0, "%s of %s: %zu bytes at %p are not memory of device %d%s",
                call->op->port[slot->arg], call->op->name, bytes, (const void *)at,
                call->device->number,
                range.place == BASE_FREED ? ": freed, or never allocated" : "");
    return NULL;
}

/* Finds all tensors and the workspace on the host. Under the lock. */
static int call_reach(struct cann_call *call)
{
    for (int i = 0; i < call->n_slot; i++) {
        const struct cann_tensor *t = &call->slot[i].type;
        struct base_tensor *host = &call->host[i];
        *host = (struct base_tensor){.dtype = (uint32_t)cann_bp_dtype(t->dtype), .rank = t->rank};
        memcpy(host->shape, t->dims, sizeof host->shape);
        memcpy(host->stride, t->strides, sizeof host->stride);
        if (!tensor_span(t)) continue;
        host->data = slot_reach(call, &call->slot[i]);
        if (!host->data) return RT_AICORE;
    }
    if (call->work.size && !base_reach(call->device, call->work.at, call->work.size))
        return base_misuse(RT_AICORE, "the workspace of %s is not memory of the device any more",
                           call->op->name);
    return 0;
}

/* Replaces infinities of outputs in f16 by the largest numbers. */
static void outputs_saturate(struct cann_call *call)
{
    for (int i = 0; i < call->n_slot; i++) {
        const struct base_tensor *t = &call->host[i];
        if (!call->slot[i].is_out || t->dtype != BP_F16 || !t->data) continue;
        for (int64_t k = 0; k < base_tensor_count(t); k++) {
            int64_t at = 0, rest = k;
            uint16_t *element;
            for (int axis = t->rank; axis-- > 0; rest /= t->shape[axis])
                at += rest % t->shape[axis] * t->stride[axis];
            element = (uint16_t *)t->data + at;
            if ((*element & 0x7fff) == 0x7c00) *element = (uint16_t)((*element & 0x8000) | 0x7bff);
        }
    }
}

/* The work of an operator: a call of its own. */
static int op_run(void *data, int code)
{
    struct cann_call *call = *(struct cann_call **)data;

    if (code) return code;
    base_lock();
    code = call_reach(call);
    if (!code && call->work.size)
        memset(base_reach(call->device, call->work.at, call->work.size), 0x5c, call->work.size);
    base_unlock();
    if (!code) code = call->op->run(call);
    if (!code && call->saturates) outputs_saturate(call);
    if (code >= 0) return code;
    base_lock();
    code = code == BASE_FAULT
               ? base_refuse(RT_AICORE, "%s: an index is out of range", call->op->name)
               : base_misuse(RT_AICORE, "the stand-in cannot compute %s: %d", call->op->name, code);
    base_unlock();
    return code;
}

static void op_drop(void *data)
{
    free(*(struct cann_call **)data);
}

static const struct base_work op_work = {op_run, op_drop};

static bool ranges_overlap(const void *a, uint64_t a_size, const void *b, uint64_t b_size)
{
    return (uintptr_t)a < (uintptr_t)b + b_size && (uintptr_t)b < (uintptr_t)a + a_size;
}

/* Checks what phase 2 received. Under the lock. */
static int launch_check(struct cann_call *call, void *workspace, uint64_t size)
{
    if (size < call->workspace || (call->workspace && !workspace))
        return base_misuse(NN_INVALID, "the workspace has %llu bytes, phase 1 returned %llu",
                           (unsigned long long)size, (unsigned long long)call->workspace);
    if (call->workspace &&
        (base_find(workspace).place != BASE_DEVICE || !base_reach(call->device, workspace, size)))
        return base_misuse(NN_INVALID, "the workspace at %p is not memory of device %d", workspace,
                           call->device->number);
    for (int i = 0; i < call->n_slot; i++) {
        const struct cann_slot *slot = &call->slot[i];
        const char *port = call->op->port[slot->arg];
        if (!base_handle_is(slot->tensor, cann_tensor_kind))
            return base_misuse(NN_INVALID, "the tensor %s was destroyed before phase 2", port);
        if (tensor_span(&slot->type) && !slot_reach(call, slot)) return NN_INVALID;
        if (call->workspace && slot->data &&
            ranges_overlap(workspace, size, slot->data,
                           (uint64_t)storage_count(&slot->type) *
                               base_dtype_size((uint32_t)cann_bp_dtype(slot->type.dtype))))
            return base_misuse(NN_INVALID, "the workspace overlaps %s", port);
    }
    call->saturates = cann_saturates();
    call->work.at = workspace;
    call->work.size = call->workspace;
    return 0;
}

/* Whether a handle is a living executor of this operator; op NULL: of any. */
static int executor_check(const void *handle, const struct cann_op *op)
{
    const struct cann_executor *e = handle;

    if (!handle) return base_refuse(NN_NULL, "the executor is NULL");
    if (!base_handle_is(handle, cann_executor_kind))
        return base_misuse(NN_RUNTIME, "%p is no executor%s", handle,
                           base_handle_was(handle) ? ": it has served, or was destroyed" : "");
    if (op && e->call.op != op)
        return base_misuse(NN_RUNTIME, "the executor is one of %s", e->call.op->name);
    return 0;
}

int cann_launch(const struct cann_op *op, void *workspace, uint64_t size, void *executor,
                void *handle)
{
    struct cann_context *context;
    struct cann_executor *e = executor;
    struct cann_call *call = NULL;
    struct base_stream *stream;
    int code = cann_enter_context(op->name, &context);

    if (!code) code = executor_check(executor, op);
    if (!code && e->call.device != context->device)
        code = base_misuse(NN_RUNTIME, "the executor was made for device %d",
                           e->call.device->number);
    if (!code && cann_stream(context, handle, &stream)) code = NN_RUNTIME;
    if (!code) code = launch_check(&e->call, workspace, size);
    if (code) return base_leave(nn_code(code, context));
    call = malloc(sizeof *call + call_tail(&e->call, true));
    if (!call) return base_leave(NN_INTERNAL);
    call_copy(call, &e->call, true);
    if (!e->is_repeatable) base_handle_destroy(e);
    code = base_submit(stream, &op_work, &call, sizeof call);
    return base_leave(code ? NN_RUNTIME : 0);
}

CANN_API int aclSetAclOpExecutorRepeatable(void *executor)
{
    int code = base_enter("aclSetAclOpExecutorRepeatable");

    if (!code) code = executor_check(executor, NULL);
    if (!code) ((struct cann_executor *)executor)->is_repeatable = true;
    return base_leave(code);
}

CANN_API int aclDestroyAclOpExecutor(void *executor)
{
    int code = base_enter("aclDestroyAclOpExecutor");

    if (!code) code = executor_check(executor, NULL);
    if (!code) base_handle_destroy(executor);
    return base_leave(code);
}

/* Sets the address of the slot that is the index-th of those wanted. */
static int address_set(const char *name, void *executor, size_t index, void *tensor, void *data,
                       bool ins, bool outs)
{
    int code = base_enter(name);
    struct cann_executor *e = executor;

    if (!code) code = executor_check(executor, NULL);
    if (!code && !e->is_repeatable)
        code = base_refuse(NN_INVALID, "the executor is not repeatable");
    for (int i = 0; !code && i < e->call.n_slot; i++) {
        struct cann_slot *slot = &e->call.slot[i];
        if (!((ins && slot->is_in) || (outs && slot->is_out)) || index--) continue;
        if (slot->tensor != tensor)
            return base_leave(base_misuse(NN_INVALID, "the tensor is not that of %s",
                                          e->call.op->port[slot->arg]));
        slot->data = data;
        return base_leave(0);
    }
    return base_leave(code ? code : base_refuse(NN_INVALID, "the operator has fewer tensors"));
}

CANN_API int aclSetInputTensorAddr(void *executor, size_t index, void *tensor, void *data)
{
    return address_set("aclSetInputTensorAddr", executor, index, tensor, data, true, false);
}

CANN_API int aclSetOutputTensorAddr(void *executor, size_t index, void *tensor, void *data)
{
    return address_set("aclSetOutputTensorAddr", executor, index, tensor, data, false, true);
}

CANN_API int aclSetTensorAddr(void *executor, size_t index, void *tensor, void *data)
{
    return address_set("aclSetTensorAddr", executor, index, tensor, data, true, true);
}
