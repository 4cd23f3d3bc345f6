/* SPDX-License-Identifier: Apache-2.0 */
/* model.c: implements models of the stand-in for CANN that `atc` has compiled: their files, their
 * descriptions, datasets and runs. A file has lines of text, and then the model of ONNX:
 *
 *   STANDIN-OM 1
 *   soc Ascend910B3                the product that atc compiled for
 *   input NAME 1,3,224,224         extents that the model leaves open
 *   onnx BYTES
 *
 * Not known: the codes for a damaged file, and for one of another product (here both are invalid
 * parameters); the struct of aclmdlGetInputDims (name, number and extents, 128 each). */
#include "cann.h"
#include "runner.h"
#include <backplane/types.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    DIMS = 128
};
struct model_dims {
    char name[DIMS];
    size_t n;
    int64_t at[DIMS];
};

int aclmdlLoadFromFile(const char *path, uint32_t *out);
int aclmdlLoadFromMem(const void *data, size_t size, uint32_t *out);
int aclmdlUnload(uint32_t id);
void *aclmdlCreateDesc(void);
int aclmdlDestroyDesc(void *desc);
int aclmdlGetDesc(void *desc, uint32_t id);
size_t aclmdlGetNumInputs(void *desc);
size_t aclmdlGetNumOutputs(void *desc);
size_t aclmdlGetInputSizeByIndex(void *desc, size_t i);
size_t aclmdlGetOutputSizeByIndex(void *desc, size_t i);
int aclmdlGetInputDims(const void *desc, size_t i, struct model_dims *out);
int aclmdlGetOutputDims(const void *desc, size_t i, struct model_dims *out);
int aclmdlGetInputDataType(const void *desc, size_t i);
int aclmdlGetOutputDataType(const void *desc, size_t i);
int aclmdlGetInputFormat(const void *desc, size_t i);
int aclmdlGetOutputFormat(const void *desc, size_t i);
const char *aclmdlGetInputNameByIndex(const void *desc, size_t i);
const char *aclmdlGetOutputNameByIndex(const void *desc, size_t i);
void *aclmdlCreateDataset(void);
int aclmdlDestroyDataset(const void *set);
int aclmdlAddDatasetBuffer(void *set, void *buffer);
size_t aclmdlGetDatasetNumBuffers(const void *set);
void *aclmdlGetDatasetBuffer(const void *set, size_t i);
void *aclCreateDataBuffer(void *data, size_t size);
int aclDestroyDataBuffer(const void *buffer);
void *aclGetDataBufferAddr(const void *buffer);
size_t aclGetDataBufferSizeV2(const void *buffer);
int aclmdlExecute(uint32_t id, const void *in, void *out);
int aclmdlExecuteAsync(uint32_t id, const void *in, void *out, void *stream);

static const char model_kind[] = "model", desc_kind[] = "aclmdlDesc";
static const char set_kind[] = "aclmdlDataset", buffer_kind[] = "aclDataBuffer";

struct model {
    uint32_t id;
    int refs; /* that of the id, and one for each run in progress */
    struct base_device *device;
    struct runner runner;
};
struct desc {
    struct runner type; /* only its ports are used */
};
struct buffer {
    void *data;
    size_t size;
};
struct set {
    size_t n;
    struct buffer *buffer[RUNNER_PORTS];
};

/* The functions of the runner's library, opened once. */
static struct {
    int (*load)(struct runner *runner, const void *onnx, size_t size, char *text);
    int (*run)(struct runner *runner, void *const *in, void *const *out, char *text);
    void (*finish)(struct runner *runner);
} runner;
static pthread_mutex_t one = PTHREAD_MUTEX_INITIALIZER; /* held while a model runs */

static bool runner_find(void)
{
    void *library = runner.load ? NULL : dlopen(CANN_RUNNER, RTLD_NOW | RTLD_LOCAL);

    if (!library) return runner.load != NULL;
    *(void **)(void *)&runner.load = dlsym(library, "cann_runner_load");
    *(void **)(void *)&runner.run = dlsym(library, "cann_runner_run");
    *(void **)(void *)&runner.finish = dlsym(library, "cann_runner_finish");
    return runner.load && runner.run && runner.finish;
}

