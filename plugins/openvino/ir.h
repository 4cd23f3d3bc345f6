/* SPDX-License-Identifier: Apache-2.0 */
/* ir.h: declares the writer of OpenVINO's intermediate representation (IR), version 11: a text of
 * XML with layers and edges, and one block of bytes that has the contents of all constants. */
#ifndef OPENVINO_IR_H
#define OPENVINO_IR_H

#include <backplane/graph_data.h>
#include <backplane/plugin.h>
#include <stdbool.h>
#include <stdio.h>

/* An output of a layer. */
struct ir_ref {
    uint32_t layer, port;
};

/* Contents of a constant: of a frozen value of the graph, or bytes that the writer keeps. */
struct ir_piece {
    const struct bp_data_value *value; /* NULL: kept bytes */
    uint64_t at;                       /* in the block */
    uint64_t bytes;
    size_t kept_at; /* in the stream of kept bytes */
};

/* A model that grows by layers. A failure for lack of memory is kept, and ir_end returns it. */
struct ir {
    const struct bp_host *host;
    FILE *layers, *edges, *kept; /* streams in memory, with the buffers below */
    char *layers_text, *edges_text, *kept_bytes;
    size_t layers_size, edges_size, kept_size;
    struct ir_piece *piece;
    uint32_t n_piece, room_piece, n_layer;
    uint64_t block; /* bytes of the block so far */
    bool failed;
};

enum {
    IR_LIST = 192,
    IR_NUMBER = 32
};

enum bp_status ir_begin(struct ir *ir, const struct bp_host *host);
/* Writes the whole text, which belongs to ir. */
enum bp_status ir_end(struct ir *ir, const char **out_text, size_t *out_length);
/* Fills the block of constants, ir->block bytes. */
void ir_fill(const struct ir *ir, void *block);
void ir_finish(struct ir *ir);

/* The name of a dtype as element_type; NULL: the library has no such type. */
const char *ir_type(uint32_t dtype);
uint32_t ir_bits(uint32_t dtype);
/* Writes integers with commas between; a number in the form that the library reads. */
const char *ir_list(char out[IR_LIST], const int64_t *at, int64_t n);
const char *ir_number(char out[IR_NUMBER], double number);

/* Layers. opset: 1 for "opset1". format: printf's, for the attributes of the layer: axis="1"; or
 * NULL. dtype: of the one output. */
#if defined(__GNUC__)
__attribute__((format(printf, 7, 8)))
#endif
struct ir_ref
ir_add(struct ir *ir, const char *type, uint32_t opset, uint32_t dtype, const struct ir_ref *in,
       uint32_t n_in, const char *format, ...);
struct ir_ref ir_parameter(struct ir *ir, uint32_t dtype, uint32_t rank, const int64_t *shape);
void ir_result(struct ir *ir, struct ir_ref value);

/* Constants. ir_integers: of i64, of rank 1. ir_float: one number of rank 0, of a floating dtype of
 * at most 32 bits. */
struct ir_ref ir_constant(struct ir *ir, const struct bp_data_value *value);
struct ir_ref ir_integers(struct ir *ir, const int64_t *at, int64_t n);
struct ir_ref ir_float(struct ir *ir, uint32_t dtype, double number);
struct ir_ref ir_floats(struct ir *ir, int64_t n, float number);

/* The same values with other extents; as another dtype. */
struct ir_ref ir_reshape(struct ir *ir, struct ir_ref x, uint32_t dtype, const int64_t *shape,
                         uint32_t rank);
struct ir_ref ir_convert(struct ir *ir, struct ir_ref x, uint32_t dtype);

#endif
