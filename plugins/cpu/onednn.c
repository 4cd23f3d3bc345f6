/* SPDX-License-Identifier: Apache-2.0 */
/* onednn.c: opens oneDNN, makes plans and runs them; see onednn.h. */
#include "onednn.h"
#include "kernels.h"
#include "library.h"
#include <pthread.h>
#include <string.h>

static const struct cpu_library library = {
    .name = "oneDNN 2",
    .variable = "BP_CPU_DNNL",
    .package = "libdnnl2",
    .places = (const char *const[]){
        "/usr/lib/x86_64-linux-gnu/libdnnl.so.2", /* Debian, Ubuntu */
        "/usr/lib/aarch64-linux-gnu/libdnnl.so.2",
        "/usr/lib64/libdnnl.so.2",                /* Fedora */
        "/usr/local/lib/libdnnl.so.2",
        NULL},
};

enum { SYMBOLS = 0
#define X(function) + 1
    DNNL_SYMBOLS(X)
#undef X
};

/* Opened once a process; constant once tried is set. */
static struct {
    pthread_mutex_t lock;
    bool tried, opened;
    struct onednn call;
} state = {.lock = PTHREAD_MUTEX_INITIALIZER};

enum bp_status cpu_dnnl_usable(struct cpu *self, const char *row)
{
    return cpu_library_usable(self, &library, row);
}

static bool open_once(struct cpu *self)
{
    static const char *const names[] = {
#define X(function) #function,
        DNNL_SYMBOLS(X)
#undef X
    };
    void *symbol[SYMBOLS];

    if (!cpu_library_open(self, &library, names, SYMBOLS, symbol)) return false;
    memcpy(&state.call, symbol, sizeof symbol); /* the functions are its first members, in this order */
    if (state.call.dnnl_engine_create(&state.call.engine, dnnl_cpu, 0) == dnnl_success) return true;
    bp_log(self->host, BP_LOG_WARN, "cpu: oneDNN gives no engine for the processor, its kernels are passed over");
    return false;
}
_Static_assert(offsetof(struct onednn, engine) == SYMBOLS * sizeof(void *), "functions come first, without gaps");

const struct onednn *onednn_open(struct cpu *self)
{
    pthread_mutex_lock(&state.lock);
    if (!state.tried) state.opened = open_once(self);
    state.tried = true;
    bool opened = state.opened;
    pthread_mutex_unlock(&state.lock);
    return opened ? &state.call : NULL;
}

const struct onednn *onednn_opened(void)
{
    return &state.call;
}

bool onednn_desc_strided(const struct onednn *dnnl, dnnl_memory_desc_t *desc, uint8_t dtype, int rank,
                       const int64_t *shape, const int64_t *stride)
{
    dnnl_data_type_t type = dtype == BP_F32 ? dnnl_f32 : dtype == BP_BF16 ? dnnl_bf16 : dnnl_data_type_undef;

    if (!type || rank < 1 || rank > DNNL_MAX_NDIMS) return false;
    for (int a = 0; a < rank; a++)
        if (shape[a] < 1 || (shape[a] > 1 && stride[a] < 1)) return false;
    return dnnl->dnnl_memory_desc_init_by_strides(desc, rank, shape, type, stride) == dnnl_success;
}

bool onednn_desc_init(const struct onednn *dnnl, dnnl_memory_desc_t *desc, const struct bp_view *view)
{
    return onednn_desc_strided(dnnl, desc, view->dtype, view->rank, view->shape, view->stride);
}

/* A tensor of a plan, as its launches need it. */
struct tensor {
    int arg;
    dnnl_memory_desc_t desc; /* as the view lies */
};

struct plan {
    dnnl_primitive_t run, reorder; /* reorder: NULL if all lie as the primitive wants them */
    struct tensor tensor[4];       /* inputs, then the output */
    int tensors, packed, width;
    dnnl_memory_desc_t packed_desc, scratch_desc, reorder_scratch_desc;
    uint64_t packed_size, scratch_size; /* of the workspace, in this order, each rounded up to ALIGNMENT */
};
enum { ALIGNMENT = 64 };

