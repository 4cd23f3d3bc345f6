/* SPDX-License-Identifier: Apache-2.0 */
/* onednn.c: creates, runs and destroys plans of oneDNN; see onednn.h. */
#include "onednn.h"
#include "kernels.h"
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

/* A tensor of a plan. If the primitive needs another layout, `reorder` converts the tensor to this
 * layout (or an output back from it): in each run, but for constants only once, when the plan is
 * made. */
struct tensor {
    int arg;
    bool is_output;
    struct onednn_desc lies, wants, scratch;
    dnnl_primitive_t reorder; /* NULL: the view's layout is used directly */
    uint64_t at;              /* otherwise the tensor's offset in the workspace */
    struct onednn_pack *pack; /* the reordered copy of a constant */
    uint64_t bytes;           /* size in the primitive's layout */
};

struct runner;

struct plan {
    dnnl_primitive_t run;
    _Atomic(struct runner *) idle; /* of the last launch, for the next one; NULL: none */
    struct onednn_desc scratch;
    struct tensor tensor[4]; /* the inputs, then the output */
    int tensors, width;
    uint64_t scratch_size; /* at the workspace's beginning; the primitives use it one after the
                              other */
    uint64_t workspace;
    uint64_t packed; /* bytes that this plan was the first to pack */
    struct onednn_epilogue epilogue;
    uint64_t sum_at; /* with a residual: where the result of the primitive is in the workspace */
};

/* Whether the implementation has this word in its name. Reference implementations, which are slow,
 * are "ref:any", "gemm:ref"; those by GEMM are "gemm:jit", "x64:gemm:jit". */
static bool onednn_is(const struct onednn *dnnl, const_dnnl_primitive_desc_t desc, const char *word)
{
    const char *name = "";

    dnnl->dnnl_primitive_desc_query(desc, dnnl_query_impl_info_str, 0, &name);
    return strstr(name, word) != NULL;
}

static uint64_t onednn_size_of(const struct onednn *dnnl, const struct onednn_desc *desc)
{
    uint64_t size = dnnl->dnnl_memory_desc_get_size(onednn_desc_pointer(desc));

    return (size + ONEDNN_ALIGNMENT - 1) / ONEDNN_ALIGNMENT * ONEDNN_ALIGNMENT;
}

/* Creates the primitive of desc, destroys desc, and reserves its scratch memory in the workspace.
 * false: there is no implementation, or only a reference implementation. */
static bool primitive_init(const struct onednn *dnnl, struct plan *plan, dnnl_primitive_desc_t desc,
                           dnnl_primitive_t *out, struct onednn_desc *scratch)
{
    bool made = onednn_desc_query(dnnl, scratch, desc, dnnl_query_scratchpad_md);
    uint64_t size = made ? onednn_size_of(dnnl, scratch) : 0;

    if (size > plan->scratch_size) plan->scratch_size = size;
    made = made && !onednn_is(dnnl, desc, "ref") && !dnnl->dnnl_primitive_create(out, desc);
    dnnl->dnnl_primitive_desc_destroy(desc);
    return made;
}

/* Determines the layout that the primitive needs for slot i, and creates the reorder to it. */
static bool tensor_init(const struct onednn *dnnl, struct plan *plan, int i,
                        const struct onednn_slot *slot, const_dnnl_primitive_desc_t run,
                        const_dnnl_primitive_attr_t attr)
{
    struct tensor *t = &plan->tensor[i];
    dnnl_primitive_desc_t desc;

    t->arg = slot->arg;
    t->is_output = i == plan->tensors - 1;
    if (!onednn_desc_copy(dnnl, &t->lies, slot->desc) ||
        !(slot->query ? onednn_desc_query(dnnl, &t->wants, run, slot->query)
                      : onednn_desc_copy(dnnl, &t->wants, slot->desc)))
        return false;
    if (onednn_desc_equal(dnnl, &t->lies, &t->wants)) return true;
    const dnnl_memory_desc_t *lies = onednn_desc_pointer(&t->lies),
                             *wants = onednn_desc_pointer(&t->wants);
    bool back = t->is_output;
    if (dnnl->dnnl_reorder_primitive_desc_create(&desc, back ? wants : lies, dnnl->engine,
                                                 back ? lies : wants, dnnl->engine, attr))
        return false;
    t->bytes = onednn_size_of(dnnl, &t->wants);
    if (!slot->constant) {
        t->at = plan->workspace;
        plan->workspace += t->bytes;
    }
    return primitive_init(dnnl, plan, desc, &t->reorder, &t->scratch);
}

