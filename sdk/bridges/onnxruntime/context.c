/* SPDX-License-Identifier: Apache-2.0 */
/* context.c: writes and reads EPContext nodes: models of ONNX Runtime whose nodes are compiled
 * sub-graphs. A node has the sub-graph as a model in ONNX's format, weights included, in the node
 * or in a file beside the context model. The compiled programs are kept in a folder beside it. */
#include "ort.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char operator_name[] = "EPContext", operator_domain[] = "com.microsoft";

/* Behind these bytes is the size of the model, as 8 bytes. */
static const char magic[8] = "BPMODEL1";
enum { HEAD = sizeof magic + sizeof(uint64_t) };

/* --- attributes --- */

static struct ort_status *attr_find(const struct ort_node *node, const char *name,
                                    const struct ort_attr **out)
{
    const struct ort_attr **attr;
    struct ort_status *status;
    const char *has;
    size_t n = 0;

    *out = NULL;
    TRY(ort.node_n_attr(node, &n));
    attr = calloc(n + 1, sizeof *attr);
    if (!attr) return ort_no_memory();
    status = n ? ort.node_attr(node, attr, n) : NULL;
    for (size_t i = 0; i < n && !status && !*out; i++) {
        status = ort.attr_name(attr[i], &has);
        if (!status && !strcmp(has, name)) *out = attr[i];
    }
    free(attr);
    return status;
}

/* Reads a text, or bytes; NULL: the node has no such attribute. The caller frees it. */
static struct ort_status *attr_text(const struct ort_node *node, const char *name, char **out,
                                    size_t *out_size)
{
    const struct ort_attr *attr;
    struct ort_status *status;
    size_t size = 0;

    *out = NULL;
    TRY(attr_find(node, name, &attr));
    if (!attr) return NULL;
    ort_forget(ort.attr_read(attr, ORT_ATTR_STRING, NULL, 0, &size)); /* reports the size */
    *out = calloc(1, size + 1);
    if (!*out) return ort_no_memory();
    status = size ? ort.attr_read(attr, ORT_ATTR_STRING, *out, size, &size) : NULL;
    if (status) {
        free(*out);
        *out = NULL;
    } else if (out_size) *out_size = size;
    return status;
}

static struct ort_status *attr_number(const struct ort_node *node, const char *name, int64_t *out)
{
    const struct ort_attr *attr;
    size_t size = 0;

    TRY(attr_find(node, name, &attr));
    return attr ? ort.attr_read(attr, ORT_ATTR_INT, out, sizeof *out, &size) : NULL;
}

struct ort_status *ort_context_is_ours(const struct ort_node *node, bool *out)
{
    const char *op, *domain;
    char *source;

    *out = false;
    TRY(ort.node_operator(node, &op));
    TRY(ort.node_domain(node, &domain));
    if (strcmp(op, operator_name) || strcmp(domain, operator_domain)) return NULL;
    TRY(attr_text(node, "source", &source, NULL));
    *out = source && !strcmp(source, ORT_NAME);
    free(source);
    return NULL;
}

/* --- reading --- */

/* The folder of a file's path, with its last slash; "" for none. */
static void folder_of(const char *path, char *out, size_t size)
{
    const char *slash = strrchr(path, '/');

    snprintf(out, size, "%.*s", slash ? (int)(slash - path + 1) : 0, path);
}

static struct ort_status *file_read(const char *path, struct ort_proto *out)
{
    FILE *file = fopen(path, "rb");
    long size = -1;
    bool done;

    if (file && !fseek(file, 0, SEEK_END)) size = ftell(file);
    if (size < 0 || fseek(file, 0, SEEK_SET)) {
        struct ort_status *status = ort_error(ORT_NO_SUCH_FILE, "Backplane: %s: %s", path,
                                              strerror(errno));
        if (file) fclose(file);
        return status;
    }
    out->at = malloc((size_t)size + 1);
    done = out->at && fread(out->at, 1, (size_t)size, file) == (size_t)size;
    out->n = out->room = (size_t)size;
    fclose(file);
    return done ? NULL : ort_error(ORT_FAIL, "Backplane: %s: it cannot be read", path);
}

/* Takes the model out of the bytes of a node or a file. */
static struct ort_status *contents_read(const void *data, size_t size, struct ort_proto *out)
{
    uint64_t n = 0;

