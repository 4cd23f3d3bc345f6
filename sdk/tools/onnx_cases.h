/* SPDX-License-Identifier: Apache-2.0 */
/* onnx_cases.h: a folder of ONNX's test data as cases: KIND/NAME/model.onnx, beside it
 * test_data_set_N/input_I.pb and output_I.pb. */
#ifndef BP_TOOLS_ONNX_CASES_H
#define BP_TOOLS_ONNX_CASES_H

#include <check.h>
#include <conform.h>

struct onnx_cases {
    struct conform_cases cases;
    char *folder;
    char **id; /* "node/test_abs", in order; n of them */
    size_t n;
};

/* Finds all models below folder. false: it can't be read, said on standard error. */
bool onnx_cases_init(struct onnx_cases *cases, const char *folder);
void onnx_cases_finish(struct onnx_cases *cases);

/* FNV-1a of the model and its data, in order. */
uint64_t onnx_cases_sum(const struct onnx_cases *cases, size_t index);

/* The model of a case. To be freed. */
char *onnx_cases_model(const struct onnx_cases *cases, size_t index);

/* FOLDER/WHAT_I.pb, to be freed; NULL: there is none. */
char *onnx_data_file(const char *folder, const char *what, uint32_t i);

/* What a line of bp_model_missing names: where that ends, and where it begins. Of "operator NAME of
 * opset 3": NAME. Of "NAME: what of it": NAME. Of "element type 8 (string) [x]" and "opset 24, 1 to
 * 23 are known": the first part. */
size_t onnx_missing_name(const char *line, size_t *out_begin);

/* onnx_compare.c: whether two tensors have one dtype and shape, and equal values: floats to
 * rtol |expected| + atol, NaN being equal to NaN. */
struct onnx_tolerance {
    double rtol, atol;
    bool shapes_only; /* values are drawn at random */
};
bool onnx_compare(struct check *c, struct bp_stream *stream, struct bp_tensor *got,
                  struct bp_tensor *expected, const struct onnx_tolerance *tolerance,
                  const char *what);

#endif
