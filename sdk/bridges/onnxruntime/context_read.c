/* SPDX-License-Identifier: Apache-2.0 */
/* context_read.c: reads EPContext nodes, which context.c writes. */
#include "context.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
    if (strcmp(op, CONTEXT_OPERATOR) || strcmp(domain, CONTEXT_DOMAIN)) return NULL;
    TRY(attr_text(node, "source", &source, NULL));
    *out = source && !strcmp(source, ORT_NAME);
    free(source);
    return NULL;
}

/* --- contents --- */

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

    if (size >= CONTEXT_HEAD) memcpy(&n, (const char *)data + CONTEXT_MAGIC_SIZE, sizeof n);
    if (size < CONTEXT_HEAD || memcmp(data, CONTEXT_MAGIC, CONTEXT_MAGIC_SIZE) ||
        n > size - CONTEXT_HEAD)
        return ort_error(ORT_FAIL, "Backplane: the EPContext node has no compiled model, or a "
                         "damaged one: compile the model again");
    out->at = malloc(n + 1);
    if (!out->at) return ort_no_memory();
    memcpy(out->at, (const char *)data + CONTEXT_HEAD, n);
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

uint64_t ort_context_digest(const void *data, size_t size)
{
    uint64_t digest = size, word;

    for (size_t at = 0; at < size; at += sizeof word) {
        size_t n = size - at < sizeof word ? size - at : sizeof word;
        word = 0;
        memcpy(&word, (const char *)data + at, n);
        digest = (digest ^ word) * UINT64_C(0x9e3779b97f4a7c15);
        digest ^= digest >> 29;
    }
    return digest;
}

/* Fails if the contents are not those that the node was made with. */
static struct ort_status *contents_check(const struct ort_node *node, const void *data, size_t size)
{
    struct ort_status *status = NULL;
    char *notes, text[40];

    TRY(attr_text(node, "notes", &notes, NULL));
    snprintf(text, sizeof text, CONTEXT_DIGEST "%016" PRIx64, ort_context_digest(data, size));
    if (notes && strcmp(notes, text))
        status = ort_error(ORT_FAIL, "Backplane: the contents of the EPContext node belong to "
                           "another model, or are damaged: compile the model again");
    free(notes);
    return status;
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
    if (embedded) {
        status = contents_check(node, data, size);
        if (!status) status = contents_read(data, size, out);
    } else {
        status = path_beside(graph, data, path, sizeof path);
        if (!status) status = file_read(path, &file);
        if (!status) status = contents_check(node, file.at, file.n);
        if (!status) status = contents_read(file.at, file.n, out);
        ort_proto_finish(&file);
    }
    free(data);
    return status;
}

/* Any version reads the model; the programs of another one do not fit. */
static struct ort_status *version_check(const struct ort_provider *ep, const struct ort_node *node)
{
    char *version;

    TRY(attr_text(node, "ep_sdk_version", &version, NULL));
    if (version && strcmp(version, bp_version()))
        ort_log(ep->logger, ORT_INFO, "Backplane: the EPContext node is of version %.40s; version "
                "%s compiles its programs again if they do not fit", version, bp_version());
    free(version);
    return NULL;
}

struct ort_status *ort_context_read(const struct ort_provider *ep, const struct ort_graph *graph,
                                    struct ort_proto *out, char *out_cache, size_t cache_size)
{
    const struct ort_node *node = NULL;
    const char *path = "";
    size_t n = 0;
    bool ours;

    *out_cache = 0;
    TRY(ort.graph_n_node(graph, &n));
    if (n != 1) return NULL;
    TRY(ort.graph_node(graph, &node, 1));
    TRY(ort_context_is_ours(node, &ours));
    if (!ours) return NULL;
    TRY(model_read(graph, node, out));
    TRY(version_check(ep, node));
    TRY(ort.graph_path(graph, &path));
    if (*path && strlen(path) + sizeof CONTEXT_PROGRAMS <= cache_size)
        snprintf(out_cache, cache_size, "%s" CONTEXT_PROGRAMS, path);
    return NULL;
}