/* A load, on a thread of its own: the caller may be inside of a call of the same library. */
struct load {
    struct runner *runner;
    const char *onnx;
    size_t size;
    char text[RUNNER_TEXT];
    int code;
};

static void *load_run(void *p)
{
    struct load *load = p;

    load->code = runner.load(load->runner, load->onnx, load->size, load->text);
    return NULL;
}

/* Reads a line "input NAME 1,2,3". */
static bool shape_read(const char *line, struct runner *to)
{
    struct runner_port *port = &to->in[to->n_in];
    const char *at;
    int length = 0;
    char *end;

    if (to->n_in == RUNNER_PORTS || sscanf(line, "input %127s %n", port->name, &length) != 1 ||
        !length)
        return false;
    for (at = line + length; *at && *at != '\n' && port->rank < RUNNER_RANK;) {
        port->dims[port->rank++] = strtoll(at, &end, 10);
        if (end == at) return false;
        at = *end == ',' ? end + 1 : end;
    }
    to->n_in++;
    return true;
}

/* Reads the lines of a file; finds the model in it. */
static int om_read(const char *data, size_t size, struct load *load)
{
    const char *at = data, *end;
    char line[512], name[64];

    while ((end = memchr(at, '\n', size - (size_t)(at - data)))) {
        snprintf(line, sizeof line, "%.*s", (int)(end - at), at);
        if (at == data && strcmp(line, "STANDIN-OM 1") != 0) break;
        if (sscanf(line, "soc %63s", name) == 1 && strcmp(name, cann_soc()) != 0)
            return base_refuse(ACL_INVALID_PARAM, "the model is for %s, the device is %s", name,
                               cann_soc());
        if (!strncmp(line, "input ", 6) && !shape_read(line, load->runner)) break;
        at = end + 1;
        if (sscanf(line, "onnx %zu", &load->size) != 1) continue;
        if (load->size != size - (size_t)(at - data)) break;
        load->onnx = at;
        return 0;
    }
    return base_refuse(ACL_INVALID_PARAM, "this is no file of atc, or a part of one");
}

static int om_load(int code, struct cann_context *context, const void *data, size_t size,
                   uint32_t *out)
{
    static uint32_t last;
    struct load load = {.code = 0};
    struct model *model = NULL;
    pthread_t thread;

    if (!code && (!data || !size || !out)) code = ACL_INVALID_PARAM;
    if (!code && !runner_find())
        code = base_refuse(ACL_UNSUPPORTED, "%s cannot be opened", CANN_RUNNER);
    if (!code && !(model = base_handle_create(model_kind, sizeof *model))) code = ACL_BAD_ALLOC;
    if (code) return cann_leave(code);
    load.runner = &model->runner;
    code = om_read(data, size, &load);
    if (!code) {
        base_unlock();
        if (pthread_create(&thread, NULL, load_run, &load)) load.code = -1;
        else pthread_join(thread, NULL);
        base_lock();
        if (load.code) code = base_refuse(ACL_INVALID_PARAM, "%s", load.text);
    }
    if (code) {
        base_handle_destroy(model);
        return cann_leave(code);
    }
    model->id = ++last;
    model->refs = 1;
    model->device = context->device;
    *out = model->id;
    return cann_leave(0);
}

CANN_API int aclmdlLoadFromMem(const void *data, size_t size, uint32_t *out)
{
    struct cann_context *context;
    int code = cann_enter_context("aclmdlLoadFromMem", &context);

    return om_load(code, context, data, size, out);
}

