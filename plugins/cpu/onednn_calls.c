/* SPDX-License-Identifier: Apache-2.0 */
/* onednn_calls.c: opens oneDNN, and hides the differences between its versions 2 and 3; see
 * onednn.h. */
#include "onednn.h"
#include "kernels.h"
#include "library.h"
#include <pthread.h>
#include <string.h>

static const struct cpu_library library = {
    .name = "oneDNN 2 or 3",
    .variable = "BP_CPU_DNNL",
    .package = "libdnnl2 or libdnnl3",
    .places = (const char *const[]){
        "/usr/lib/x86_64-linux-gnu/libdnnl.so.2", /* Debian, Ubuntu */
        "/usr/lib/x86_64-linux-gnu/libdnnl.so.3",
        "/usr/lib/aarch64-linux-gnu/libdnnl.so.2",
        "/usr/lib/aarch64-linux-gnu/libdnnl.so.3",
        "/usr/lib64/libdnnl.so.2",                /* Fedora */
        "/usr/lib64/libdnnl.so.3",
        "/usr/local/lib/libdnnl.so.2",
        "/usr/local/lib/libdnnl.so.3",
        NULL},
};

/* Names of functions, in the order of the pointers to them. */
static const char *const names[] = {
#define X(function) #function,
    DNNL_SYMBOLS(X)
#undef X
};
static const char *const names_two[] = {
#define X(function) #function,
    DNNL_SYMBOLS_2(X)
#undef X
};
static const char *const names_three[] = {
#define X(function, parameters) #function,
    DNNL_SYMBOLS_3(X)
#undef X
};
_Static_assert(offsetof(struct onednn, two) == sizeof names &&
                   sizeof(struct onednn_two) == sizeof names_two &&
                   sizeof(struct onednn_three) == sizeof names_three,
               "functions come first, without gaps");

/* Opened once per process; constant once `tried` is set. */
static struct {
    pthread_mutex_t lock;
    bool tried, opened;
    struct onednn call;
} state = {.lock = PTHREAD_MUTEX_INITIALIZER};

enum bp_status cpu_dnnl_usable(struct cpu *self, const char *row)
{
    return cpu_library_usable(self, &library, row);
}

void cpu_dnnl_check(struct cpu *self)
{
    cpu_library_check(self, &library);
}

bool cpu_dnnl_name(char *out, size_t size)
{
    return cpu_library_name(&library, out, size);
}

/* Applies BP_CPU_ISA to the library too. This fails if an app that uses the same file has already
 * fixed the library's instruction set. */
static void limit_isa(struct cpu *self)
{
    dnnl_cpu_isa_t isa = self->isa == CPU_ISA_AVX2 ? dnnl_cpu_isa_avx2 : dnnl_cpu_isa_sse41;

    if (self->isa_capped && state.call.dnnl_set_max_cpu_isa(isa) != dnnl_success)
        bp_log(self->host, BP_LOG_WARN, "cpu: oneDNN does not let its instructions be limited now");
}

/* Looks up the functions of one version at the addresses of to. */
static bool version_open(struct cpu *self, const char *const *function, int n, void *to)
{
    void *symbol[32];

    if (!cpu_library_open(self, &library, function, n, symbol)) return false;
    memcpy(to, symbol, (size_t)n * sizeof *symbol);
    return true;
}

/* Plans are made for a number of OpenMP threads (team.c). Another threading runtime would choose
 * its own threads. */
static bool version_fits(struct cpu *self, const dnnl_version_t *version)
{
    if ((version->major == 2 || version->major == 3) &&
        (version->cpu_runtime == DNNL_RUNTIME_OMP || version->cpu_runtime == DNNL_RUNTIME_SEQ))
        return true;
    bp_log(self->host, BP_LOG_WARN,
           "cpu: oneDNN is version %d.%d with threading runtime %u, its kernels are passed over; "
           "expected version 2 or 3 with OpenMP (%u), as in %s; BP_CPU_DNNL names another file",
           version->major, version->minor, version->cpu_runtime, DNNL_RUNTIME_OMP,
           library.package);
    return false;
}

static bool open_once(struct cpu *self)
{
    const int n = sizeof names / sizeof *names, n_two = sizeof names_two / sizeof *names_two,
              n_three = sizeof names_three / sizeof *names_three;
    struct onednn *call = &state.call;

    if (!version_open(self, names, n, call)) return false;
    const dnnl_version_t *version = call->dnnl_version();
    call->major = version->major;
    if (!version_fits(self, version)) return false;
    if (!(call->major == 2 ? version_open(self, names_two, n_two, &call->two)
                           : version_open(self, names_three, n_three, &call->three)))
        return false;
    limit_isa(self);
    if (call->dnnl_engine_create(&call->engine, dnnl_cpu, 0)) {
        bp_log(self->host, BP_LOG_WARN,
               "cpu: oneDNN gives no engine for the processor, its kernels are passed over");
        return false;
    }
    bp_log(self->host, BP_LOG_INFO, "cpu: oneDNN %d.%d.%d", version->major, version->minor,
           version->patch);
    return true;
}

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

