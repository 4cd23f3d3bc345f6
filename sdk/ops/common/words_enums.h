/* SPDX-License-Identifier: Apache-2.0 */
/* words_enums.h: lists the values of attributes that are enumerations; there is no other list. Each
 * enumeration is a macro ENUM_name, X(name, VALUE, number, meaning) for each value, and an entry of
 * ATTR_ENUMS. An operator definition names it by ENUM(attribute, name, default, when, doc)
 * (ops.def); opgen prints `enum bp_name` with the values BP_NAME_VALUE into backplane/attrs.h.
 * Attributes remain 64-bit integers. Numbers are never reused. */
#ifndef OPS_WORDS_ENUMS_H
#define OPS_WORDS_ENUMS_H

#define ATTR_ENUMS(E) \
    E(activation) E(cast_round) E(ctc_reduction) E(dropout_mode) E(grid_padding) E(grid_mode) \
    E(gru_gates) E(kl_div_reduction) E(lstm_gates) E(pad_mode) E(put_mode) E(reduction_mode) \
    E(resize_mode) E(resize_coordinates) E(resize_nearest) E(rnn_activation) E(rnn_direction) \
    E(segment_mode)

#define ENUM_activation(X) \
    X(activation, NONE, 0, "none") X(activation, RELU, 1, "relu") \
    X(activation, LEAKY_RELU, 2, "leaky_relu") X(activation, CLIP, 3, "clip") \
    X(activation, SIGMOID, 4, "sigmoid") X(activation, TANH, 5, "tanh") \
    X(activation, HARD_SIGMOID, 6, "hard_sigmoid") X(activation, HARD_SWISH, 7, "hard_swish") \
    X(activation, SILU, 8, "silu") X(activation, GELU, 9, "gelu") \
    X(activation, GELU_TANH, 10, "gelu with approximate 1") X(activation, MISH, 11, "mish") \
    X(activation, ELU, 12, "elu") X(activation, SOFTPLUS, 13, "softplus")
#define ENUM_cast_round(X) \
    X(cast_round, NEAREST, 0, "to the nearest power of two, the middle of two to the larger one") \
    X(cast_round, UP, 1, "to the next larger one") X(cast_round, DOWN, 2, "to the next smaller one")
#define ENUM_ctc_reduction(X) \
    X(ctc_reduction, NONE, 0, "none, each value") \
    X(ctc_reduction, MEAN, 1, "the mean of each over its label length (at least 1)") \
    X(ctc_reduction, SUM, 2, "the sum")
#define ENUM_rnn_direction(X) \
    X(rnn_direction, FORWARD, 0, "forward") X(rnn_direction, REVERSE, 1, "reverse") \
    X(rnn_direction, BOTH, 2, "both, D = 2")
#define ENUM_dropout_mode(X) \
    X(dropout_mode, UPSCALE_IN_TRAIN, 0, "what is left is divided by 1 - p in training") \
    X(dropout_mode, DOWNSCALE_IN_INFER, 1, "all is multiplied by 1 - p where it is no training")
#define ENUM_grid_padding(X) \
    X(grid_padding, ZEROS, 0, "zeros") X(grid_padding, BORDER, 1, "its border") \
    X(grid_padding, REFLECTION, 2, "its reflection")
#define ENUM_grid_mode(X) \
    X(grid_mode, LINEAR, 0, "linear") X(grid_mode, NEAREST, 1, "nearest, a half to the even one") \
    X(grid_mode, CUBIC, 2, "cubic")
#define ENUM_gru_gates(X) X(gru_gates, RZN, 0, "r z n") X(gru_gates, ZRN, 1, "z r n")
#define ENUM_kl_div_reduction(X) \
    X(kl_div_reduction, NONE, 0, "none") X(kl_div_reduction, MEAN, 1, "the mean") \
    X(kl_div_reduction, SUM, 2, "the sum") \
    X(kl_div_reduction, BATCH_MEAN, 3, "the sum over the extent of the first axis")
#define ENUM_lstm_gates(X) X(lstm_gates, IFGO, 0, "i f g o") X(lstm_gates, IOFG, 1, "i o f g")
#define ENUM_pad_mode(X) \
    X(pad_mode, VALUE, 0, "value") X(pad_mode, REFLECT, 1, "reflect") \
    X(pad_mode, REPLICATE, 2, "replicate") X(pad_mode, CIRCULAR, 3, "circular")
#define ENUM_put_mode(X) \
    X(put_mode, REPLACE, 0, "replaces, the last of several wins") X(put_mode, ADD, 1, "adds") \
    X(put_mode, MULTIPLY, 2, "multiplies")
#define ENUM_reduction_mode(X) \
    X(reduction_mode, NONE, 0, "none, each value") \
    X(reduction_mode, MEAN, 1, "the mean, of nothing NaN") X(reduction_mode, SUM, 2, "the sum")
#define ENUM_resize_mode(X) \
    X(resize_mode, NEAREST, 0, "nearest") X(resize_mode, LINEAR, 1, "linear") \
    X(resize_mode, CUBIC, 2, "cubic")
#define ENUM_resize_coordinates(X) \
    X(resize_coordinates, HALF_PIXEL, 0, "half_pixel") \
    X(resize_coordinates, HALF_PIXEL_SYMMETRIC, 1, "half_pixel_symmetric") \
    X(resize_coordinates, PYTORCH_HALF_PIXEL, 2, "pytorch_half_pixel") \
    X(resize_coordinates, ALIGN_CORNERS, 3, "align_corners") \
    X(resize_coordinates, ASYMMETRIC, 4, "asymmetric") \
    X(resize_coordinates, TF_CROP_AND_RESIZE, 5, "tf_crop_and_resize")
#define ENUM_resize_nearest(X) \
    X(resize_nearest, HALF_DOWN, 0, "a half goes down") \
    X(resize_nearest, HALF_UP, 1, "a half goes up") \
    X(resize_nearest, DOWN, 2, "all goes down") X(resize_nearest, UP, 3, "all goes up")
#define ENUM_rnn_activation(X) X(rnn_activation, TANH, 0, "tanh") X(rnn_activation, RELU, 1, "relu")
#define ENUM_segment_mode(X) \
    X(segment_mode, SUM, 0, "sum") X(segment_mode, MEAN, 1, "mean") \
    X(segment_mode, MAX, 2, "largest") X(segment_mode, MIN, 3, "smallest")

/* The values as text: "0: none; 1: the mean; ". */
#define ENUM_TEXT(name, value, number, meaning) #number ": " meaning "; "

#endif
