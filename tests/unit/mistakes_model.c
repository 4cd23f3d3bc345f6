/* SPDX-License-Identifier: Apache-2.0 */
/* mistakes_model.c: tables of wrong calls of model.h. A model is no handle of the core, but
 * functions check it in the same way as a handle. */
#include "../onnx/small_models.h"
#include "mistakes.h"
#include <backplane/model.h>

#include <unistd.h>

enum {
    MODEL = T_OWN, /* x + x of i64 [2, 2] by weights */
    BYTES,         /* the bytes of its file */
    SIZE,
    PATH,          /* its file */
    DATA_PATH,     /* a tensor's file */
    INPUTS,        /* a list of one i64 [2, 2] */
    VALUES,        /* the list as values */
    NO_INPUTS,     /* a list of NULL */
    FLOATS,        /* of T_TENSOR */
    SHORTS,        /* of an i64 [2] */
    FOREIGN,       /* of an i64 [2, 2] of T_OTHER_DEVICE */
    NO_TENSORS,    /* of T_STREAM */
    PORT,
};

static const char *const model_text[] = {SMALL_MODELS};
static const struct bp_model_value no_value, sequence = {NULL, 1, BP_MODEL_SEQUENCE, 0},
                                   two = {NULL, 2, BP_MODEL_TENSOR, 0};
static const struct bp_model_options size_0 = {.size = 0}, size_8 = {.size = 8},
                                     size_huge = {.size = SIZE_MAX};
static struct bp_model_port port = {.size = sizeof port, .name = "x", .dtype = BP_I64,
                                    .kind = BP_MODEL_TENSOR},
                            kind_0 = {.size = sizeof kind_0}, kind_9 = {.size = sizeof kind_9,
                                                                         .kind = 9};

/* Destroys a created model immediately, because the tables only destroy things of the core. */
static uint64_t model_made(enum bp_status status, struct bp_model **model)
{
    if (status == BP_OK) bp_model_destroy(*model);
    return status;
}

static uint64_t model_load(const union value *a)
{
    return model_made(bp_model_load(a[0].p, a[1].cp, a[2].cp, a[3].p), a[3].p);
}

static uint64_t load_memory(const union value *a)
{
    return model_made(bp_model_load_memory(a[0].p, a[1].cp, a[2].u, a[3].cp, a[4].p), a[4].p);
}

static uint64_t model_destroy(const union value *a)
{
    bp_model_destroy(a[0].p);
    return 0;
}

static uint64_t model_inputs(const union value *a)
{
    return bp_model_inputs(a[0].p);
}

static uint64_t model_outputs(const union value *a)
{
    return bp_model_outputs(a[0].p);
}

static uint64_t model_input(const union value *a)
{
    return bp_model_input(a[0].p, (uint32_t)a[1].u, a[2].p);
}

static uint64_t model_output(const union value *a)
{
    return bp_model_output(a[0].p, (uint32_t)a[1].u, a[2].p);
}

static uint64_t model_run(const union value *a)
{
    return bp_model_run(a[0].p, a[1].p, a[2].p, a[3].u, a[4].p, a[5].u);
}

static uint64_t model_program(const union value *a)
{
    return bp_model_program(a[0].p, a[1].p, a[2].u, a[3].p);
}

static uint64_t output_types(const union value *a)
{
    struct bp_model_type type;

    return bp_model_output_types(a[0].p, a[1].p, a[2].p, a[3].u, a[4].p ? &type : NULL, a[5].u,
                                 NULL);
}

static uint64_t run_into(const union value *a)
{
    return bp_model_run_into(a[0].p, a[1].p, a[2].p, a[3].u, a[4].p, a[5].cp, a[6].u);
}

static uint64_t run_values(const union value *a)
{
    enum bp_status status = bp_model_run_values(a[0].p, a[1].p, a[2].p, a[3].u, a[4].p, a[5].u);

    if (status == BP_OK) bp_model_value_finish(a[4].p);
    return status;
}

static uint64_t value_finish(const union value *a)
{
    bp_model_value_finish(a[0].p);
    return 0;
}