const dnnl_memory_desc_t *onednn_desc_pointer(const struct onednn_desc *desc)
{
    return desc->three ? desc->three : &desc->two;
}

bool onednn_desc_strided(const struct onednn *dnnl, struct onednn_desc *desc, uint8_t dtype,
                         int rank, const int64_t *shape, const int64_t *stride)
{
    dnnl_data_type_t type = dtype == BP_F32    ? dnnl_f32
                            : dtype == BP_BF16 ? dnnl_bf16
                                               : dnnl_data_type_undef;

    if (!type || rank < 1 || rank > DNNL_MAX_NDIMS) return false;
    for (int a = 0; a < rank; a++)
        if (shape[a] < 1 || (shape[a] > 1 && stride[a] < 1)) return false;
    *desc = (struct onednn_desc){0};
    if (dnnl->major == 2)
        return !dnnl->two.dnnl_memory_desc_init_by_strides(&desc->two, rank, shape, type, stride);
    desc->two.ndims = rank;
    desc->two.data_type = type;
    memcpy(desc->two.dims, shape, (size_t)rank * sizeof *shape);
    return !dnnl->three.dnnl_memory_desc_create_with_strides(&desc->three, rank, shape, type,
                                                             stride);
}

bool onednn_desc_init(const struct onednn *dnnl, struct onednn_desc *desc,
                      const struct bp_view *view)
{
    return onednn_desc_strided(dnnl, desc, view->dtype, view->rank, view->shape, view->stride);
}

bool onednn_desc_any(const struct onednn *dnnl, struct onednn_desc *any,
                     const struct onednn_desc *desc)
{
    *any = (struct onednn_desc){.two = desc->two};
    any->two.format_kind = dnnl_format_kind_any;
    return dnnl->major == 2 ||
           !dnnl->three.dnnl_memory_desc_create_with_tag(&any->three, desc->two.ndims,
                                                         desc->two.dims, desc->two.data_type,
                                                         dnnl_format_tag_any);
}

bool onednn_desc_copy(const struct onednn *dnnl, struct onednn_desc *to,
                      const struct onednn_desc *from)
{
    *to = (struct onednn_desc){.two = from->two};
    return dnnl->major == 2 || !dnnl->three.dnnl_memory_desc_clone(&to->three, from->three);
}

bool onednn_desc_query(const struct onednn *dnnl, struct onednn_desc *to,
                       const_dnnl_primitive_desc_t primitive, dnnl_query_t query)
{
    const dnnl_memory_desc_t *found = dnnl->dnnl_primitive_desc_query_md(primitive, query, 0);

    *to = (struct onednn_desc){0};
    if (!found) return false;
    if (dnnl->major == 3) return !dnnl->three.dnnl_memory_desc_clone(&to->three, found);
    to->two = *found;
    return true;
}

void onednn_desc_finish(const struct onednn *dnnl, struct onednn_desc *desc)
{
    if (desc->three) dnnl->three.dnnl_memory_desc_destroy(desc->three);
    desc->three = NULL;
}

bool onednn_desc_equal(const struct onednn *dnnl, const struct onednn_desc *a,
                       const struct onednn_desc *b)
{
    return dnnl->dnnl_memory_desc_equal(onednn_desc_pointer(a), onednn_desc_pointer(b));
}

bool onednn_attr_add(const struct onednn *dnnl, dnnl_primitive_attr_t attr)
{
    dnnl_post_ops_t ops;
    bool good;

    if (dnnl->dnnl_post_ops_create(&ops)) return false;
    good = !(dnnl->major == 2
                 ? dnnl->two.dnnl_post_ops_append_sum(ops, 1)
                 : dnnl->three.dnnl_post_ops_append_sum(ops, 1, 0, dnnl_data_type_undef)) &&
           !dnnl->dnnl_primitive_attr_set_post_ops(attr, ops);
    dnnl->dnnl_post_ops_destroy(ops);
    return good;
}

/* Describes the gradient of a convolution in its filters. oneDNN needs the description of the
 * forward convolution, which has the same layouts. desc: as in onednn_recipe_describe. */