/* attr: of the product; plain: of reorders. */
static bool plan_init(const struct onednn *dnnl, struct plan *plan,
                      const struct onednn_recipe *recipe, dnnl_primitive_attr_t attr,
                      const_dnnl_primitive_attr_t plain)
{
    dnnl_primitive_desc_t desc;
    bool adds = plan->epilogue.copy != NULL, good = true;

    if ((adds && !onednn_attr_add(dnnl, attr)) ||
        !onednn_recipe_describe(dnnl, recipe, attr, &desc))
        return false;
    if (adds && onednn_is(dnnl, desc, "gemm")) {
        dnnl->dnnl_primitive_desc_destroy(desc);
        return false;
    }
    plan->tensors = recipe->slots;
    for (int i = 0; i < recipe->slots && good; i++)
        good = tensor_init(dnnl, plan, i, &recipe->slot[i], desc, plain);
    good = primitive_init(dnnl, plan, desc, &plan->run, &plan->scratch) && good;
    for (int i = 0; i < recipe->slots; i++) plan->tensor[i].at += plan->scratch_size;
    plan->workspace += plan->scratch_size;
    if (plan->epilogue.add && good) {
        plan->sum_at = plan->workspace;
        plan->workspace += onednn_size_of(dnnl, &plan->tensor[plan->tensors - 1].lies);
    }
    return good;
}

static void runner_destroy(const struct onednn *dnnl, struct cpu *self, struct runner *r);

static void plan_finish(struct cpu *self, struct plan *plan)
{
    const struct onednn *dnnl = onednn_opened();

    if (plan->idle) runner_destroy(dnnl, self, plan->idle);
    if (plan->run) dnnl->dnnl_primitive_destroy(plan->run);
    onednn_desc_finish(dnnl, &plan->scratch);
    for (int i = 0; i < plan->tensors; i++) {
        struct tensor *t = &plan->tensor[i];
        if (t->reorder) dnnl->dnnl_primitive_destroy(t->reorder);
        if (t->pack) onednn_pack_release(self, t->pack);
        onednn_desc_finish(dnnl, &t->lies);
        onednn_desc_finish(dnnl, &t->wants);
        onednn_desc_finish(dnnl, &t->scratch);
    }
}

/* The memory objects of one primitive's run: each is only a description and an address. */
struct memories {
    dnnl_exec_arg_t arg[5];
    void *at[5]; /* their addresses */
    int n;
};

static bool memory_add(const struct onednn *dnnl, struct memories *to, int arg,
                       const struct onednn_desc *desc, void *data)
{
    dnnl_memory_t memory;

    if (dnnl->dnnl_memory_create(&memory, onednn_desc_pointer(desc), dnnl->engine, data))
        return false;
    to->at[to->n] = data;
    to->arg[to->n++] = (dnnl_exec_arg_t){arg, memory};
    return true;
}

/* Sets the address of a memory object. Most launches of a plan have the addresses of the launch
 * before. */
static bool memory_set(const struct onednn *dnnl, struct memories *m, int i, void *data)
{
    if (m->at[i] == data) return true;
    if (dnnl->dnnl_memory_set_data_handle(m->arg[i].memory, data)) return false;
    m->at[i] = data;
    return true;
}

static void memories_finish(const struct onednn *dnnl, struct memories *memories)
{
    while (memories->n) dnnl->dnnl_memory_destroy(memories->arg[--memories->n].memory);
}

/* The objects that one launch of a plan uses at a time. Their creation takes as long as a small
 * product, so a plan keeps those of its last launch. */
