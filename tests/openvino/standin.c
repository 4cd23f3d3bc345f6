/* SPDX-License-Identifier: Apache-2.0 */
/* standin.c: stands in for OpenVINO's C library in tests on machines without it: reads models,
 * checks arguments and models as the library does, and computes a few layers in f32.
 *
 * STANDIN_DEVICES lists the devices ("CPU" by default), STANDIN_FAIL names a function that fails,
 * STANDIN_TYPES=1 gives outputs another type, STANDIN_VERSION is another version. standin_live
 * counts the objects that exist. Numbers of types differ from OpenVINO's, because no caller may
 * rely on them. */
#include "standin.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static _Atomic int live;
static _Thread_local char last[256];

int standin_live(void)
{
    return live;
}

static int standin_fail(int code, const char *text)
{
    snprintf(last, sizeof last, "stand-in: %s", text);
    return code;
}

/* Whether STANDIN_FAIL names this function. */
static bool is_to_fail(const char *function)
{
    const char *name = getenv("STANDIN_FAIL");

    return name && !strcmp(name, function);
}

#define CHECK(good) \
    do { \
        if (is_to_fail(__func__)) return standin_fail(-1, "told to fail"); \
        if (!(good)) return standin_fail(-14, #good); \
    } while (0)

static char *text_copy(const char *text)
{
    live++;
    return strdup(text);
}

EXPORT void ov_free(const char *text)
{
    live -= text != NULL;
    free((char *)text);
}

EXPORT const char *ov_get_error_info(int code)
{
    return code == -14 ? "invalid C input parameters" : "general error";
}

EXPORT const char *ov_get_last_err_msg(void)
{
    return *last ? text_copy(last) : NULL;
}

EXPORT int ov_get_openvino_version(struct ov_version *out)
{
    const char *version = getenv("STANDIN_VERSION");

    CHECK(out);
    *out = (struct ov_version){text_copy(version ? version : "2099.1.0-7-standin"),
                               text_copy("stand-in")};
    return 0;
}

EXPORT void ov_version_free(struct ov_version *v)
{
    ov_free(v->build);
    ov_free(v->description);
}

EXPORT int ov_core_create(struct ov_core **out)
{
    CHECK(out);
    *out = calloc(1, sizeof **out);
    live++;
    return 0;
}

EXPORT void ov_core_free(struct ov_core *core)
{
    live--;
    free(core);
}

EXPORT int ov_core_get_available_devices(const struct ov_core *core, struct ov_devices *out)
{
    const char *list = getenv("STANDIN_DEVICES");

    CHECK(core && out);
    *out = (struct ov_devices){calloc(16, sizeof(char *)), 0};
    live++;
    for (list = list ? list : "CPU"; *list; list += strcspn(list, ","), list += *list == ',') {
        char name[64];
        snprintf(name, sizeof name, "%.*s", (int)strcspn(list, ","), list);
        out->name[out->count++] = text_copy(name);
    }
    return 0;
}

EXPORT void ov_available_devices_free(struct ov_devices *d)
{
    for (size_t i = 0; i < d->count; i++) ov_free(d->name[i]);
    live--;
    free(d->name);
}

EXPORT int ov_core_get_property(const struct ov_core *core, const char *device, const char *key,
                                char **out)
{
    CHECK(core && device && key && out);
    if (strcmp(key, "FULL_DEVICE_NAME")) return standin_fail(-5, "no such property");
    *out = text_copy("Stand-in processor");
    return 0;
}

/* Properties that the plugin may set, as far as the device has them. */
static bool is_property(const char *device, const char *key)
{
    static const char *const all[] = {"PERFORMANCE_HINT", "INFERENCE_PRECISION_HINT"};
    static const char *const of_cpu[] = {"NUM_STREAMS", "INFERENCE_NUM_THREADS",
                                         "ENABLE_CPU_PINNING"};

    for (size_t i = 0; i < 2; i++)
        if (!strcmp(key, all[i])) return true;
    for (size_t i = 0; i < 3; i++)
        if (!strcmp(key, of_cpu[i])) return !strcmp(device, "CPU");
    return false;
}

EXPORT int ov_core_set_property(const struct ov_core *core, const char *device, ...)
{
    const char *key, *value;
    va_list args;

    va_start(args, device);
    key = va_arg(args, const char *);
    value = va_arg(args, const char *);
    va_end(args);
    CHECK(core && device && key && value && is_property(device, key));
    return 0;
}

EXPORT int ov_core_read_model_from_memory_buffer(const struct ov_core *core, const char *text,
                                                 size_t length, const struct ov_tensor *weights,
                                                 struct ov_model **out)
{
    const char *why;

    CHECK(core && text && out && strlen(text) == length);
    *out = model_read(text, weights ? weights->data : NULL, weights ? weights->bytes : 0, &why);
    if (!*out) return standin_fail(-1, why);
    live++;
    return 0;
}

EXPORT void ov_model_free(struct ov_model *model)
{
    live--;
    model_release(model);
}

static int standin_port(struct ov_model *m, uint32_t layer, struct ov_output_const_port **out)
{
    *out = calloc(1, sizeof **out);
    **out = (struct ov_output_const_port){m->layer[layer].type, m->layer[layer].rank, {0}};
    memcpy((*out)->extent, m->layer[layer].extent, sizeof(*out)->extent);
    live++;
    return 0;
}

EXPORT int ov_model_const_input_by_index(const struct ov_model *model, size_t index,
                                         struct ov_output_const_port **out)
{
    CHECK(model && out && index < model->n_in);
    return standin_port((struct ov_model *)model, model->in[index], out);
}

EXPORT int ov_port_get_element_type(const struct ov_output_const_port *port, unsigned *out)
{
    CHECK(port && out);
    *out = port->type;
    return 0;
}

EXPORT int ov_const_port_get_shape(const struct ov_output_const_port *port, struct ov_shape *out)
{
    CHECK(port && out);
    *out = (struct ov_shape){(int64_t)port->rank, calloc(8, sizeof(int64_t))};
    memcpy(out->extent, port->extent, sizeof port->extent);
    live++;
    return 0;
}

EXPORT int ov_shape_free(struct ov_shape *shape)
{
    CHECK(shape && shape->extent);
    live--;
    free(shape->extent);
    return 0;
}

EXPORT void ov_output_const_port_free(struct ov_output_const_port *port)
{
    live--;
    free(port);
}

static int compiled_create(struct ov_model *model, struct ov_compiled_model **out)
{
    *out = calloc(1, sizeof **out);
    (*out)->model = model;
    model->references++;
    live++;
    return 0;
}

EXPORT int ov_core_compile_model(const struct ov_core *core, const struct ov_model *model,
                                 const char *device, size_t n_text, struct ov_compiled_model **out,
                                 ...)
{
    const char *why = model_infer((struct ov_model *)model);
    va_list args;
    bool known = n_text % 2 == 0;

    va_start(args, out);
    for (size_t i = 0; i + 1 < n_text; i += 2) {
        known &= is_property(device, va_arg(args, const char *));
        known &= va_arg(args, const char *) != NULL;
    }
    va_end(args);
    CHECK(core && model && device && out && known);
    if (why) return standin_fail(-1, why);
    return compiled_create((struct ov_model *)model, out);
}

EXPORT void ov_compiled_model_free(struct ov_compiled_model *m)
{
    live--;
    model_release(m->model);
    free(m);
}

EXPORT int ov_compiled_model_inputs_size(const struct ov_compiled_model *m, size_t *out)
{
    CHECK(m && out);
    *out = m->model->n_in;
    return 0;
}

EXPORT int ov_compiled_model_outputs_size(const struct ov_compiled_model *m, size_t *out)
{
    CHECK(m && out);
    *out = m->model->n_out;
    return 0;
}

EXPORT int ov_compiled_model_input_by_index(const struct ov_compiled_model *m, size_t index,
                                            struct ov_output_const_port **out)
{
    CHECK(m && out && index < m->model->n_in);
    return standin_port(m->model, m->model->in[index], out);
}

EXPORT int ov_compiled_model_output_by_index(const struct ov_compiled_model *m, size_t index,
                                             struct ov_output_const_port **out)
{
    CHECK(m && out && index < m->model->n_out);
    standin_port(m->model, m->model->out[index], out);
    if (getenv("STANDIN_TYPES")) (*out)->extent[0]++;
    return 0;
}

/* The text, the length of the weights and the weights. */
EXPORT int ov_compiled_model_export_model(const struct ov_compiled_model *m, const char *path)
{
    FILE *file = path ? fopen(path, "wb") : NULL;
    uint64_t size[2];

    CHECK(m && file);
    size[0] = strlen(m->model->text);
    size[1] = m->model->n_weights;
    fwrite(size, sizeof size, 1, file);
    fwrite(m->model->text, 1, size[0], file);
    fwrite(m->model->weights, 1, size[1], file);
    fclose(file);
    return 0;
}

EXPORT int ov_core_import_model(const struct ov_core *core, const char *content, size_t size,
                                const char *device, struct ov_compiled_model **out)
{
    struct ov_model *model;
    uint64_t part[2];
    const char *why;
    char *text;
    int code;

    CHECK(core && content && device && out && size > sizeof part);
    memcpy(part, content, sizeof part);
    if (sizeof part + part[0] + part[1] != size)
        return standin_fail(-1, "content of another length");
    text = strndup(content + sizeof part, part[0]);
    model = model_read(text, content + sizeof part + part[0], part[1], &why);
    free(text);
    if (!model) return standin_fail(-1, why);
    why = model_infer(model);
    code = why ? standin_fail(-1, why) : compiled_create(model, out);
    model_release(model);
    return code;
}

EXPORT int ov_compiled_model_create_infer_request(const struct ov_compiled_model *m,
                                                  struct ov_infer_request **out)
{
    CHECK(m && out);
    *out = calloc(1, sizeof **out);
    (*out)->model = m->model;
    (*out)->in = calloc(m->model->n_in + 1, sizeof(void *));
    (*out)->out = calloc(m->model->n_out + 1, sizeof(void *));
    m->model->references++;
    live++;
    return 0;
}

EXPORT void ov_infer_request_free(struct ov_infer_request *r)
{
    live--;
    model_release(r->model);
    free(r->in);
    free(r->out);
    free(r);
}

/* Whether a tensor has the type and extents of a layer. */
static bool tensor_fits(const struct ov_tensor *t, const struct layer *l)
{
    return t->type == l->type && t->rank == l->rank &&
           !memcmp(t->extent, l->extent, l->rank * sizeof *t->extent);
}

EXPORT int ov_infer_request_set_input_tensor_by_index(struct ov_infer_request *r, size_t index,
                                                      const struct ov_tensor *tensor)
{
    CHECK(r && tensor && index < r->model->n_in);
    if (!tensor_fits(tensor, &r->model->layer[r->model->in[index]]))
        return standin_fail(-4, "another type");
    r->in[index] = tensor->data;
    return 0;
}

EXPORT int ov_infer_request_set_output_tensor_by_index(struct ov_infer_request *r, size_t index,
                                                       const struct ov_tensor *tensor)
{
    CHECK(r && tensor && index < r->model->n_out);
    if (!tensor_fits(tensor, &r->model->layer[r->model->out[index]]))
        return standin_fail(-4, "another type");
    r->out[index] = tensor->data;
    return 0;
}

EXPORT int ov_infer_request_infer(struct ov_infer_request *r)
{
    CHECK(r);
    for (uint32_t i = 0; i < r->model->n_in; i++)
        if (!r->in[i]) return standin_fail(-10, "an input without a tensor");
    model_run(r->model, r->in, r->out);
    return 0;
}

static int standin_tensor(unsigned type, struct ov_shape shape, void *data, struct ov_tensor **out)
{
    uint64_t bytes = type_bytes(type);

    if (!bytes || shape.rank > 8) return standin_fail(-4, "an unknown type or rank");
    *out = calloc(1, sizeof **out);
    for (int64_t a = 0; a < shape.rank; a++) {
        bytes *= (uint64_t)shape.extent[a];
        (*out)->extent[a] = shape.extent[a];
    }
    (*out)->type = type;
    (*out)->rank = (uint32_t)shape.rank;
    (*out)->bytes = bytes;
    (*out)->owned = data ? NULL : calloc(1, bytes + 1);
    (*out)->data = data ? data : (*out)->owned;
    live++;
    return 0;
}

EXPORT int ov_tensor_create(unsigned type, struct ov_shape shape, struct ov_tensor **out)
{
    CHECK(out);
    return standin_tensor(type, shape, NULL, out);
}

EXPORT int ov_tensor_create_from_host_ptr(unsigned type, struct ov_shape shape, void *data,
                                          struct ov_tensor **out)
{
    CHECK(out && data);
    return standin_tensor(type, shape, data, out);
}

EXPORT int ov_tensor_data(const struct ov_tensor *tensor, void **out)
{
    CHECK(tensor && out);
    *out = tensor->data;
    return 0;
}

#ifndef STANDIN_OLD /* a library that lacks a function */
EXPORT void ov_tensor_free(struct ov_tensor *tensor)
{
    live--;
    free(tensor->owned);
    free(tensor);
}
#endif
