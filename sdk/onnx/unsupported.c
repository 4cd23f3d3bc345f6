/* SPDX-License-Identifier: Apache-2.0 */
/* unsupported.c: finds forms of nodes that this library does not support and that the node itself
 * shows. Loading refuses such a node, and bp_model_missing lists it. */
#include "resolve.h"
#include "row.h"
#include <string.h>
#include <strings.h>

static enum bp_status unsupported_refuse(const struct onnx_node *node, const char *what)
{
    return onnx_fault(node, onnx_node_error(BP_ERR_UNSUPPORTED, node, "%s", what));
}

static int64_t unsupported_number(const struct onnx_node *node, const char *name, int64_t otherwise)
{
    const Onnx__AttributeProto *a = onnx_attr(node, name);

    return a ? a->i : otherwise;
}

/* Checks that the operator supports the element type that an attribute names. */
static enum bp_status check_type(const struct onnx_node *node, const char *name, uint64_t held)
{
    const Onnx__AttributeProto *a = onnx_attr(node, name);
    uint32_t dtype = a && a->has_i ? onnx_dtype((int32_t)a->i) : ONNX_NO_DTYPE;
    char text[96];

    if (!a || !a->has_i || (!a->i && strcmp(name, "to"))) return BP_OK;
    if (dtype != ONNX_NO_DTYPE && held >> dtype & 1) return BP_OK;
    snprintf(text, sizeof text, "attribute %s is element type %lld%s%s", name, (long long)a->i,
             dtype == ONNX_NO_DTYPE ? onnx_type_words(a->i) : ", ",
             dtype == ONNX_NO_DTYPE ? "" : bp_dtype_name(dtype));
    return unsupported_refuse(node, text);
}

static enum bp_status unsupported_bit_cast(const struct onnx_node *node)
{
    return check_type(node, "to", BP_MASK_ANY | BP_MASK_F8);
}

static enum bp_status unsupported_constant(const struct onnx_node *node)
{
    return onnx_attr(node, "value_string") || onnx_attr(node, "value_strings")
               ? unsupported_refuse(node, "constants of strings are not supported")
               : BP_OK;
}

static enum bp_status unsupported_cast(const struct onnx_node *node)
{
    return check_type(node, "to", BP_MASK_REAL | BP_MASK_F8 | BP_M(BOOL));
}

static enum bp_status unsupported_quantize(const struct onnx_node *node)
{
    return check_type(node, "output_dtype",
                      bp_opinfo_find("quantize_linear")->types[BP_VAR_U] | ONNX_QUANTISED_F8);
}

static enum bp_status n_grams(const struct onnx_node *node)
{
    return onnx_attr(node, "pool_strings")
               ? unsupported_refuse(node, "n-grams of strings are not supported")
               : BP_OK;
}

/* Checks that the activations are the layer's defaults, n for each direction, or Relu where n is
 * 1. */
static enum bp_status unsupported_recurrent(const struct onnx_node *node, const char *const *usual,
                                            size_t n)
{
    const Onnx__AttributeProto *a = onnx_attr(node, "activations");
    char text[160];

    if (onnx_attr(node, "clip")) TRY(unsupported_refuse(node, "clip is not supported"));
    if (unsupported_number(node, "input_forget", 0))
        TRY(unsupported_refuse(node, "input_forget is not supported"));
    for (size_t i = 0; a && i < a->n_strings; i++) {
        const char *given = (const char *)a->strings[i].data;
        int size = (int)(a->strings[i].len < 40 ? a->strings[i].len : 40);
        size_t length = strlen(usual[i % n]);
        if (a->strings[i].len == length && !strncasecmp(given, usual[i % n], length)) continue;
        if (n == 1 && a->strings[i].len == 4 && !strncasecmp(given, "Relu", 4)) continue;
        snprintf(text, sizeof text, "activation %zu is %.*s, expected %s%s", i, size, given,
                 usual[i % n], n == 1 ? " or Relu" : "");
        TRY(unsupported_refuse(node, text));
    }
    return BP_OK;
}

static enum bp_status unsupported_rnn(const struct onnx_node *node)
{
    return unsupported_recurrent(node, (const char *const[]){"Tanh"}, 1);
}

static enum bp_status unsupported_gru(const struct onnx_node *node)
{
    return unsupported_recurrent(node, (const char *const[]){"Sigmoid", "Tanh"}, 2);
}