struct runner {
    dnnl_stream_t stream;
    struct memories run;        /* the scratch memory, then the tensors */
    struct memories reorder[4]; /* of each tensor that has a reorder: the tensor in the view's
                                   layout, in the primitive's layout, and the scratch memory */
};

static bool reorder_init(const struct onednn *dnnl, const struct tensor *t, struct memories *m)
{
    bool back = t->is_output;

    return memory_add(dnnl, m, back ? DNNL_ARG_TO : DNNL_ARG_FROM, &t->lies, NULL) &&
           memory_add(dnnl, m, back ? DNNL_ARG_FROM : DNNL_ARG_TO, &t->wants, NULL) &&
           memory_add(dnnl, m, DNNL_ARG_SCRATCHPAD, &t->scratch, NULL);
}

static bool runner_init(const struct onednn *dnnl, const struct plan *plan, struct runner *r)
{
    bool good = !dnnl->dnnl_stream_create(&r->stream, dnnl->engine, dnnl_stream_default_flags) &&
                memory_add(dnnl, &r->run, DNNL_ARG_SCRATCHPAD, &plan->scratch, NULL);

    for (int i = 0; i < plan->tensors && good; i++) {
        const struct tensor *t = &plan->tensor[i];
        good = memory_add(dnnl, &r->run, t->arg, &t->wants, t->pack ? t->pack->data : NULL) &&
               (!t->reorder || reorder_init(dnnl, t, &r->reorder[i]));
    }
    return good;
}

static void runner_destroy(const struct onednn *dnnl, struct cpu *self, struct runner *r)
{
    memories_finish(dnnl, &r->run);
    for (int i = 0; i < 4; i++) memories_finish(dnnl, &r->reorder[i]);
    if (r->stream) dnnl->dnnl_stream_destroy(r->stream);
    self->host->release(self->host->ctx, r, sizeof *r);
}

/* Takes the plan's idle runner or creates one; NULL: there is no memory. */
static struct runner *runner_take(const struct onednn *dnnl, struct cpu *self, struct plan *plan)
{
    struct runner *r = atomic_exchange(&plan->idle, NULL);

    if (r) return r;
    r = self->host->allocate(self->host->ctx, sizeof *r, _Alignof(struct runner));
    if (!r) return NULL;
    *r = (struct runner){0};
    if (runner_init(dnnl, plan, r)) return r;
    runner_destroy(dnnl, self, r);
    return NULL;
}

static void runner_put(const struct onednn *dnnl, struct cpu *self, struct plan *plan,
                       struct runner *r)
{
    r = atomic_exchange(&plan->idle, r);
    if (r) runner_destroy(dnnl, self, r); /* that of a launch at the same time */
}

/* data: the tensor in the view's layout; there: in the primitive's layout. */
static bool reorder_run(const struct onednn *dnnl, const struct tensor *t, dnnl_stream_t stream,
                        struct memories *m, void *data, void *there, void *scratch)
{
    return memory_set(dnnl, m, 0, data) && memory_set(dnnl, m, 1, there) &&
           memory_set(dnnl, m, 2, scratch) &&
           dnnl->dnnl_primitive_execute(t->reorder, stream, m->n, m->arg) == dnnl_success;
}

/* Writes a constant into the pack's memory, in the primitive's layout. */
static bool onednn_fill(struct cpu *self, const struct plan *plan, const struct tensor *t,
                        void *data)
{
    const struct onednn *dnnl = onednn_opened();
    void *scratch = self->host->allocate(self->host->ctx, plan->scratch_size + 1, ONEDNN_ALIGNMENT);
    struct memories m = {.n = 0};
    dnnl_stream_t stream;
    bool good = scratch &&
                !dnnl->dnnl_stream_create(&stream, dnnl->engine, dnnl_stream_default_flags);

    if (good) {
        good = reorder_init(dnnl, t, &m) &&
               reorder_run(dnnl, t, stream, &m, data, t->pack->data, scratch);
        memories_finish(dnnl, &m);
        dnnl->dnnl_stream_destroy(stream);
    }
    if (scratch) self->host->release(self->host->ctx, scratch, plan->scratch_size + 1);
    return good;
}

