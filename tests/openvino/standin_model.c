/* SPDX-License-Identifier: Apache-2.0 */
/* standin_model.c: reads, checks and computes the models of the stand-in for OpenVINO: layers of
 * all types are read, and Add, Multiply, Maximum, Relu, Reshape, Gather, NotEqual and Select of f32
 * are computed. */
#include "standin.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Numbers from 100: those of OpenVINO are others. */
static const struct {
    const char *name, *precision;
    uint32_t bytes;
} types[] = {{"boolean", "BOOL", 1}, {"u8", "U8", 1},   {"f32", "FP32", 4}, {"i64", "I64", 8},
             {"i8", "I8", 1},        {"i16", "I16", 2}, {"i32", "I32", 4},  {"u16", "U16", 2},
             {"u32", "U32", 4},      {"u64", "U64", 8}, {"f16", "FP16", 2}, {"bf16", "BF16", 2},
             {"f64", "FP64", 8}};
enum {
    TYPES = sizeof types / sizeof *types,
    TYPE_BASE = 100,
    BOOL = 100,
    F32 = 102,
    I64 = 103
};

/* The first opset that has a layer of this name as the plugin writes it. */
static const struct {
    const char *name;
    uint32_t opset;
} known[] = {
    {"Parameter", 1}, {"Const", 1},  {"Result", 1},  {"Add", 1},     {"Multiply", 1}, {"Relu", 1},
    {"Reshape", 1},   {"Gather", 8}, {"Maximum", 1}, {"Convert", 1}, {"Subtract", 1}, {"Divide", 1},
    {"NotEqual", 1},  {"Select", 1},
};

uint64_t type_bytes(unsigned type)
{
    return type - TYPE_BASE < TYPES ? types[type - TYPE_BASE].bytes : 0;
}

static unsigned type_named(const char *text, bool precision)
{
    for (unsigned t = 0; t < TYPES; t++) {
        const char *name = precision ? types[t].precision : types[t].name;
        if (!strncmp(text, name, strlen(name)) && text[strlen(name)] == '"') return t + TYPE_BASE;
    }
    return 0;
}

static uint64_t extent_count(const struct layer *l)
{
    uint64_t count = 1;

    for (uint32_t a = 0; a < l->rank; a++) count *= (uint64_t)l->extent[a];
    return count;
}

/* The value of an attribute of the element that ends at `end`, or NULL. */
static const char *layer_attribute(const char *at, const char *end, const char *name)
{
    char word[48];

    snprintf(word, sizeof word, " %s=\"", name);
    at = strstr(at, word);
    return at && at < end ? at + strlen(word) : NULL;
}

static void read_extents(struct layer *l, const char *at)
{
    while (*at != '"' && l->rank < 8) {
        char *end;
        l->extent[l->rank++] = strtoll(at, &end, 10);
        at = end + (*end == ',');
    }
}

static const char *read_constant(struct ov_model *m, struct layer *l, const char *at,
                                 const char *end)
{
    const char *offset = layer_attribute(at, end, "offset"),
               *size = layer_attribute(at, end, "size");
    uint64_t first;

    if (!offset || !size) return "a constant without offset or size";
    first = strtoull(offset, NULL, 10);
    l->bytes = strtoull(size, NULL, 10);
    if (first > m->n_weights || l->bytes > m->n_weights - first)
        return "a constant outside of the weights";
    if (l->bytes != extent_count(l) * type_bytes(l->type)) return "a constant of another size";
    l->data = m->weights + first;
    return NULL;
}

/* Reads a layer, whose text ends at `end`. */
static const char *read_layer(struct ov_model *m, const char *at, const char *end)
{
    struct layer *l = &m->layer[m->n_layer];
    const char *id = layer_attribute(at, end, "id"), *name = layer_attribute(at, end, "type"),
               *opset = layer_attribute(at, end, "version"),
               *shape = layer_attribute(at, end, "shape"),
               *type = layer_attribute(at, end, "element_type"),
               *precision = layer_attribute(at, end, "precision");
    uint32_t i = 0;

    if (!id || !name || !opset || strncmp(opset, "opset", 5)) return "a layer without a name";
    if (strtoul(id, NULL, 10) != m->n_layer) return "layers are not numbered in order";
    snprintf(l->name, sizeof l->name, "%.*s", (int)strcspn(name, "\""), name);
    l->opset = (uint32_t)strtoul(opset + 5, NULL, 10);
    while (i < sizeof known / sizeof *known && strcmp(known[i].name, l->name)) i++;
    if (i == sizeof known / sizeof *known || known[i].opset != l->opset)
        return "a layer of an unknown type";
    if (shape) read_extents(l, shape);
    if (type) l->type = type_named(type, false);
    else if (precision) l->type = type_named(precision, true);
    if (!l->type && strcmp(l->name, "Result")) return "a layer without a type of output";
    if (!strcmp(l->name, "Parameter")) m->in[m->n_in++] = m->n_layer;
    if (!strcmp(l->name, "Result")) m->out[m->n_out++] = m->n_layer;
    m->n_layer++;
    return strcmp(l->name, "Const") ? NULL : read_constant(m, l, at, end);
}

