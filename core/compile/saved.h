/* SPDX-License-Identifier: Apache-2.0 */
/* saved.h: declares how the representation of a compiled graph is written to a file and read
 * again, in place of running the passes.
 *
 * A file has the nodes after the passes: operators and attributes by name, values by number, and
 * the kernel row that each node ran on. Constants are those of the recorded graph. Constants that
 * the compiler computed are not in the file, but the nodes that compute them are, so that they are
 * always computed from the weights of the program. Contents of constants that passes have read
 * decided what the passes did; the file has their digests. So it has of the constants of groups
 * that engines compiled: an engine saves what it computed from them. */
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

/* saved_engine.c: groups of nodes that engines compiled. bp_saved_group_of returns the group of a
 * node that runs one, else NULL. bp_saved_check_groups: BP_ERR_UNSUPPORTED: an engine has failed,
 * so that the program is not saved. first: the number in the file of the group's first node. */
struct bp_engine_group;
const struct bp_engine_group *bp_saved_group_of(const struct bp_ir *ir, uint32_t node);
enum bp_status bp_saved_check_groups(const struct bp_ir *ir);
enum bp_status bp_saved_write_group(const struct bp_ir *ir, const struct bp_engine_group *group,
                                    uint32_t first, struct bp_kept_writer *w);

/* A group of a file; all pointers are into the file's contents. */
struct bp_saved_group {
    const char *engine; /* the plugin */
    uint32_t first, n;  /* its nodes in the file */
    const uint8_t *hash;
    const void *bytes;
    size_t n_bytes;
};
bool bp_saved_read_group(struct bp_kept_reader *r, struct bp_saved_group *to);
/* Lets engines compile the groups. The n_node nodes of the file begin at first_node of the IR. */
enum bp_status bp_saved_restore(struct bp_ir *ir, uint32_t first_node, uint32_t n_node,
                                const struct bp_saved_group *list, uint32_t n);

/* saved_read.c: makes the representation again. Of the options, allow and cancel matter.
 * BP_ERR_INVALID: the contents do not describe this graph, or contents of constants differ. Trusts
 * no byte: each node is recorded as a call of the app would be, the representation is verified, and
 * the engine checks its own bytes. */
enum bp_status bp_saved_read(const struct bp_graph *graph, struct bp_device *device,
                             const struct bp_compile_options *options, const void *bytes,
                             size_t n, struct bp_ir **out_ir);

#endif
