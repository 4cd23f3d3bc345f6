/* SPDX-License-Identifier: Apache-2.0 */
/* run_inputs.c: makes the inputs of a model: from files, or of the shapes that --shape gives. */
#include "onnx_cases.h"
#include "run_model.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { RANK_MAX = 16 };

char *run_data_file(const struct run_words *w, const char *what, uint32_t i)
{
    return w->data ? onnx_data_file(w->data, what, i) : NULL;
}

bool run_has_data(const char *command, const struct run_words *w)
{
    struct stat data;

    if (!w->data || (!stat(w->data, &data) && S_ISDIR(data.st_mode))) return true;
    bp_complain(command, "--data %s: there is no such folder", w->data);
    return false;
}

/* Whether a --shape, "NAME=1x3x224x224", belongs to this input. */
static bool is_of(const char *given, const struct bp_model_port *port)
{
    size_t n = strlen(port->name);

    return !strncmp(given, port->name, n) && given[n] == '=';
}

static bool read_shape(const char *given, const struct bp_model_port *port, int64_t *shape)
{
    char *at = (char *)given + strlen(port->name);

    for (uint32_t k = 0; k < port->rank; k++) {
        bool digit = at[1] >= '0' && at[1] <= '9';
        shape[k] = digit ? strtoll(at + 1, &at, 10) : 0;
        if (!digit || *at != (k + 1 < port->rank ? 'x' : 0)) return false;
    }
    return port->rank > 0;
}

/* The names of the model's inputs, each behind a space. The caller frees the text. */
static char *input_names(const struct run_model *r)
{
    char *names = bp_text_format("%s", r->n_in ? "" : " none");

    for (uint32_t i = 0; i < r->n_in; i++) {
        struct bp_model_port port = {.size = sizeof port};
        char *before = names;
        if (bp_model_input(r->model, i, &port)) continue;
        names = bp_text_format("%s %s", before, port.name);
        free(before);
    }
    return names;
}

/* Checks that a --shape gives the extents of an input for which no file exists. */
static bool check_shape(const struct run_model *r, const struct run_words *w, const char *given)
{
    char *names;

    for (uint32_t i = 0; i < r->n_in; i++) {
        struct bp_model_port port = {.size = sizeof port};
        int64_t shape[RANK_MAX];
        char *path;
        if (bp_model_input(r->model, i, &port)) return run_failed("inputs");
        if (!is_of(given, &port)) continue;
        if (port.rank > RANK_MAX || !read_shape(given, &port, shape)) {
            bp_complain(run_command,
                        "--shape %s: expected %d extents, with x between (-1: the model does not "
                        "say how many)", given, (int)port.rank);
            return false;
        }
        for (uint32_t k = 0; k < port.rank; k++) {
            if (port.shape[k] < 0 || port.shape[k] == shape[k]) continue;
            bp_complain(run_command, "--shape %s: the model says that extent %u is %lld", given, k,
                        (long long)port.shape[k]);
            return false;
        }
        path = run_data_file(w, "input", i);
        if (path)
            bp_complain(run_command, "--shape %s: %s has the values of this input", given, path);
        free(path);
        return !path;
    }
    names = input_names(r);
    bp_complain(run_command,
                "--shape %s: expected NAME=1x3x8 of an input; the model has no such one; its "
                "inputs:%s",
                given, names);
    free(names);
    return false;
}

bool run_check_shapes(struct run_model *r, const struct run_words *w)
{
    r->n_in = bp_model_inputs(r->model);
    for (size_t i = 0; i < w->shapes.n; i++)
        if (!check_shape(r, w, w->shapes.at[i])) return false;
    return true;
}

/* The shape from --shape, else from the model, with 1 for extents that the model leaves open. */
static void choose_shape(const struct run_words *w, const struct bp_model_port *port,
                         int64_t *shape)
{
    for (uint32_t k = 0; k < port->rank; k++) shape[k] = port->shape[k] < 0 ? 1 : port->shape[k];
    for (size_t i = 0; i < w->shapes.n; i++)
        if (is_of(w->shapes.at[i], port)) (void)read_shape(w->shapes.at[i], port, shape);
}

/* Whether a generated input is within --max-memory. */
static bool model_fits(const struct run_model *r, const struct run_words *w,
                       const struct bp_model_port *port, const int64_t *shape)
{
    double bytes = bp_dtype_bits(port->dtype) / 8.0;

    for (uint32_t k = 0; k < port->rank; k++) bytes *= (double)shape[k];
    if (isnan(w->run_mib) || bytes <= w->run_mib * (1 << 20)) return true;
    bp_complain(run_command, "%s: input %s takes %.0f bytes, more than --max-memory %g", r->path,
                port->name, bytes, w->run_mib);
    return false;
}

/* Generates an input: element i of n is i / n for floats, as in ONNX's light networks; 0 for other
 * types. */
static bool model_make_input(struct run_model *r, const struct run_words *w,
                             const struct bp_model_port *port, struct bp_model_value *out)
{
    struct bp_tensor_info info = {.size = sizeof info};
    int64_t shape[RANK_MAX];
    char *data;
    bool ok;

    if (port->kind != BP_MODEL_TENSOR || port->rank > RANK_MAX || port->dtype == UINT32_MAX) {
        bp_complain(run_command, "input %s has no type that could be made up: give --data",
                    port->name);
        return false;
    }
    out->at = calloc(1, sizeof *out->at);
    if (!out->at) abort();
    choose_shape(w, port, shape);
    if (!model_fits(r, w, port, shape)) return false;
    if (bp_tensor_create(r->device, port->dtype, port->rank, shape, out->at))
        return run_failed(port->name);
    out->n = 1;
    out->kind = BP_MODEL_TENSOR;
    if (bp_tensor_get_info(out->at[0], &info)) return run_failed(port->name);
    data = calloc(info.bytes + 1, 1);
    if (!data) abort();
    for (int64_t i = 0; i < info.count && info.dtype == BP_F32; i++)
        ((float *)data)[i] = (float)i / (float)info.count;
    ok = !bp_tensor_write(r->stream, out->at[0], data, info.bytes) || run_failed(port->name);
    free(data);
    return ok;
}

bool run_take_inputs(struct run_model *r, const struct run_words *w)
{
    bool ok = true;

    r->n_in = bp_model_inputs(r->model);
    r->n_out = bp_model_outputs(r->model);
    r->in = calloc(r->n_in + r->n_out + 1, sizeof *r->in);
    if (!r->in) abort();
    r->out = r->in + r->n_in;
    for (uint32_t i = 0; ok && i < r->n_in; i++) {
        struct bp_model_port port = {.size = sizeof port};
        char *path = run_data_file(w, "input", i);
        ok = !bp_model_input(r->model, i, &port) || run_failed("inputs");
        if (ok && path)
            ok = !bp_model_value_load(r->model, &port, path, &r->in[i]) || run_failed(path);
        else if (ok) ok = model_make_input(r, w, &port, &r->in[i]);
        free(path);
    }
    return ok;
}