static uint64_t value_load(const union value *a)
{
    enum bp_status status = bp_model_value_load(a[0].p, a[1].p, a[2].cp, a[3].p);

    if (status == BP_OK) bp_model_value_finish(a[3].p);
    return status;
}

static uint64_t model_planned(const union value *a)
{
    return bp_model_planned(a[0].p, a[1].p, a[2].u, a[3].p);
}

static uint64_t model_export(const union value *a)
{
    return bp_model_export(a[0].p, a[1].cp, (uint32_t)a[2].u, a[3].p, a[4].cp);
}

static uint64_t model_node(const union value *a)
{
    return (unsigned char)*bp_model_node(a[0].p);
}

static uint64_t model_info(const union value *a)
{
    return bp_model_get_info(a[0].p, a[1].p);
}

static void ignore_lack(void *ctx, size_t node, const char *text)
{
    (void)ctx;
    (void)node;
    (void)text;
}

static uint64_t missing_nodes(const union value *a)
{
    return bp_model_missing_nodes(a[0].cp, a[1].u, a[2].p ? ignore_lack : NULL, NULL);
}

static uint64_t model_missing(const union value *a)
{
    return bp_model_missing(a[0].cp, a[1].p, a[2].u);
}

static uint64_t model_weight(const union value *a)
{
    return bp_model_weight(a[0].p, a[1].cp, a[2].p);
}

static uint64_t model_metadata(const union value *a)
{
    return bp_model_get_metadata(a[0].p, (uint32_t)a[1].u, a[2].p);
}

static uint64_t find_metadata(const union value *a)
{
    return (uintptr_t)bp_model_find_metadata(a[0].p, a[1].cp);
}

static uint64_t model_opset(const union value *a)
{
    return bp_model_get_opset(a[0].p, (uint32_t)a[1].u, a[2].p);
}

static uint64_t model_supports(const union value *a)
{
    return bp_model_supports(a[0].cp, a[1].cp, a[2].i, a[3].p);
}

static uint64_t model_row(const union value *a)
{
    return bp_model_get_row((uint32_t)a[0].u, a[1].p);
}

static const uint32_t last_value = 1, no_such_value = 99;

/* The model has nothing to bind: right arguments lead to this message. */
static uint64_t model_expect_text(enum bp_status status, const char *text)
{
    return status && strstr(bp_error_message(), text) ? BP_OK : status;
}

static uint64_t model_bind(const union value *a)
{
    return model_expect_text(bp_model_bind(a[0].p, a[1].cp, a[2].cp, a[3].i), "has an input");
}

static uint64_t model_reset(const union value *a)
{
    return model_expect_text(bp_model_reset(a[0].p), "the model has no bindings");
}

static uint64_t bind_info(const union value *a)
{
    return bp_model_get_bind_info(a[0].p, a[1].p);
}

#define OF_MODEL {.kind = ARG_HANDLE, .thing = MODEL, .word = "model"}
#define OUT {.kind = ARG_OUT}

