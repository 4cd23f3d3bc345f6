/* SPDX-License-Identifier: Apache-2.0 */
/* patterned.h: declares the patterns of the test plugin `patterned`, and words with which they are
 * written. */
#ifndef BP_TEST_PATTERNED_H
#define BP_TEST_PATTERNED_H

#include <backplane/passes.h>
#include <backplane/plugin.h>

#define LIST(...) \
    (const int16_t[]) \
    { \
        __VA_ARGS__ \
    }
#define LENGTH(...) (sizeof(LIST(__VA_ARGS__)) / sizeof(int16_t))
#define IN(...) .in = LIST(__VA_ARGS__), .n_in = LENGTH(__VA_ARGS__)
#define OUT(...) .out = LIST(__VA_ARGS__), .n_out = LENGTH(__VA_ARGS__)
/* Rows of these types. */
#define ROWS(member, type, ...) \
    .member = (const struct type[]){__VA_ARGS__}, \
    .n_##member = sizeof((const struct type[]){__VA_ARGS__}) / sizeof(struct type), \
    .member##_stride = sizeof(struct type)
#define VALUES(...) ROWS(value, bp_want_value, __VA_ARGS__)
#define FIND(...) ROWS(node, bp_want_node, __VA_ARGS__)
#define GIVE(...) ROWS(give, bp_give_node, __VA_ARGS__)
#define TESTS(...) ROWS(attr, bp_want_attr, __VA_ARGS__)
#define ATTRS(...) ROWS(attr, bp_give_attr, __VA_ARGS__)

extern const struct bp_passes patterned_passes; /* those that are right */
extern const struct bp_passes patterned_lies;   /* and those that are wrong */

/* The plugin's own pass, and a wrong result of it. */
enum bp_status patterned_rewrite(void *self, const struct bp_graph_data *graph,
                                 const struct bp_edits *edits);
enum bp_status rewrite_lie(const char *name, const struct bp_edits *edits);

#endif