static enum bp_status unsupported_lstm(const struct onnx_node *node)
{
    return unsupported_recurrent(node, (const char *const[]){"Sigmoid", "Tanh", "Tanh"}, 3);
}

static enum bp_status unsupported_rotary(const struct onnx_node *node)
{
    const Onnx__AttributeProto *scale = onnx_attr(node, "scale");

    return scale && scale->f != 1 ? unsupported_refuse(node, "scale is not supported") : BP_OK;
}

/* Checks that the node has no input or output that is listed here. */
static enum bp_status unsupported_port(const struct onnx_node *node)
{
    static const struct {
        const char *op;
        bool is_output;
        size_t index;
        const char *name;
    } port[] = {{"MultiHeadAttention", false, 8, "past_sequence_length"},
                {"MultiHeadAttention", false, 9, "cache_indirection"},
                {"MultiHeadAttention", true, 3, "qk"},
                {"GroupQueryAttention", false, 9, "position_ids"},
                {"GroupQueryAttention", false, 11, "head_sink"},
                {"GroupQueryAttention", false, 12, "k_scale"},
                {"GroupQueryAttention", false, 13, "v_scale"},
                {"GroupQueryAttention", false, 14, "q_norm_weight"},
                {"GroupQueryAttention", false, 15, "k_norm_weight"},
                {"GroupQueryAttention", false, 16, "query_seqlens"},
                {"GroupQueryAttention", true, 3, "output_qk"},
                {"SimplifiedLayerNormalization", true, 1, "inv_std_var"},
                {"SkipLayerNormalization", true, 1, "mean"},
                {"SkipLayerNormalization", true, 2, "inv_std_var"},
                {"SkipSimplifiedLayerNormalization", true, 1, "mean"},
                {"SkipSimplifiedLayerNormalization", true, 2, "inv_std_var"}};
    const Onnx__NodeProto *proto = node->proto;
    char text[80];

    for (size_t i = 0; i < sizeof port / sizeof *port; i++) {
        size_t n = port[i].is_output ? proto->n_output : proto->n_input;
        char *const *names = port[i].is_output ? proto->output : proto->input;
        if (strcmp(onnx_text(proto->op_type), port[i].op) || port[i].index >= n ||
            !*onnx_text(names[port[i].index]))
            continue;
        snprintf(text, sizeof text, "%s %s is not supported",
                 port[i].is_output ? "output" : "input", port[i].name);
        TRY(unsupported_refuse(node, text));
    }
    return BP_OK;
}

enum bp_status onnx_check_supported(const struct onnx_node *node)
{
    static const struct {
        const char *op;
        enum bp_status (*check)(const struct onnx_node *node);
    } limit[] = {{"BitCast", unsupported_bit_cast},
                 {"Cast", unsupported_cast},
                 {"Constant", unsupported_constant},
                 {"QuantizeLinear", unsupported_quantize},
                 {"GRU", unsupported_gru},
                 {"TfIdfVectorizer", n_grams},
                 {"LSTM", unsupported_lstm},
                 {"RNN", unsupported_rnn},
                 {"SimplifiedLayerNormalization", unsupported_port},
                 {"com.microsoft.RotaryEmbedding", unsupported_rotary}};
    const char *op = node->row->name;

    for (size_t i = 0; i < sizeof limit / sizeof *limit; i++)
        if (!strcmp(op, limit[i].op)) return limit[i].check(node);
    return strchr(op, '.') ? unsupported_port(node) : BP_OK;
}

uint64_t onnx_held_types(const char *op, size_t input)
{
    const struct bp_opinfo *info = NULL;

    if (!strcmp(op, "Cast") || (!strcmp(op, "CastLike") && input < 2))
        return BP_MASK_REAL | BP_MASK_F8 | BP_M(BOOL);
    if (!strcmp(op, "BitCast")) return BP_MASK_ANY | BP_MASK_F8;
    if (!strcmp(op, "QuantizeLinear") && input == 2) info = bp_opinfo_find("quantize_linear");
    if (!strcmp(op, "DequantizeLinear") && input != 1) info = bp_opinfo_find("dequantize_linear");
    return info ? info->types[BP_VAR_U] | ONNX_QUANTISED_F8 : UINT64_MAX;
}
