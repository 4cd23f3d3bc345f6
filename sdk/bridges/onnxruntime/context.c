/* SPDX-License-Identifier: Apache-2.0 */
/* context.c: writes EPContext nodes: models of ONNX Runtime whose nodes are compiled sub-graphs. A
 * node has the sub-graph as a model in ONNX's format, weights included, in the node or in a file
 * beside the context model. The compiled programs are kept in a folder beside it. */
#include "context.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The path of the context model: that of the options, or that of the model with "_ctx"; "" if
 * neither has one, as for a model that is compiled from bytes to bytes. */
static struct ort_status *context_path(const struct ort_provider *ep,
                                       const struct ort_graph *graph, char *out, size_t size)
{
    const char *path = "";
    size_t n;

    if (*ep->options.context_path) {
        snprintf(out, size, "%s", ep->options.context_path);
        return NULL;
    }
    TRY(ort.graph_path(graph, &path));
    n = strlen(path);
    *out = 0;
    if (!n) return NULL;
    if (n > 5 && !strcmp(path + n - 5, ".onnx")) n -= 5;
    if (n + 16 > size) return ort_error(ORT_FAIL, "Backplane: the path of the model is too long");
    snprintf(out, size, "%.*s_ctx.onnx", (int)n, path);
    return NULL;
}

struct ort_status *ort_context_cache(const struct ort_provider *ep, const struct ort_graph *graph,
                                     char *out, size_t size)
{
    TRY(context_path(ep, graph, out, size - sizeof CONTEXT_PROGRAMS));
    if (*out) strcat(out, CONTEXT_PROGRAMS);
    return NULL;
}