CANN_API int aclmdlLoadFromFile(const char *path, uint32_t *out)
{
    struct cann_context *context;
    int code = cann_enter_context("aclmdlLoadFromFile", &context);
    FILE *file = code || !path ? NULL : fopen(path, "rb");
    size_t size = 0, room = (size_t)1 << 30;
    char *data = file ? malloc(room) : NULL;

    if (data) size = fread(data, 1, room, file);
    if (file) fclose(file);
    if (!code && !data) code = base_refuse(ACL_INVALID_PARAM, "the file cannot be read");
    code = om_load(code, context, data, size, out);
    free(data);
    return code;
}

static bool model_has_id(const void *model, void *id)
{
    return ((const struct model *)model)->id == *(uint32_t *)id;
}

static struct model *model_find(uint32_t id)
{
    return base_handle_find(model_kind, model_has_id, &id);
}

/* Under the lock, which is released meanwhile. */
static void model_drop(struct model *model)
{
    if (--model->refs) return;
    base_unlock();
    runner.finish(&model->runner);
    base_lock();
    base_handle_destroy(model);
}

CANN_API int aclmdlUnload(uint32_t id)
{
    struct cann_context *context;
    int code = cann_enter_release("aclmdlUnload", &context);
    struct model *model = code ? NULL : model_find(id);

    if (!code && !model) code = base_refuse(ACL_INVALID_PARAM, "no model %u", id);
    if (code) return cann_leave(code);
    model->id = 0;
    model_drop(model);
    return cann_leave(0);
}

static void *model_handle(const char *name, const char *kind, size_t size)
{
    int code = cann_enter(name);
    void *made = code ? NULL : base_handle_create(kind, size);

    cann_leave(code);
    return made;
}

static int model_handle_end(const char *name, const void *handle, const char *kind)
{
    int code = cann_enter(name);

    if (!code && !base_handle_is(handle, kind))
        code = base_misuse(ACL_INVALID_PARAM, "%p is no %s", handle, kind);
    if (!code) base_handle_destroy((void *)(uintptr_t)handle);
    return cann_leave(code);
}

CANN_API void *aclmdlCreateDesc(void)
{
    return model_handle("aclmdlCreateDesc", desc_kind, sizeof(struct desc));
}

CANN_API int aclmdlDestroyDesc(void *desc)
{
    return model_handle_end("aclmdlDestroyDesc", desc, desc_kind);
}

CANN_API int aclmdlGetDesc(void *desc, uint32_t id)
{
    int code = cann_enter("aclmdlGetDesc");
    const struct model *model = code ? NULL : model_find(id);

    if (!code && (!model || !base_handle_is(desc, desc_kind))) code = ACL_INVALID_PARAM;
    if (!code) ((struct desc *)desc)->type = model->runner;
    return cann_leave(code);
}

/* A port of a description; NULL: there is none. */
static const struct runner_port *desc_port(const void *handle, size_t i, bool is_out)
{
    const struct desc *desc = handle;
    bool good;

    base_lock();
    good = base_handle_is(handle, desc_kind) && i < (is_out ? desc->type.n_out : desc->type.n_in);
    base_unlock();
    return !good ? NULL : is_out ? &desc->type.out[i] : &desc->type.in[i];
}

CANN_API size_t aclmdlGetNumInputs(void *desc)
{
    return desc ? ((struct desc *)desc)->type.n_in : 0;
}

CANN_API size_t aclmdlGetNumOutputs(void *desc)
{
    return desc ? ((struct desc *)desc)->type.n_out : 0;
}

CANN_API size_t aclmdlGetInputSizeByIndex(void *desc, size_t i)
{
    const struct runner_port *port = desc_port(desc, i, false);

    return port ? (size_t)port->bytes : 0;
}

CANN_API size_t aclmdlGetOutputSizeByIndex(void *desc, size_t i)
{
    const struct runner_port *port = desc_port(desc, i, true);

    return port ? (size_t)port->bytes : 0;
}

static int port_dims(const struct runner_port *port, struct model_dims *out)
{
    if (!port || !out) return ACL_INVALID_PARAM;
    memset(out, 0, sizeof *out);
    memcpy(out->name, port->name, sizeof out->name);
    out->n = port->rank;
    memcpy(out->at, port->dims, port->rank * sizeof *port->dims);
    return 0;
}