static enum bp_status onednn_no_memory(const struct cpu *self)
{
    return bp_fail(self->host, BP_ERR_MEMORY, "cpu: no memory for a plan of oneDNN");
}

/* The lock also waits for a pack that another thread is filling. */
static enum bp_status onednn_pack_weights(struct cpu *self, struct plan *plan, struct tensor *t,
                                          const struct bp_prep *prep, int input)
{
    const struct onednn *dnnl = onednn_opened();
    struct onednn_pack like = {.from = prep->in[input]->data, .lies = t->lies, .wants = t->wants,
                               .bytes = t->bytes};
    enum bp_status status = BP_OK;

    if (prep->constant) like.constant = prep->constant[input];
    pthread_mutex_lock(&self->packs_lock);
    t->pack = onednn_pack_find(self, &like);
    if (!t->pack) status = cpu_constant_read(self, prep, input);
    if (!t->pack && !status) {
        t->pack = onednn_pack_make(self, &like);
        if (!t->pack || !onednn_fill(self, plan, t, prep->in[input]->data))
            status = onednn_no_memory(self);
        if (t->pack && status) t->pack->constant = 0; /* no other plan may use it */
        plan->packed += t->bytes;
    }
    pthread_mutex_unlock(&self->packs_lock);
    dnnl->dnnl_primitive_destroy(t->reorder);
    t->reorder = NULL;
    return status;
}

static enum bp_status pack_constants(struct cpu *self, struct plan *plan,
                                     const struct bp_prep *prep,
                                     const struct onednn_recipe *recipe)
{
    enum bp_status status = BP_OK;

    for (int i = 0; i < plan->tensors && !status; i++)
        if (recipe->slot[i].constant && plan->tensor[i].reorder)
            status = onednn_pack_weights(self, plan, &plan->tensor[i], prep, i);
    return status;
}

static bool onednn_attr_create(const struct onednn *dnnl, dnnl_primitive_attr_t *out)
{
    if (dnnl->dnnl_primitive_attr_create(out)) return false;
    dnnl->dnnl_primitive_attr_set_scratchpad_mode(*out, dnnl_scratchpad_mode_user);
    return true;
}

/* The threads of the plan: those of the rule for the plugin's own rows. */
static int recipe_width(const struct onednn *dnnl, const struct onednn_recipe *recipe,
                        uint32_t most)
{
    double bytes = 0;

    for (int i = 0; i < recipe->slots; i++)
        bytes += (double)dnnl->dnnl_memory_desc_get_size(onednn_desc_pointer(recipe->slot[i].desc));
    return (int)cpu_width_choose(most, cpu_product_work(recipe->terms, bytes));
}

/* The inputs of which launches read the packed copy. */
static uint64_t plan_unread(const struct plan *plan)
{
    uint64_t unread = 0;

    for (int i = 0; i < plan->tensors - 1; i++)
        if (plan->tensor[i].pack) unread |= UINT64_C(1) << i;
    return unread;
}

enum bp_status onednn_plan_create(struct cpu *self, const struct bp_prep *prep,
                                  const struct onednn_recipe *recipe, struct bp_plan *out)
{
    const struct onednn *dnnl = onednn_opened();
    struct plan made = {.width = recipe_width(dnnl, recipe, prep->width), .epilogue.images = 1};
    dnnl_primitive_attr_t attr, plain;

    if (recipe->epilogue) made.epilogue = *recipe->epilogue;
    if (!onednn_attr_create(dnnl, &attr)) return BP_ERR_UNSUPPORTED;
    if (!onednn_attr_create(dnnl, &plain)) {
        dnnl->dnnl_primitive_attr_destroy(attr);
        return BP_ERR_UNSUPPORTED;
    }
    struct cpu_team_setting before = cpu_team_begin(made.width); /* oneDNN divides work here */
    bool good = plan_init(dnnl, &made, recipe, attr, plain);
    enum bp_status status = good ? pack_constants(self, &made, prep, recipe) : BP_ERR_UNSUPPORTED;
    cpu_team_end(before);
    dnnl->dnnl_primitive_attr_destroy(attr);
    dnnl->dnnl_primitive_attr_destroy(plain);

    struct plan *plan = NULL;
    if (status == BP_OK)
        plan = self->host->allocate(self->host->ctx, sizeof *plan, _Alignof(struct plan));
    if (!plan) {
        plan_finish(self, &made);
        return status ? status : onednn_no_memory(self);
    }
    *plan = made;
    out->plan = plan;
    out->workspace = made.workspace;
    out->workspace_alignment = ONEDNN_ALIGNMENT;
    out->bytes = made.packed;
    if (BP_HAS(out, unread)) out->unread = plan_unread(plan);
    return BP_OK;
}