    if (size >= HEAD) memcpy(&n, (const char *)data + sizeof magic, sizeof n);
    if (size < HEAD || memcmp(data, magic, sizeof magic) || n > size - HEAD)
        return ort_error(ORT_FAIL, "Backplane: the EPContext node has no compiled model, or a "
                         "damaged one: compile the model again");
    out->at = malloc(n + 1);
    if (!out->at) return ort_no_memory();
    memcpy(out->at, (const char *)data + HEAD, n);
    out->n = out->room = n;
    return NULL;
}

/* A name in the folder of the context model; others are refused, because the model may come from
 * anybody. */
static struct ort_status *path_beside(const struct ort_graph *graph, const char *name, char *out,
                                      size_t size)
{
    const char *path = "";

    TRY(ort.graph_path(graph, &path));
    if (!*name || strchr(name, '/') || !strcmp(name, ".."))
        return ort_error(ORT_FAIL, "Backplane: the EPContext node names '%.80s', expected a file "
                         "beside the model", name);
    folder_of(path, out, size);
    if (strlen(out) + strlen(name) + 1 > size)
        return ort_error(ORT_FAIL, "Backplane: the path of %.80s is too long", name);
    strcat(out, name);
    return NULL;
}

static struct ort_status *model_read(const struct ort_graph *graph, const struct ort_node *node,
                                     struct ort_proto *out)
{
    struct ort_proto file = {0};
    struct ort_status *status;
    int64_t embedded = 1;
    char path[2048], *data;
    size_t size = 0;

    TRY(attr_number(node, "embed_mode", &embedded));
    TRY(attr_text(node, "ep_cache_context", &data, &size));
    if (!data) return ort_error(ORT_FAIL, "Backplane: the EPContext node has no ep_cache_context");
    if (embedded) status = contents_read(data, size, out);
    else {
        status = path_beside(graph, data, path, sizeof path);
        if (!status) status = file_read(path, &file);
        if (!status) status = contents_read(file.at, file.n, out);
        ort_proto_finish(&file);
    }
    free(data);
    return status;
}

struct ort_status *ort_context_read(const struct ort_graph *graph, struct ort_proto *out,
                                    char *out_cache, size_t cache_size)
{
    const struct ort_node *node = NULL;
    struct ort_status *status;
    char *notes;
    size_t n = 0;
    bool ours;

    *out_cache = 0;
    TRY(ort.graph_n_node(graph, &n));
    if (n != 1) return NULL;
    TRY(ort.graph_node(graph, &node, 1));
    TRY(ort_context_is_ours(node, &ours));
    if (!ours) return NULL;
    TRY(model_read(graph, node, out));
    TRY(attr_text(node, "notes", &notes, NULL));
    status = notes ? path_beside(graph, notes, out_cache, cache_size) : NULL;
    free(notes);
    return status;
}

/* --- writing --- */

/* The path of the context model: that of the options, or that of the model with "_ctx". */
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
    if (n > 5 && !strcmp(path + n - 5, ".onnx")) n -= 5;
    if (n + 16 > size) return ort_error(ORT_FAIL, "Backplane: the path of the model is too long");
    snprintf(out, size, "%.*s_ctx.onnx", (int)n, path);
    return NULL;
}

struct ort_status *ort_context_cache(const struct ort_provider *ep, const struct ort_graph *graph,
                                     char *out, size_t size)
{
    TRY(context_path(ep, graph, out, size - 10));
    strcat(out, ".programs");
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
        status = ort.node_create(operator_name, operator_domain, name, in, unit->n_in, out,
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
        known = known && !bp_tensor_create(unit->ep->offer->device, port.dtype, port.rank,
                                           port.shape, &in[i]);
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
    bool embedded = unit->ep->options.context_embed;
    const char **in = calloc(unit->n_in + unit->n_out + 2, sizeof *in);
    char file[2300], notes[1100];
    struct ort_status *status;

    if (!in) return ort_no_memory();
    snprintf(file, sizeof file, "%s.%u.bin", path, unit->ep->n_unit);
    snprintf(notes, sizeof notes, "%.1000s.programs", file_name_of(path));
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
    if (!status && !(data = malloc(HEAD + size))) status = ort_no_memory();
    if (!status) {
        memcpy(data, magic, sizeof magic);
        memcpy(data + sizeof magic, &size, sizeof size);
        memcpy(data + HEAD, w.model.at, size);
        context_compile(unit);
        status = context_make(unit, path, name, data, HEAD + size, out);
    }
    free(data);
    ort_writing_finish(&w);
    return status;
}