static const struct function functions[] = {
    {"bp_model_load", model_load, {HANDLE(T_DEVICE), POINTER_OWN(PATH), OPTIONAL(NULL), OUT}},
    {"bp_model_load_memory", load_memory,
     {HANDLE(T_DEVICE), POINTER_OWN(BYTES), NUMBER_OWN(SIZE), OPTIONAL(NULL), OUT}},
    {"bp_model_destroy", model_destroy, {OF_MODEL}, RETURNS_NOTHING},
    {"bp_model_inputs", model_inputs, {OF_MODEL}, RETURNS_ZERO},
    {"bp_model_outputs", model_outputs, {OF_MODEL}, RETURNS_ZERO},
    {"bp_model_input", model_input, {OF_MODEL, NUMBER(0), INFO(struct bp_model_port)}},
    {"bp_model_output", model_output, {OF_MODEL, NUMBER(0), INFO(struct bp_model_port)}},
    {"bp_model_run", model_run,
     {OF_MODEL, HANDLE(T_STREAM), POINTER_OWN(INPUTS), NUMBER(1), OUT_OF(T_TENSOR), NUMBER(1)}},
    {"bp_model_output_types", output_types,
     {OF_MODEL, HANDLE(T_STREAM), POINTER_OWN(INPUTS), NUMBER(1), POINTER(&size_0), NUMBER(1)}},
    {"bp_model_run_values", run_values,
     {OF_MODEL, HANDLE(T_STREAM), POINTER_OWN(VALUES), NUMBER(1), OUT, NUMBER(1)}},
    {"bp_model_run_into", run_into,
     {OF_MODEL, HANDLE(T_STREAM), POINTER_OWN(INPUTS), NUMBER(1), POINTER_OWN(INPUTS),
      OPTIONAL(NULL), NUMBER(1)}},
    {"bp_model_value_finish", value_finish, {POINTER(NULL)}, RETURNS_NOTHING},
    {"bp_model_value_load", value_load,
     {OF_MODEL, POINTER_OWN(PORT), POINTER_OWN(DATA_PATH), OUT}},
    {"bp_model_planned", model_planned, {OF_MODEL, POINTER_OWN(INPUTS), NUMBER(1), OUT}},
    {"bp_model_program", model_program, {OF_MODEL, POINTER_OWN(INPUTS), NUMBER(1), OUT}},
    {"bp_model_export", model_export,
     {HANDLE(T_GRAPH), POINTER(&last_value), NUMBER(1), HANDLE(T_STREAM), POINTER("/dev/null")}},
    {"bp_model_node", model_node, {OF_MODEL}, RETURNS_ZERO},
    {"bp_model_get_info", model_info, {OF_MODEL, INFO(struct bp_model_info)}},
    {"bp_model_missing", model_missing, {POINTER_OWN(PATH), OUT, NUMBER(128)}},
    {"bp_model_missing_nodes", missing_nodes,
     {POINTER_OWN(BYTES), NUMBER_OWN(SIZE), POINTER(&size_0)}},
    {"bp_model_weight", model_weight, {OF_MODEL, POINTER("w"), OUT_OF(T_TENSOR)}},
    {"bp_model_get_metadata", model_metadata,
     {OF_MODEL, NUMBER(0), INFO(struct bp_model_metadata)}},
    {"bp_model_find_metadata", find_metadata, {OF_MODEL, POINTER("key")}, RETURNS_ZERO},
    {"bp_model_get_opset", model_opset, {OF_MODEL, NUMBER(0), INFO(struct bp_model_opset)}},
    {"bp_model_supports", model_supports,
     {OPTIONAL("ai.onnx"), POINTER("Relu"), NUMBER(6), OPTIONAL(NULL)}},
    {"bp_model_get_row", model_row, {NUMBER(0), OUT}},
    {"bp_model_bind", model_bind, {OF_MODEL, POINTER("y"), POINTER("x"), NUMBER(4)}},
    {"bp_model_get_bind_info", bind_info, {OF_MODEL, INFO(struct bp_model_bind_info)}},
    {"bp_model_reset", model_reset, {OF_MODEL}},
};