static const char *read_edge(struct ov_model *m, const char *at, const char *end)
{
    const char *from = layer_attribute(at, end, "from-layer"),
               *to = layer_attribute(at, end, "to-layer"),
               *port = layer_attribute(at, end, "to-port"),
               *out = layer_attribute(at, end, "from-port");
    uint32_t a, b;
    struct layer *l;

    if (!from || !to || !port || !out) return "an edge without an end";
    a = (uint32_t)strtoul(from, NULL, 10);
    b = (uint32_t)strtoul(to, NULL, 10);
    if (b >= m->n_layer || a >= b) return "an edge from a later layer";
    l = &m->layer[b];
    if (strtoul(port, NULL, 10) != l->n_in || l->n_in == LAYER_INPUTS)
        return "edges to a layer are not in order";
    if (strtoul(out, NULL, 10) != m->layer[a].n_in) return "an edge from an unknown port";
    l->in[l->n_in++] = a;
    return NULL;
}

static const char *read_all(struct ov_model *m)
{
    const char *why = NULL;

    if (strncmp(m->text, "<?xml version=\"1.0\"?>", 21) || !strstr(m->text, " version=\"11\">"))
        return "no IR of version 11";
    for (const char *at = m->text; !why && (at = strstr(at, "<layer ")); at++)
        why = read_layer(m, at, strstr(at, "</layer>"));
    for (const char *at = m->text; !why && (at = strstr(at, "<edge ")); at++)
        why = read_edge(m, at, strstr(at, "/>"));
    for (uint32_t i = 0; !why && i < m->n_out; i++) {
        if (m->layer[m->out[i]].n_in != 1) return "a result without an input";
        m->out[i] = m->layer[m->out[i]].in[0];
    }
    return why;
}

struct ov_model *model_read(const char *text, const char *weights, uint64_t n_weights,
                            const char **out_why)
{
    struct ov_model *m = calloc(1, sizeof *m);
    size_t room = strlen(text) / 20 + 1;

    m->references = 1;
    m->text = strdup(text);
    m->weights = malloc(n_weights + 1);
    if (n_weights) memcpy(m->weights, weights, n_weights);
    m->n_weights = n_weights;
    m->layer = calloc(room, sizeof *m->layer);
    m->in = calloc(room, sizeof *m->in);
    m->out = calloc(room, sizeof *m->out);
    *out_why = read_all(m);
    if (!*out_why) return m;
    model_release(m);
    return NULL;
}

void model_release(struct ov_model *m)
{
    if (--m->references) return;
    free(m->text);
    free(m->weights);
    free(m->layer);
    free(m->in);
    free(m->out);
    free(m);
}

static const char *infer_reshape(const struct ov_model *m, struct layer *l)
{
    const struct layer *x = &m->layer[l->in[0]], *shape = &m->layer[l->in[1]];

    if (!shape->data || shape->type != I64) return "a shape that is no constant";
    l->rank = (uint32_t)(shape->bytes / 8);
    memcpy(l->extent, shape->data, shape->bytes);
    return extent_count(l) == extent_count(x) ? NULL : "a reshape to another count";
}

/* Of gather along the first axis. */
static const char *infer_gather(const struct ov_model *m, struct layer *l)
{
    const struct layer *x = &m->layer[l->in[0]], *index = &m->layer[l->in[1]];

    l->rank = index->rank + x->rank - 1;
    memcpy(l->extent, index->extent, index->rank * sizeof *l->extent);
    memcpy(l->extent + index->rank, x->extent + 1, (x->rank - 1) * sizeof *l->extent);
    return NULL;
}

/* Of tensors that have the same extents, or those of the last one. */
static const char *infer_select(const struct ov_model *m, struct layer *l)
{
    const struct layer *x[] = {&m->layer[l->in[0]], &m->layer[l->in[1]], &m->layer[l->in[2]]};

    if (x[0]->type != BOOL || x[1]->type != F32 || x[2]->type != F32) return "types differ";
    if (extent_count(x[0]) > extent_count(x[2])) x[2] = x[0];
    l->rank = x[2]->rank;
    memcpy(l->extent, x[2]->extent, sizeof l->extent);
    return NULL;
}