CANN_API int aclmdlGetInputDims(const void *desc, size_t i, struct model_dims *out)
{
    return port_dims(desc_port(desc, i, false), out);
}

CANN_API int aclmdlGetOutputDims(const void *desc, size_t i, struct model_dims *out)
{
    return port_dims(desc_port(desc, i, true), out);
}

/* The number of aclDataType; -1: none. */
static int port_dtype(const struct runner_port *port)
{
    static const int numbers[] = {
        [BP_BOOL] = 12, [BP_I8] = 2,  [BP_I16] = 6,  [BP_I32] = 3,  [BP_I64] = 9,
        [BP_U8] = 4,    [BP_U16] = 7, [BP_U32] = 8,  [BP_U64] = 10, [BP_F16] = 1,
        [BP_BF16] = 27, [BP_F32] = 0, [BP_F64] = 11, [BP_C64] = 16, [BP_C128] = 17};

    return port && port->dtype <= BP_C128 ? numbers[port->dtype] : -1;
}

CANN_API int aclmdlGetInputDataType(const void *desc, size_t i)
{
    return port_dtype(desc_port(desc, i, false));
}

CANN_API int aclmdlGetOutputDataType(const void *desc, size_t i)
{
    return port_dtype(desc_port(desc, i, true));
}

CANN_API int aclmdlGetInputFormat(const void *desc, size_t i)
{
    return desc_port(desc, i, false) ? 2 : -1;
}

CANN_API int aclmdlGetOutputFormat(const void *desc, size_t i)
{
    return desc_port(desc, i, true) ? 2 : -1;
}

CANN_API const char *aclmdlGetInputNameByIndex(const void *desc, size_t i)
{
    const struct runner_port *port = desc_port(desc, i, false);

    return port ? port->name : "";
}

CANN_API const char *aclmdlGetOutputNameByIndex(const void *desc, size_t i)
{
    const struct runner_port *port = desc_port(desc, i, true);

    return port ? port->name : "";
}

CANN_API void *aclmdlCreateDataset(void)
{
    return model_handle("aclmdlCreateDataset", set_kind, sizeof(struct set));
}

/* Its buffers stay. */
CANN_API int aclmdlDestroyDataset(const void *set)
{
    return model_handle_end("aclmdlDestroyDataset", set, set_kind);
}

CANN_API int aclmdlAddDatasetBuffer(void *handle, void *buffer)
{
    int code = cann_enter("aclmdlAddDatasetBuffer");
    struct set *set = handle;

    if (!code && (!base_handle_is(handle, set_kind) || !base_handle_is(buffer, buffer_kind) ||
                  set->n == RUNNER_PORTS))
        code = ACL_INVALID_PARAM;
    if (!code) set->buffer[set->n++] = buffer;
    return cann_leave(code);
}

CANN_API size_t aclmdlGetDatasetNumBuffers(const void *set)
{
    return set ? ((const struct set *)set)->n : 0;
}

CANN_API void *aclmdlGetDatasetBuffer(const void *handle, size_t i)
{
    const struct set *set = handle;

    return set && i < set->n ? set->buffer[i] : NULL;
}

CANN_API void *aclCreateDataBuffer(void *data, size_t size)
{
    struct buffer *buffer = model_handle("aclCreateDataBuffer", buffer_kind, sizeof *buffer);

    if (buffer) *buffer = (struct buffer){data, size};
    return buffer;
}

CANN_API int aclDestroyDataBuffer(const void *buffer)
{
    return model_handle_end("aclDestroyDataBuffer", buffer, buffer_kind);
}

CANN_API void *aclGetDataBufferAddr(const void *buffer)
{
    return buffer ? ((const struct buffer *)buffer)->data : NULL;
}

CANN_API size_t aclGetDataBufferSizeV2(const void *buffer)
{
    return buffer ? ((const struct buffer *)buffer)->size : 0;
}

/* A run: addresses of the device. */
struct model_work {
    struct model *model;
    void *in[RUNNER_PORTS], *out[RUNNER_PORTS];
};