static const struct mistake mistakes[] = {
    {"bp_model_load", "no file", BP_ERR_NOT_FOUND, "/nowhere.onnx", {PUT(2, "/nowhere.onnx")}},
    {"bp_model_load", "a folder", BP_ERR_INVALID, "", {PUT(2, "/")}},
    {"bp_model_load", "size 0", BP_ERR_INVALID, "options->size is 0", {PUT(3, &size_0)}},
    {"bp_model_load", "size 8", BP_ERR_INVALID, "options->size is 8", {PUT(3, &size_8)}},
    {"bp_model_load_memory", "huge size", BP_ERR_INVALID, "options->size", {PUT(4, &size_huge)}},
    {"bp_model_load_memory", "nothing", BP_ERR_INVALID, "it is empty", {SET(3, 0)}},
    {"bp_model_input", "past the end", BP_ERR_NOT_FOUND, "no number 1, of 1", {SET(2, 1)}},
    {"bp_model_output", "far past it", BP_ERR_NOT_FOUND, "of 1", {SET(2, UINT32_MAX)}},
    {"bp_model_run", "another device's stream", BP_ERR_INVALID, "is not of cpu:0",
     {USE(2, T_OTHER_STREAM)}},
    {"bp_model_run", "no inputs", BP_ERR_INVALID, "0 inputs and 1 outputs", {SET(4, 0)}},
    {"bp_model_run", "more inputs than there is memory", BP_ERR_INVALID, "the model has 1 and 1",
     {SET(4, SIZE_MAX)}},
    {"bp_model_run", "more outputs than there is memory", BP_ERR_INVALID, "the model has 1 and 1",
     {SET(6, SIZE_MAX / 2)}},
    {"bp_model_run", "an input is NULL", BP_ERR_INVALID, "input x has no value",
     {USE(3, NO_INPUTS)}},
    {"bp_model_run", "another dtype", BP_ERR_INVALID, "input x is f32, expected i64",
     {USE(3, FLOATS)}},
    {"bp_model_run", "another rank", BP_ERR_INVALID, "input x has 1 axes, expected 2",
     {USE(3, SHORTS)}},
    {"bp_model_run", "of another device", BP_ERR_INVALID, "input x is on template:0",
     {USE(3, FOREIGN)}},
    {"bp_model_run", "no tensor", BP_ERR_INVALID, "tensor", {USE(3, NO_TENSORS)}},
    {"bp_model_output_types", "no inputs", BP_ERR_INVALID, "0 inputs and 1 outputs",
     {SET(4, 0)}},
    {"bp_model_output_types", "another dtype", BP_ERR_INVALID, "input x is f32", {USE(3, FLOATS)}},
    {"bp_model_run_into", "no inputs", BP_ERR_INVALID, "bp_model_run_into: 0 inputs and 1 outputs",
     {SET(4, 0)}},
    {"bp_model_run_into", "an input is NULL", BP_ERR_INVALID, "input x has no value",
     {USE(3, NO_INPUTS)}},
    {"bp_model_run_into", "an output of another dtype", BP_ERR_INVALID, "the given tensor is f32",
     {USE(5, FLOATS)}},
    {"bp_model_run_into", "an output of another device", BP_ERR_INVALID, "is on template:0",
     {USE(5, FOREIGN)}},
    {"bp_model_run_into", "an output is no tensor", BP_ERR_INVALID, "expected NULL or a tensor",
     {USE(5, NO_TENSORS)}},
    {"bp_model_run_values", "no outputs", BP_ERR_INVALID, "1 inputs and 0 outputs", {SET(6, 0)}},
    {"bp_model_run_values", "no value", BP_ERR_INVALID, "input x has no value",
     {PUT(3, &no_value)}},
    {"bp_model_run_values", "a sequence", BP_ERR_INVALID, "input x is a sequence, expected",
     {PUT(3, &sequence)}},
    {"bp_model_run_values", "no list", BP_ERR_INVALID, "at is NULL", {PUT(3, &two)}},
    {"bp_model_value_load", "no file", BP_ERR_NOT_FOUND, "/nowhere.pb", {PUT(3, "/nowhere.pb")}},
    {"bp_model_value_load", "a file of another kind", BP_ERR_INVALID, "", {PUT(3, "/")}},
    {"bp_model_value_load", "a port of no kind", BP_ERR_INVALID, "port->kind is 0",
     {PUT(2, &kind_0)}},
    {"bp_model_value_load", "a port of kind 9", BP_ERR_INVALID, "port->kind is 9",
     {PUT(2, &kind_9)}},
    {"bp_model_planned", "no inputs", BP_ERR_INVALID, "0 inputs given, the model has 1",
     {SET(3, 0)}},
    {"bp_model_planned", "an input is NULL", BP_ERR_INVALID, "tensor", {USE(2, NO_INPUTS)}},
    {"bp_model_planned", "another dtype", BP_ERR_INVALID, "input x is f32", {USE(2, FLOATS)}},
    {"bp_model_program", "no inputs", BP_ERR_INVALID, "0 inputs given, the model has 1",
     {SET(3, 0)}},
    {"bp_model_program", "another dtype", BP_ERR_INVALID, "input x is f32", {USE(2, FLOATS)}},
    {"bp_model_export", "no such value", BP_ERR_INVALID, "99", {PUT(2, &no_such_value)}},
    {"bp_model_export", "no such folder", BP_ERR_INVALID, "/nowhere/a.onnx",
     {PUT(5, "/nowhere/a.onnx")}},
    {"bp_model_missing", "no file", BP_ERR_NOT_FOUND, "/nowhere.onnx", {PUT(1, "/nowhere.onnx")}},
    {"bp_model_missing", "no room", BP_ERR_INVALID, "size 0", {SET(3, 0)}},
    {"bp_model_missing_nodes", "no model", BP_ERR_INVALID, "model", {SET(2, 3)}},
    {"bp_model_weight", "no such name", BP_ERR_NOT_FOUND, "no initialiser v", {PUT(2, "v")}},
    {"bp_model_get_metadata", "past the end", BP_ERR_NOT_FOUND, "no number 1, of 1", {SET(2, 1)}},
    {"bp_model_get_opset", "past the end", BP_ERR_NOT_FOUND, "no number 1, of 1", {SET(2, 1)}},
    {"bp_model_supports", "no name", BP_ERR_INVALID, "op_type is empty", {PUT(2, "")}},
    {"bp_model_supports", "opset 0", BP_ERR_INVALID, "opset is 0", {SET(3, 0)}},
    {"bp_model_supports", "no such operator", BP_ERR_UNSUPPORTED, "operator Nothing of opset 6",
     {PUT(2, "Nothing")}},
    {"bp_model_get_row", "past the end", BP_ERR_NOT_FOUND, "rows", {SET(1, UINT32_MAX)}},
};