void cpu_dnnl_plan_destroy(void *p, const struct bp_kernel *kernel, void *plan)
{
    struct cpu *self = p;

    (void)kernel;
    plan_finish(self, plan);
    self->host->release(self->host->ctx, plan, sizeof(struct plan));
}

/* Where input i or the output (i: the number of the last tensor) of an image is. */
static void *plan_data(const struct plan *plan, const struct bp_launch *launch, int i,
                       int64_t image)
{
    const struct onednn_epilogue *then = &plan->epilogue;

    if (i < plan->tensors - 1)
        return (char *)launch->in[i]->data + (i ? 0 : (uint64_t)image * then->x_step);
    return then->add ? (char *)launch->workspace + plan->sum_at
                     : (char *)launch->out[0]->data + (uint64_t)image * then->y_step;
}

static bool plan_run(const struct onednn *dnnl, const struct plan *plan, struct runner *r,
                     const struct bp_launch *launch, int64_t image)
{
    int last = plan->tensors - 1;
    char *workspace = launch->workspace;
    bool good = memory_set(dnnl, &r->run, 0, workspace);

    for (int i = 0; i <= last && good; i++) {
        const struct tensor *t = &plan->tensor[i];
        void *data = plan_data(plan, launch, i, image);
        void *there = t->pack ? t->pack->data : t->reorder ? workspace + t->at : data;
        if (t->reorder && i < last)
            good = reorder_run(dnnl, t, r->stream, &r->reorder[i], data, there, workspace);
        good = good && memory_set(dnnl, &r->run, i + 1, there);
    }
    good = good && dnnl->dnnl_primitive_execute(plan->run, r->stream, r->run.n, r->run.arg) ==
                       dnnl_success;
    if (good && plan->tensor[last].reorder)
        good = reorder_run(dnnl, &plan->tensor[last], r->stream, &r->reorder[last],
                           plan_data(plan, launch, last, image), workspace + plan->tensor[last].at,
                           workspace);
    return good;
}

enum bp_status onednn_plan_run(const struct bp_launch *launch)
{
    const struct onednn *dnnl = onednn_opened();
    struct plan *plan = launch->plan;
    const struct onednn_epilogue *then = &plan->epilogue;
    void *sum = then->add ? (char *)launch->workspace + plan->sum_at : NULL;
    struct cpu *self = launch->self;
    enum bp_status status = onednn_epilogue_begin(launch, then);
    struct runner *runner;
    bool good = true;

    if (status) return status;
    runner = runner_take(dnnl, self, plan);
    if (!runner)
        return bp_fail(self->host, BP_ERR_MEMORY, "%s: no memory for a launch of oneDNN",
                       launch->kernel->name);
    for (int64_t image = 0; image < then->images && good && !status; image++) {
        struct cpu_team_setting before = cpu_team_begin(plan->width);
        good = plan_run(dnnl, plan, runner, launch, image);
        cpu_team_end(before);
        if (good && (then->add || then->activate))
            status = onednn_epilogue_run(launch, then, image, sum);
    }
    runner_put(dnnl, self, plan, runner);
    if (good) return status;
    return bp_fail(self->host, BP_ERR_DEVICE,
                   "%s: oneDNN failed to run it; BP_CPU_DNNL=off computes without it",
                   launch->kernel->name);
}
