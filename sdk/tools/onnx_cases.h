/* SPDX-License-Identifier: Apache-2.0 */
/* onnx_cases.h: makes conformance cases from a folder of ONNX's test data. The folder has files
 * KIND/NAME/model.onnx, and beside each test_data_set_N/input_I.pb and output_I.pb. */
#ifndef BP_TOOLS_ONNX_CASES_H
#define BP_TOOLS_ONNX_CASES_H

#include <check.h>
#include <conform.h>

struct onnx_cases {
    struct conform_cases cases;
    char *folder;
    char **id; /* "node/test_abs", sorted; n of them */
    size_t n;
};

/* Finds all models below folder. Returns false, after an error message, if the folder cannot be
 * read. */
bool onnx_cases_init(struct onnx_cases *cases, const char *folder);
void onnx_cases_finish(struct onnx_cases *cases);

/* FNV-1a hash of the model and its data, in order. */
uint64_t onnx_cases_sum(const struct onnx_cases *cases, size_t index);

/* Path of the model of a case. The caller frees it. */
char *onnx_cases_model(const struct onnx_cases *cases, size_t index);

/* The path FOLDER/WHAT_I.pb, which the caller frees; NULL if the file does not exist. */
char *onnx_data_file(const char *folder, const char *what, uint32_t i);

/* The missing feature that a line of bp_model_missing names. Returns the end of its name, and
 * stores where the name begins. For "operator NAME of opset 3" this is NAME, for "NAME: details"
 * NAME, for "element type 8 (string) [x]" and "opset 29, 1 to 28 are known" the first part. */
size_t onnx_missing_name(const char *line, size_t *out_begin);

/* In onnx_compare.c: checks that two tensors have the same dtype and shape, and equal values:
 * floats up to rtol |expected| + atol, where NaN equals NaN. */
struct onnx_tolerance {
    double rtol, atol;
    bool shapes_only; /* values are random */
};
bool onnx_compare(struct check *c, struct bp_stream *stream, struct bp_tensor *got,
                  struct bp_tensor *expected, const struct onnx_tolerance *tolerance,
                  const char *what);

#endif