static uint64_t rounded(size_t size)
{
    return ((uint64_t)size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

/* The primitive of desc with its scratch memory in the workspace. Destroys desc. */
static bool primitive_init(const struct onednn *dnnl, dnnl_primitive_desc_t desc, dnnl_primitive_t *out,
                           dnnl_memory_desc_t *scratch)
{
    *scratch = *dnnl->dnnl_primitive_desc_query_md(desc, dnnl_query_scratchpad_md, 0);
    bool made = dnnl->dnnl_primitive_create(out, desc) == dnnl_success;
    dnnl->dnnl_primitive_desc_destroy(desc);
    return made;
}

static bool plan_init(const struct onednn *dnnl, struct plan *plan, const struct onednn_recipe *recipe,
                      const_dnnl_primitive_attr_t attr)
{
    dnnl_primitive_desc_t desc;

    if (dnnl->dnnl_primitive_desc_create(&desc, recipe->op, attr, dnnl->engine, NULL)) return false;
    if (recipe->packed >= 0)
        plan->packed_desc = *dnnl->dnnl_primitive_desc_query_md(desc, recipe->packed_query, 0);
    if (!primitive_init(dnnl, desc, &plan->run, &plan->scratch_desc)) return false;
    plan->scratch_size = rounded(dnnl->dnnl_memory_desc_get_size(&plan->scratch_desc));

    const dnnl_memory_desc_t *lies = recipe->packed < 0 ? NULL : &recipe->slot[recipe->packed].desc;
    if (!lies || dnnl->dnnl_memory_desc_equal(lies, &plan->packed_desc)) return true;
    if (dnnl->dnnl_reorder_primitive_desc_create(&desc, lies, dnnl->engine, &plan->packed_desc, dnnl->engine,
                                                 attr))
        return false;
    if (!primitive_init(dnnl, desc, &plan->reorder, &plan->reorder_scratch_desc)) return false;
    plan->packed_size = rounded(dnnl->dnnl_memory_desc_get_size(&plan->packed_desc));
    uint64_t scratch = rounded(dnnl->dnnl_memory_desc_get_size(&plan->reorder_scratch_desc));
    if (scratch > plan->scratch_size) plan->scratch_size = scratch;
    return true;
}

static void plan_finish(const struct onednn *dnnl, struct plan *plan)
{
    if (plan->run) dnnl->dnnl_primitive_destroy(plan->run);
    if (plan->reorder) dnnl->dnnl_primitive_destroy(plan->reorder);
}

enum bp_status onednn_plan_create(struct cpu *self, const struct bp_prep *prep, const struct onednn_recipe *recipe,
                                struct bp_plan *out)
{
    const struct onednn *dnnl = onednn_opened();
    struct plan made = {.tensors = recipe->slots, .packed = recipe->packed, .width = (int)prep->width};
    dnnl_primitive_attr_t attr;

    if (dnnl->dnnl_primitive_attr_create(&attr)) return BP_ERR_UNSUPPORTED;
    dnnl->dnnl_primitive_attr_set_scratchpad_mode(attr, dnnl_scratchpad_mode_user);
    int before = cpu_team_libraries(made.width); /* oneDNN divides work when it makes a primitive */
    bool good = plan_init(dnnl, &made, recipe, attr);
    cpu_team_libraries(before);
    dnnl->dnnl_primitive_attr_destroy(attr);

    struct plan *plan = good ? self->host->allocate(self->host->ctx, sizeof *plan, _Alignof(struct plan)) : NULL;
    if (!plan) {
        plan_finish(dnnl, &made);
        return good ? bp_fail(self->host, BP_ERR_MEMORY, "cpu: no memory for a plan of oneDNN")
                    : BP_ERR_UNSUPPORTED;
    }
    for (int i = 0; i < recipe->slots; i++)
        made.tensor[i] = (struct tensor){recipe->slot[i].arg, recipe->slot[i].desc};
    *plan = made;
    out->plan = plan;
    out->workspace = made.packed_size + made.scratch_size;
    out->workspace_alignment = ALIGNMENT;
    return BP_OK;
}

void cpu_dnnl_plan_destroy(void *p, const struct bp_kernel *kernel, void *plan)
{
    struct cpu *self = p;

    (void)kernel;
    plan_finish(onednn_opened(), plan);
    self->host->release(self->host->ctx, plan, sizeof(struct plan));
}

/* The memory objects of one launch: a description and an address, nothing more. */
struct memories {
    dnnl_exec_arg_t arg[5];
    int n;
};

static bool memory_add(const struct onednn *dnnl, struct memories *to, int arg, const dnnl_memory_desc_t *desc,
                       void *data)
{
    dnnl_memory_t memory;

    if (dnnl->dnnl_memory_create(&memory, desc, dnnl->engine, data)) return false;
    to->arg[to->n++] = (dnnl_exec_arg_t){arg, memory};
    return true;
}

static void memories_finish(const struct onednn *dnnl, struct memories *memories)
{
    while (memories->n) dnnl->dnnl_memory_destroy(memories->arg[--memories->n].memory);
}

static bool reorder_run(const struct onednn *dnnl, const struct plan *plan, dnnl_stream_t stream, void *from,
                        char *workspace)
{
    struct memories m = {.n = 0};
    bool good = memory_add(dnnl, &m, DNNL_ARG_FROM, &plan->tensor[plan->packed].desc, from) &&
                memory_add(dnnl, &m, DNNL_ARG_TO, &plan->packed_desc, workspace) &&
                memory_add(dnnl, &m, DNNL_ARG_SCRATCHPAD, &plan->reorder_scratch_desc,
                           workspace + plan->packed_size) &&
                dnnl->dnnl_primitive_execute(plan->reorder, stream, m.n, m.arg) == dnnl_success;

    memories_finish(dnnl, &m);
    return good;
}

static bool primitive_run(const struct onednn *dnnl, const struct plan *plan, dnnl_stream_t stream,
                          const struct bp_launch *launch)
{
    struct memories m = {.n = 0};
    char *workspace = launch->workspace;
    bool good = memory_add(dnnl, &m, DNNL_ARG_SCRATCHPAD, &plan->scratch_desc,
                           plan->scratch_size ? workspace + plan->packed_size : NULL);

    for (int i = 0; i < plan->tensors && good; i++) {
        bool output = i == plan->tensors - 1, packed = plan->reorder && i == plan->packed;
        void *data = output ? launch->out[0]->data : launch->in[i]->data;
        good = packed ? reorder_run(dnnl, plan, stream, data, workspace) &&
                            memory_add(dnnl, &m, plan->tensor[i].arg, &plan->packed_desc, workspace)
                      : memory_add(dnnl, &m, plan->tensor[i].arg, &plan->tensor[i].desc, data);
    }
    good = good && dnnl->dnnl_primitive_execute(plan->run, stream, m.n, m.arg) == dnnl_success;
    memories_finish(dnnl, &m);
    return good;
}

enum bp_status onednn_plan_run(const struct bp_launch *launch)
{
    const struct onednn *dnnl = onednn_opened();
    const struct plan *plan = launch->plan;
    struct cpu *self = launch->self;
    dnnl_stream_t stream;

    if (dnnl->dnnl_stream_create(&stream, dnnl->engine, dnnl_stream_default_flags))
        return bp_fail(self->host, BP_ERR_MEMORY, "%s: oneDNN gives no stream", launch->kernel->name);
    int before = cpu_team_libraries(plan->width);
    bool good = primitive_run(dnnl, plan, stream, launch);
    cpu_team_libraries(before);
    dnnl->dnnl_stream_destroy(stream);
    return good ? BP_OK : bp_fail(self->host, BP_ERR_DEVICE, "%s: oneDNN failed to run it; BP_CPU_DNNL=off "
                                  "computes without oneDNN", launch->kernel->name);
}