static bool work_reach(const struct model_work *work, void **in, void **out)
{
    const struct runner *r = &work->model->runner;
    bool all = true;

    for (uint32_t i = 0; i < r->n_in; i++)
        all = (in[i] = base_reach(work->model->device, work->in[i], r->in[i].bytes)) && all;
    for (uint32_t i = 0; i < r->n_out; i++)
        all = (out[i] = base_reach(work->model->device, work->out[i], r->out[i].bytes)) && all;
    return all;
}

static int model_work_run(void *data, int code)
{
    const struct model_work *work = data;
    void *in[RUNNER_PORTS], *out[RUNNER_PORTS];
    char text[RUNNER_TEXT];

    if (code) return code;
    base_lock();
    if (!work_reach(work, in, out))
        code = base_misuse(RT_AICORE, "a buffer of a model is not memory of the device any more");
    base_unlock();
    if (code) return code;
    pthread_mutex_lock(&one);
    code = runner.run(&work->model->runner, in, out, text);
    pthread_mutex_unlock(&one);
    if (!code) return 0;
    base_lock();
    base_misuse(0, "a model fails: %s", text);
    base_unlock();
    return 507011; /* model execute */
}

static void model_work_drop(void *data)
{
    model_drop(((struct model_work *)data)->model);
}

static const struct base_work model_work = {model_work_run, model_work_drop};

/* Checks a dataset against ports, and takes its addresses. */
static int set_check(const struct model *model, const struct set *set, bool is_out, void **to)
{
    const struct runner *r = &model->runner;
    uint32_t n = is_out ? r->n_out : r->n_in;

    if (!base_handle_is(set, set_kind)) return base_refuse(ACL_INVALID_PARAM, "no dataset");
    if (set->n != n)
        return base_refuse(ACL_INVALID_PARAM, "%zu buffers, the model has %u", set->n, n);
    for (uint32_t i = 0; i < n; i++) {
        uint64_t bytes = is_out ? r->out[i].bytes : r->in[i].bytes;
        const struct buffer *b = set->buffer[i];
        if (!base_handle_is(b, buffer_kind))
            return base_misuse(ACL_INVALID_PARAM, "buffer %u was destroyed before the run", i);
        if (b->size < bytes)
            return base_refuse(ACL_INVALID_PARAM, "buffer %u has %zu bytes of %llu", i, b->size,
                               (unsigned long long)bytes);
        if (base_find(b->data).place != BASE_DEVICE || !base_reach(model->device, b->data, bytes))
            return base_misuse(ACL_INVALID_PARAM, "buffer %u is not memory of the device", i);
        to[i] = b->data;
    }
    return 0;
}

static int model_run(const char *name, uint32_t id, const void *in, const void *out, void *handle,
                     bool waits)
{
    struct cann_context *context;
    struct model_work work = {.model = NULL};
    struct base_stream *stream;
    int code = cann_enter_context(name, &context);

    if (!code) work.model = model_find(id);
    if (!code && !work.model) code = base_refuse(ACL_INVALID_PARAM, "no model %u", id);
    if (!code && work.model->device != context->device)
        code = base_misuse(ACL_INVALID_PARAM, "the model was loaded for another device");
    if (!code) code = set_check(work.model, in, false, work.in);
    if (!code) code = set_check(work.model, out, true, work.out);
    if (!code) code = cann_stream(context, handle, &stream);
    if (code) return cann_leave(code);
    work.model->refs++;
    code = base_submit(stream, &model_work, &work, sizeof work);
    if (!code && waits) code = base_stream_wait(stream, -1);
    return cann_leave(cann_code(code));
}

CANN_API int aclmdlExecute(uint32_t id, const void *in, void *out)
{
    return model_run("aclmdlExecute", id, in, out, NULL, true);
}

CANN_API int aclmdlExecuteAsync(uint32_t id, const void *in, void *out, void *stream)
{
    return model_run("aclmdlExecuteAsync", id, in, out, stream, false);
}