static const char *file_name_of(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

static struct ort_status *file_write(const char *path, const char *data, size_t size)
{
    FILE *file = fopen(path, "wb");
    bool done = file && fwrite(data, 1, size, file) == size;

    if (file && fclose(file)) done = false;
    return done ? NULL : ort_error(ORT_FAIL, "Backplane: %s: %s", path, strerror(errno));
}

struct texts {
    const char *name, *text;
    size_t size;
};

/* Makes the node with its attributes, which ONNX Runtime then owns. */
static struct ort_status *node_make(const struct ort_unit *unit, const char *name,
                                    const char *const *in, const char *const *out, int64_t embedded,
                                    const struct texts *text, size_t n_text,
                                    struct ort_node **out_node)
{
    struct ort_attr *attr[8];
    struct ort_status *status;
    int64_t one = 1;
    size_t n = 0;

    status = ort.attr_create("main_context", &one, 1, ORT_ATTR_INT, &attr[n]);
    n += !status;
    if (!status) status = ort.attr_create("embed_mode", &embedded, 1, ORT_ATTR_INT, &attr[n]);
    n += !status && n == 1;
    for (size_t i = 0; i < n_text && !status; i++) {
        if (text[i].size > INT32_MAX)
            status = ort_error(ORT_FAIL, "Backplane: the compiled model has more than 2 GiB; set "
                               "ep.context_embed_mode to 0");
        else status = ort.attr_create(text[i].name, text[i].text, (int32_t)text[i].size,
                                      ORT_ATTR_STRING, &attr[n]);
        n += !status;
    }
    if (!status)
        status = ort.node_create(CONTEXT_OPERATOR, CONTEXT_DOMAIN, name, in, unit->n_in, out,
                                 unit->n_out, attr, n, out_node);
    for (size_t i = 0; i < n && status; i++) ort.attr_release(attr[i]);
    return status;
}

/* Collects the names of the model's ports, which are those of the fused node's values. */
static struct ort_status *ports_names(const struct ort_unit *unit, const char **in,
                                      const char **out)
{
    struct bp_model_port port = {.size = sizeof port};
    enum bp_status status = BP_OK;

    for (uint32_t i = 0; i < unit->n_in && status == BP_OK; i++) {
        status = bp_model_input(unit->model, i, &port);
        in[i] = port.name;
    }
    for (uint32_t i = 0; i < unit->n_out && status == BP_OK; i++) {
        status = bp_model_output(unit->model, i, &port);
        out[i] = port.name;
    }
    return status ? ort_failure(status) : NULL;
}

/* Makes an input of zeros. */
static bool context_input(struct ort_offer *offer, const struct bp_model_port *port,
                          struct bp_tensor **out)
{
    struct bp_tensor_info info = {.size = sizeof info};
    void *zeros;
    bool done;

    if (bp_tensor_create(offer->device, port->dtype, port->rank, port->shape, out)) return false;
    if (bp_tensor_get_info(*out, &info)) return false;
    zeros = calloc(1, info.bytes + 1);
    pthread_mutex_lock(&offer->lock);
    done = zeros && (!info.bytes || (!bp_tensor_write(offer->stream, *out, zeros, info.bytes) &&
                                     !bp_stream_synchronize(offer->stream)));
    pthread_mutex_unlock(&offer->lock);
    free(zeros);
    return done;
}

/* Compiles the programs of a unit whose inputs have known extents, so that the folder has them. */
static void context_compile(const struct ort_unit *unit)
{
    struct bp_tensor **in = calloc(unit->n_in + 1, sizeof *in);
    struct bp_program *program;
    bool known = in != NULL;

    for (uint32_t i = 0; i < unit->n_in && known; i++) {
        struct bp_model_port port = {.size = sizeof port};
        known = !bp_model_input(unit->model, i, &port) && port.rank <= BP_RANK_MAX;
        for (uint32_t k = 0; known && k < port.rank; k++) known = port.shape[k] >= 0;
        known = known && context_input(unit->ep->offer, &port, &in[i]);
    }
    if (known && !bp_model_program(unit->model, in, unit->n_in, &program))
        (void)bp_program_compile(program);
    for (uint32_t i = 0; in && i < unit->n_in; i++) bp_tensor_destroy(in[i]);
    free(in);
}

/* Writes the contents, and makes the node that refers to them. */
static struct ort_status *context_make(struct ort_unit *unit, const char *path, const char *name,
                                       char *data, size_t size, struct ort_node **out)
{
    bool embedded = unit->ep->options.context_embed || !*path; /* there is no place for a file */
    const char **in = calloc(unit->n_in + unit->n_out + 2, sizeof *in);
    char file[2300], notes[40];
    struct ort_status *status;

    if (!in) return ort_no_memory();
    snprintf(file, sizeof file, "%s.%u.bin", path, unit->ep->n_unit);
    snprintf(notes, sizeof notes, CONTEXT_DIGEST "%016" PRIx64, ort_context_digest(data, size));
    status = ports_names(unit, in, in + unit->n_in + 1);
    if (!status && !embedded) status = file_write(file, data, size);
    if (!status) {
        const struct texts text[] = {
            {"ep_cache_context", embedded ? data : file_name_of(file),
             embedded ? size : strlen(file_name_of(file))},
            {"source", ORT_NAME, strlen(ORT_NAME)},
            {"ep_sdk_version", bp_version(), strlen(bp_version())},
            {"hardware_architecture", unit->ep->offer->properties.arch,
             strlen(unit->ep->offer->properties.arch)},
            {"notes", notes, strlen(notes)},
        };
        status = node_make(unit, name, in, in + unit->n_in + 1, embedded, text,
                           sizeof text / sizeof *text, out);
    }
    free(in);
    return status;
}

struct ort_status *ort_context_write(struct ort_unit *unit, const struct ort_graph *graph,
                                     const struct ort_node *fused, struct ort_node **out)
{
    struct ort_writing w = {.flags = ORT_WRITE_ALL};
    struct ort_status *status = ort_write_graph(&w, graph);
    const char *name = "";
    char path[2048], *data = NULL;
    uint64_t size = w.model.n;

    if (!status) status = ort.node_name(fused, &name);
    if (!status) status = context_path(unit->ep, graph, path, sizeof path);
    if (!status && !(data = malloc(CONTEXT_HEAD + size))) status = ort_no_memory();
    if (!status) {
        memcpy(data, CONTEXT_MAGIC, CONTEXT_MAGIC_SIZE);
        memcpy(data + CONTEXT_MAGIC_SIZE, &size, sizeof size);
        memcpy(data + CONTEXT_HEAD, w.model.at, size);
        context_compile(unit);
        status = context_make(unit, path, name, data, CONTEXT_HEAD + size, out);
    }
    free(data);
    ort_writing_finish(&w);
    return status;
}