static struct bp_tensor *model_integers(struct bp_device *device, uint32_t rank)
{
    struct bp_tensor *t;

    OK(bp_tensor_create(device, BP_I64, rank, SHAPE(2, 2), &t));
    return t;
}

static char path[] = "/tmp/bp_mistakes_XXXXXX", data_path[] = "/tmp/bp_mistakes_XXXXXX";
static struct bp_tensor *good[1], *none[1], *floats[1], *shorts[1], *foreign[1], *strange[1];
static struct bp_model_value value = {good, 1, BP_MODEL_TENSOR, 0};

static void write_file(char *name, const char *bytes)
{
    int fd = mkstemp(name);

    cr_assert(fd >= 0 && write(fd, bytes, strlen(bytes)) == (ssize_t)strlen(bytes));
    close(fd);
}

static void model_prepare(struct world *w)
{
    struct bp_model *model;

    OK(bp_model_load_memory(w->f.device, model_text[0], strlen(model_text[0]), NULL, &model));
    write_file(path, model_text[0]);
    write_file(data_path, "\x08\x01\x10\x07:\x01\x05"); /* i64 [1], 5 */
    good[0] = model_integers(w->f.device, 2);
    shorts[0] = model_integers(w->f.device, 1);
    foreign[0] = model_integers(w->thing[T_OTHER_DEVICE].p, 2);
    floats[0] = w->thing[T_TENSOR].p;
    strange[0] = w->thing[T_STREAM].p;
    w->thing[MODEL].p = model;
    w->thing[BYTES].cp = model_text[0];
    w->thing[SIZE].u = strlen(model_text[0]);
    w->thing[PATH].p = path;
    w->thing[DATA_PATH].p = data_path;
    w->thing[INPUTS].p = good;
    w->thing[VALUES].p = &value;
    w->thing[NO_INPUTS].p = none;
    w->thing[FLOATS].p = floats;
    w->thing[SHORTS].p = shorts;
    w->thing[FOREIGN].p = foreign;
    w->thing[NO_TENSORS].p = strange;
    w->thing[PORT].p = &port;
}

static void model_finish(struct world *w)
{
    bp_tensor_destroy(good[0]);
    bp_tensor_destroy(shorts[0]);
    bp_tensor_destroy(foreign[0]);
    bp_model_destroy(w->thing[MODEL].p);
    unlink(path);
    unlink(data_path);
}

const struct table mistakes_model = {
    .function = functions,
    .n_function = COUNT(functions),
    .mistake = mistakes,
    .n_mistake = COUNT(mistakes),
    .prepare = model_prepare,
    .finish = model_finish,
};
