/* SPDX-License-Identifier: Apache-2.0 */
/* library.h: declares OpenVINO's C library as the plugin uses it: opened at run time, from the
 * documented signatures. A machine without the library has no openvino device, but the plugin is
 * not broken. */
#ifndef OPENVINO_LIBRARY_H
#define OPENVINO_LIBRARY_H

#include <backplane/plugin.h>
#include <stdbool.h>
#include <stddef.h>

/* Objects of the library. */
struct ov_core;
struct ov_model;
struct ov_compiled_model;
struct ov_infer_request;
struct ov_tensor;
struct ov_output_const_port;

struct ov_version {
    const char *build, *description;
};
struct ov_devices {
    char **name;
    size_t count;
};
struct ov_shape {
    int64_t rank;
    int64_t *extent;
};

struct openvino_calls {
#define CALL(name, result, parameters) result(*name) parameters;
#define MAYBE(name, result, parameters) CALL(name, result, parameters)
#include "calls.def"
};

/* Opens the library, once in a process, and never closes it, because its threads live on.
 * BP_ERR_ABSENT: it was not found; the message names the files and the folders that were searched.
 * BP_ERR_DEVICE: its file cannot be opened or lacks a function. */
enum bp_status openvino_open(const struct bp_host *host, const struct openvino_calls **out_calls);

/* Translates the result of the library's function `call`: BP_OK, or the failure, whose message has
 * the library's own text. */
enum bp_status openvino_check(const struct bp_host *host, const struct openvino_calls *calls,
                              int code, const char *call);

#endif
