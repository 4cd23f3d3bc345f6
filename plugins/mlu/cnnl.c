/* SPDX-License-Identifier: Apache-2.0 */
/* cnnl.c: opens the library of CNNL, translates its statuses, and makes the handles of streams.
 *
 * BP_MLU_CNNL names the file of the library instead ("off": none). */
#include "cnnl.h"
#include "folders.h"

static const struct kit_symbol symbols[] = {
#define CALL(result, name, parameters) {#name, true},
#define CALL_OR_NONE(result, name, parameters) {#name, false},
#include "cnnl.def"
};

union mlu_cnnl_table mlu_cnnl;
_Static_assert(sizeof mlu_cnnl.call == sizeof mlu_cnnl.function, "functions alone");

static struct kit_library library = KIT_LIBRARY(symbols, mlu_cnnl.function,
                                                ": install CNNL 1.x, of a CNToolkit 3");

enum bp_status mlu_cnnl_open(void)
{
    static const char *const names[] = {"libcnnl.so", "libcnnl.so.*", NULL};
    static const struct kit_wanted wanted = {"mlu", "CNNL", names, MLU_FOLDERS, mlu_places};

    return kit_library_load(&library, &wanted);
}

const char *mlu_cnnl_why(void)
{
    return library.why;
}

const char *mlu_cnnl_path(void)
{
    return library.path;
}

const char *mlu_cnnl_name(enum mlu_fn fn)
{
    return symbols[fn].name;
}

static const struct kit_error known[] = {
    {1, BP_ERR_DEVICE, "not initialised"},
    {2, BP_ERR_MEMORY, "no memory"},
    {3, BP_ERR_DEVICE, "a parameter that CNNL does not take"},
    {4, BP_ERR_DEVICE, "an internal error"},
    {5, BP_ERR_UNSUPPORTED, "not on this model of device"},
    {6, BP_ERR_DEVICE, "execution failed"},
    {7, BP_ERR_UNSUPPORTED, "not supported"},
    {8, BP_ERR_DEVICE, "a numerical overflow"},
};

static const char *cnnl_text(const void *of, int status)
{
    (void)of;
    return mlu_cnnl.call.cnnlGetErrorString(status);
}

static const struct kit_errors errors = {known, sizeof known / sizeof *known, cnnl_text};

enum bp_status mlu_cnnl_check(const struct mlu_device *d, const char *function, int status)
{
    struct kit_call call = {d->self->host, "mlu", d->number, function, status, NULL};
    size_t free_bytes, total;
    struct kit_error error;

    if (__builtin_expect(!status && !kit_is_traced(), 1)) return BP_OK;
    kit_call_trace(&call);
    if (!status) return BP_OK;
    /* Any call of the runtime returns the code of a lost device. */
    TRY(MLU_WAIT(d, cnrtMemGetInfo, &free_bytes, &total));
    error = kit_error_find(&errors, NULL, status);
    return kit_call_fail(&call, error.status, error.text, NULL);
}

/* Creates a handle with a queue. */
static enum bp_status cnnl_make(struct mlu_device *d, void *queue, void **out)
{
    void *handle = NULL;
    enum bp_status status;

    TRY(mlu_cnnl_check(d, "cnnlCreate", mlu_cnnl.call.cnnlCreate(&handle)));
    status = mlu_cnnl_check(d, "cnnlSetQueue", mlu_cnnl.call.cnnlSetQueue(handle, queue));
    if (status) mlu_cnnl.call.cnnlDestroy(handle);
    else *out = handle;
    return status;
}

enum bp_status mlu_cnnl_provide(struct mlu_stream *s)
{
    enum bp_status status = BP_OK;

    if (mlu_cnnl_open()) return BP_OK; /* no row works: a capture has no launch */
    pthread_mutex_lock(&s->kit.lock);
    if (!s->handle) status = cnnl_make(s->device, s->raw, &s->handle);
    pthread_mutex_unlock(&s->kit.lock);
    return status;
}

void mlu_cnnl_stream_finish(struct mlu_stream *s)
{
    if (s->handle) mlu_cnnl.call.cnnlDestroy(s->handle);
}

enum bp_status mlu_cnnl_plan_begin(struct mlu_device *d, void **out_handle)
{
    pthread_mutex_lock(&d->planning);
    if (!d->plan_queue) TRY(MLU_CALL(d, cnrtQueueCreate, &d->plan_queue));
    if (!d->plan_handle) TRY(cnnl_make(d, d->plan_queue, &d->plan_handle));
    *out_handle = d->plan_handle;
    return BP_OK;
}

void mlu_cnnl_plan_end(struct mlu_device *d)
{
    pthread_mutex_unlock(&d->planning);
}

void mlu_cnnl_device_finish(struct mlu_device *d)
{
    KIT_CONTEXT caller = {NULL};

    if (!d->plan_queue) return;
    mlu_device_reuse(d->self, d->number, &caller);
    if (d->plan_handle) mlu_cnnl.call.cnnlDestroy(d->plan_handle);
    MLU_NOTE(d, cnrtQueueDestroy, d->plan_queue);
}
