/* SPDX-License-Identifier: Apache-2.0 */
/* saved.h: declares how the representation of a compiled graph is written to a file and read
 * again, in place of running the passes.
 *
 * A file has the nodes after the passes: operators and attributes by name, values by number, and
 * the kernel row that each node ran on. Constants are those of the recorded graph. Constants that
 * the compiler computed are not in the file, but the nodes that compute them are, so that they are
 * always computed from the weights of the program. Contents of constants that passes have read
 * decided what the passes did; the file has their digests. */
#ifndef BP_SAVED_H
#define BP_SAVED_H

#include "kept_file.h"
#include "passes.h"

/* saved_key.c: adds everything about a device that kernels and passes depend on: names, versions,
 * files, kernel rows, settings. */
void bp_saved_add_device(struct bp_digest *digest, const struct bp_device *device);

/* Adds the values of an operator's attributes; attrs NULL: nothing. */
void bp_saved_add_attrs(struct bp_digest *digest, const struct bp_opinfo *op, const void *attrs);

/* The key of a graph's file: structure, types and names, without the contents of constants. */
struct bp_digest bp_saved_key(const struct bp_graph *graph, const struct bp_device *device,
                              const struct bp_compile_options *options);

/* The digest of a constant's elements. */
enum bp_status bp_saved_contents(struct bp_tensor *constant, struct bp_digest *out_digest);

/* saved_write.c. BP_ERR_UNSUPPORTED: the representation has a constant that cannot be described. */
enum bp_status bp_saved_write(const struct bp_schedule *schedule, const struct bp_graph *graph,
                              struct bp_kept_writer *w);

/* saved_read.c: makes the representation again. BP_ERR_INVALID: the contents do not describe this
 * graph, or contents of constants differ. Trusts no byte: each node is recorded as a call of the
 * app would be, and the representation is verified. */
enum bp_status bp_saved_read(const struct bp_graph *graph, struct bp_device *device,
                             const void *bytes, size_t n, struct bp_ir **out_ir);

#endif