static bool describe_weights_two(const struct onednn *dnnl, const struct onednn_window *w,
                                 const dnnl_memory_desc_t *const *desc,
                                 const_dnnl_primitive_attr_t attr, dnnl_primitive_desc_t *out)
{
    dnnl_convolution_desc_t op, forward;
    dnnl_primitive_desc_t hint;
    bool good;

    if (dnnl->two.dnnl_dilated_convolution_forward_desc_init(
            &forward, dnnl_forward_training, dnnl_convolution_direct, desc[1], desc[3], NULL,
            desc[0], w->step, w->holes, w->before, w->after) ||
        dnnl->two.dnnl_dilated_convolution_backward_weights_desc_init(
            &op, dnnl_convolution_direct, desc[1], desc[3], NULL, desc[0], w->step, w->holes,
            w->before, w->after) ||
        dnnl->two.dnnl_primitive_desc_create(&hint, &forward, NULL, dnnl->engine, NULL))
        return false;
    good = !dnnl->two.dnnl_primitive_desc_create(out, &op, attr, dnnl->engine, hint);
    dnnl->dnnl_primitive_desc_destroy(hint);
    return good;
}

static bool describe_weights_three(const struct onednn *dnnl, const struct onednn_window *w,
                                   const dnnl_memory_desc_t *const *desc,
                                   const_dnnl_primitive_attr_t attr, dnnl_primitive_desc_t *out)
{
    dnnl_primitive_desc_t hint;
    bool good;

    if (dnnl->three.dnnl_convolution_forward_primitive_desc_create(
            &hint, dnnl->engine, dnnl_forward_training, dnnl_convolution_direct, desc[1], desc[3],
            NULL, desc[0], w->step, w->holes, w->before, w->after, NULL))
        return false;
    good = !dnnl->three.dnnl_convolution_backward_weights_primitive_desc_create(
        out, dnnl->engine, dnnl_convolution_direct, desc[1], desc[3], NULL, desc[0], w->step,
        w->holes, w->before, w->after, hint, attr);
    dnnl->dnnl_primitive_desc_destroy(hint);
    return good;
}

static bool describe_two(const struct onednn *dnnl, const struct onednn_recipe *recipe,
                         const dnnl_memory_desc_t *const *desc, const_dnnl_primitive_attr_t attr,
                         dnnl_primitive_desc_t *out)
{
    const struct onednn_window *w = recipe->window;
    union {
        dnnl_convolution_desc_t conv;
        dnnl_deconvolution_desc_t deconv;
        dnnl_matmul_desc_t matmul;
    } op;
    dnnl_status_t status;

    if (!w) {
        status = dnnl->two.dnnl_matmul_desc_init(&op.matmul, desc[0], desc[1], desc[2], desc[3]);
    } else if (w->transposed) {
        status = dnnl->two.dnnl_dilated_deconvolution_forward_desc_init(
            &op.deconv, dnnl_forward_inference, dnnl_deconvolution_direct, desc[0], desc[1],
            desc[2], desc[3], w->step, w->holes, w->before, w->after);
    } else {
        status = dnnl->two.dnnl_dilated_convolution_forward_desc_init(
            &op.conv, dnnl_forward_inference,
            w->winograd ? dnnl_convolution_winograd : dnnl_convolution_direct, desc[0], desc[1],
            desc[2], desc[3], w->step, w->holes, w->before, w->after);
    }
    return !status &&
           !dnnl->two.dnnl_primitive_desc_create(out, &op, attr, dnnl->engine, NULL);
}

static bool describe_three(const struct onednn *dnnl, const struct onednn_recipe *recipe,
                           const dnnl_memory_desc_t *const *desc, const_dnnl_primitive_attr_t attr,
                           dnnl_primitive_desc_t *out)
{
    const struct onednn_window *w = recipe->window;

    if (!w)
        return !dnnl->three.dnnl_matmul_primitive_desc_create(out, dnnl->engine, desc[0], desc[1],
                                                              desc[2], desc[3], attr);
    return !(w->transposed ? dnnl->three.dnnl_deconvolution_forward_primitive_desc_create
                           : dnnl->three.dnnl_convolution_forward_primitive_desc_create)(
        out, dnnl->engine, dnnl_forward_inference,
        w->transposed ? dnnl_deconvolution_direct
        : w->winograd ? dnnl_convolution_winograd
                      : dnnl_convolution_direct,
        desc[0], desc[1], desc[2], desc[3], w->step, w->holes, w->before, w->after, attr);
}

bool onednn_recipe_describe(const struct onednn *dnnl, const struct onednn_recipe *recipe,
                            const_dnnl_primitive_attr_t attr, dnnl_primitive_desc_t *out)
{
    const dnnl_memory_desc_t *desc[4] = {NULL}; /* src, weights, bias, dst */

    for (int i = 0; i < recipe->slots; i++) {
        int at = i == recipe->slots - 1 ? 3 : i;
        desc[at] = onednn_desc_pointer(recipe->slot[i].wanted);
    }
    if (recipe->window && recipe->window->of_weights)
        return (dnnl->major == 2 ? describe_weights_two
                                 : describe_weights_three)(dnnl, recipe->window, desc, attr, out);
    return (dnnl->major == 2 ? describe_two : describe_three)(dnnl, recipe, desc, attr, out);
}