static const char *infer_layer(const struct ov_model *m, struct layer *l)
{
    const struct layer *x = l->n_in ? &m->layer[l->in[0]] : NULL;
    bool compares = !strcmp(l->name, "NotEqual");
    bool two = !strcmp(l->name, "Add") || !strcmp(l->name, "Multiply") ||
               !strcmp(l->name, "Maximum") || compares;

    if (!x || !strcmp(l->name, "Result")) return NULL;
    if (!strcmp(l->name, "Reshape")) return infer_reshape(m, l);
    if (!strcmp(l->name, "Gather")) return infer_gather(m, l);
    if (!strcmp(l->name, "Select")) return infer_select(m, l);
    if ((l->type == BOOL) != compares) return "a wrong type of output";
    if (!two && strcmp(l->name, "Relu")) return "this stand-in does not compute the layer";
    if (x->type != F32 || (two && m->layer[l->in[1]].type != F32)) return "types differ";
    if (two && extent_count(&m->layer[l->in[1]]) > extent_count(x)) x = &m->layer[l->in[1]];
    l->rank = x->rank;
    memcpy(l->extent, x->extent, sizeof l->extent);
    return NULL;
}

const char *model_infer(struct ov_model *m)
{
    const char *why = NULL;

    for (uint32_t i = 0; m && !why && i < m->n_layer; i++) {
        if (strcmp(m->layer[i].name, "Const") && strcmp(m->layer[i].name, "Parameter"))
            m->layer[i].rank = 0;
        why = infer_layer(m, &m->layer[i]);
    }
    return why;
}

/* Computes a layer with as many elements as its larger input; the other one repeats. */
static void run_layer(const struct ov_model *m, const struct layer *l, char *const *value, char *to)
{
    const float *x = (const float *)value[l->in[0]];
    const float *y = l->n_in > 1 ? (const float *)value[l->in[1]] : x;
    uint64_t n = extent_count(l), n_x = extent_count(&m->layer[l->in[0]]);
    uint64_t n_y = l->n_in > 1 ? extent_count(&m->layer[l->in[1]]) : 1;
    float *z = (float *)to;

    if (!strcmp(l->name, "Reshape")) memcpy(to, x, n * type_bytes(l->type));
    else if (!strcmp(l->name, "Gather")) {
        uint64_t row = n_x / (uint64_t)m->layer[l->in[0]].extent[0];
        for (uint64_t i = 0; i < n_y; i++) {
            int64_t at = ((const int64_t *)value[l->in[1]])[i];
            if (at < 0) at += m->layer[l->in[0]].extent[0];
            memcpy(z + i * row, x + (uint64_t)at * row, row * sizeof *z);
        }
    } else if (!strcmp(l->name, "Select")) {
        const float *other = (const float *)value[l->in[2]];
        uint64_t n_other = extent_count(&m->layer[l->in[2]]);
        for (uint64_t i = 0; i < n; i++)
            z[i] = value[l->in[0]][i % n_x] ? y[i % n_y] : other[i % n_other];
    } else if (!strcmp(l->name, "NotEqual")) {
        for (uint64_t i = 0; i < n; i++) to[i] = x[i % n_x] != y[i % n_y];
    } else if (!strcmp(l->name, "Relu")) {
        for (uint64_t i = 0; i < n; i++) z[i] = x[i] > 0 ? x[i] : 0;
    } else {
        for (uint64_t i = 0; i < n; i++) {
            float a = x[i % n_x], b = y[i % n_y];
            z[i] = *l->name == 'A' ? a + b : strcmp(l->name, "Maximum") ? a * b : a > b ? a : b;
        }
    }
}

void model_run(const struct ov_model *m, void *const *in, void *const *out)
{
    char **value = calloc(m->n_layer, sizeof *value);

    for (uint32_t i = 0; i < m->n_in; i++) value[m->in[i]] = in[i];
    for (uint32_t i = 0; i < m->n_layer; i++) {
        const struct layer *l = &m->layer[i];
        if (l->data) value[i] = (char *)l->data;
        if (value[i] || !strcmp(l->name, "Result")) continue;
        value[i] = malloc(extent_count(l) * type_bytes(l->type) + 1);
        run_layer(m, l, value, value[i]);
    }
    for (uint32_t i = 0; i < m->n_out; i++) {
        const struct layer *l = &m->layer[m->out[i]];
        if (out[i]) memcpy(out[i], value[m->out[i]], extent_count(l) * type_bytes(l->type));
    }
    for (uint32_t i = 0; i < m->n_layer; i++)
        if (m->layer[i].n_in && strcmp(m->layer[i].name, "Result")) free(value[i]);
    free(value);
}
