/* SPDX-License-Identifier: Apache-2.0 */
/* test_borrow.c: tests that a model whose large weights stay in the file's bytes is unpacked to the
 * message that protobuf-c unpacks. */
#include "../../sdk/onnx/onnx.h"
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

enum {
    LARGE = 300000,
    SOME = 5000,
    SMALL = 64,
    ROOM = 2 * LARGE + 4 * SOME
};

/* Bytes of a message that is being written. */
struct bytes {
    uint8_t *at;
    size_t n;
};

static void bytes_number(struct bytes *b, uint64_t value)
{
    for (; value >> 7; value >>= 7) b->at[b->n++] = (uint8_t)(value | 128);
    b->at[b->n++] = (uint8_t)value;
}

static void bytes_field(struct bytes *b, unsigned number, const void *data, size_t n)
{
    bytes_number(b, number << 3 | 2);
    bytes_number(b, n);
    memcpy(b->at + b->n, data, n);
    b->n += n;
}

static struct bytes bytes_init(void)
{
    return (struct bytes){.at = malloc(ROOM)};
}

/* Writes an initialiser with n bytes of raw data, written `times` times, before or after its
 * name. */
static void bytes_tensor(struct bytes *graph, size_t n, int times, bool name_first)
{
    struct bytes t = bytes_init();
    uint8_t *data = malloc(n + 1);

    for (size_t i = 0; i < n; i++) data[i] = (uint8_t)(i * 7 + n);
    bytes_number(&t, 1 << 3); /* dims */
    bytes_number(&t, n);
    bytes_number(&t, 2 << 3); /* data_type */
    bytes_number(&t, 2);
    if (name_first) bytes_field(&t, 8, "w", 1);
    for (int i = 0; i < times; i++) bytes_field(&t, 9, data, n);
    if (!name_first) bytes_field(&t, 8, "w", 1);
    bytes_field(graph, 5, t.at, t.n);
    free(data);
    free(t.at);
}

/* Unpacks the model in both ways, and compares the messages. Returns how many initialisers have
 * their data in the bytes. */
static int borrow_count(const struct bytes *model)
{
    struct bp_model loaded = {.bytes = model->at, .n_bytes = model->n};
    Onnx__ModelProto *expected = NULL;
    uint8_t *a, *b;
    size_t n;
    int count = 0;

    cr_assert_eq(
        onnx_unpack(&onnx__model_proto__descriptor, model->at, model->n, "model", &expected),
        BP_OK);
    cr_assert_eq(onnx_unpack_model(model->at, model->n, &loaded.proto), BP_OK);
    n = onnx__model_proto__get_packed_size(expected);
    cr_assert_eq(onnx__model_proto__get_packed_size(loaded.proto), n);
    a = malloc(n);
    b = malloc(n);
    onnx__model_proto__pack(expected, a);
    onnx__model_proto__pack(loaded.proto, b);
    cr_expect(!memcmp(a, b, n));
    for (size_t i = 0; i < loaded.proto->graph->n_initializer; i++)
        count += onnx_is_borrowed(&loaded, loaded.proto->graph->initializer[i]->raw_data.data);
    onnx_return_all(&loaded);
    for (size_t i = 0; i < loaded.proto->graph->n_initializer; i++) {
        const uint8_t *data = loaded.proto->graph->initializer[i]->raw_data.data;
        cr_expect(data < model->at || data >= model->at + model->n);
    }
    onnx__model_proto__free_unpacked(expected, NULL);
    onnx__model_proto__free_unpacked(loaded.proto, NULL);
    free(a);
    free(b);
    return count;
}

/* Writes a model: a version, `graphs` times the graph, and a producer's name. */
static int borrow_count_of(const struct bytes *graph, int graphs)
{
    struct bytes model = bytes_init();
    int count;

    bytes_number(&model, 1 << 3); /* ir_version */
    bytes_number(&model, 8);
    for (int i = 0; i < graphs; i++) bytes_field(&model, 7, graph->at, graph->n);
    bytes_field(&model, 2, "test", 4);
    count = borrow_count(&model);
    free(model.at);
    return count;
}

Test(borrow, large_weights_stay_where_they_are)
{
    struct bytes graph = bytes_init();

    bytes_field(&graph, 2, "g", 1);
    bytes_tensor(&graph, SMALL, 1, true);
    bytes_tensor(&graph, LARGE, 1, true);
    bytes_tensor(&graph, SOME, 1, false);
    bytes_tensor(&graph, SMALL, 1, false);
    cr_expect_eq(borrow_count_of(&graph, 1), 2);
    free(graph.at);
}

Test(borrow, weights_at_the_end_of_the_graph)
{
    struct bytes graph = bytes_init();

    bytes_tensor(&graph, SOME, 1, false);
    cr_expect_eq(borrow_count_of(&graph, 1), 1);
    free(graph.at);
}

Test(borrow, small_weights_are_copied)
{
    struct bytes graph = bytes_init();

    bytes_tensor(&graph, SMALL, 1, true);
    cr_expect_eq(borrow_count_of(&graph, 1), 0);
    free(graph.at);
}

/* The last of several fields counts, and the graphs of several fields are one. */
Test(borrow, fields_that_are_repeated_are_copied)
{
    struct bytes graph = bytes_init();

    bytes_tensor(&graph, SOME, 2, true);
    cr_expect_eq(borrow_count_of(&graph, 1), 0);
    bytes_tensor(&graph, SOME, 1, true);
    cr_expect_eq(borrow_count_of(&graph, 1), 1);
    cr_expect_eq(borrow_count_of(&graph, 2), 0);
    free(graph.at);
}
