/* SPDX-License-Identifier: Apache-2.0 */
/* templates.h: declares templates: what several programs of one computation have in common, from
 * which a program for other extents is made without recording a graph and without running passes.
 *
 * The programs are samples: their graphs differ along one direction with one number, the parameter.
 * Each extent and each integer that differs must be first + slope (parameter - base) in all
 * samples, with an integer slope. Everything else must be equal. */
#ifndef BP_TEMPLATES_H
#define BP_TEMPLATES_H

#include "../call/prepared.h"
#include "ir.h"

enum {
    BP_SAMPLES_MIN = 3,
    BP_SAMPLES_MAX = 8
};

/* The values and nodes of a graph or of an IR without dead nodes, for code that serves both. */
struct bp_parts {
    char *value, *node; /* arrays; a node begins with its struct bp_node */
    size_t value_size, node_size;
    size_t type_at, constant_at, kind_at; /* offsets of the members of a value */
    const uint32_t *input, *output;
    uint32_t n_value, n_node, n_input, n_output;
};
struct bp_parts bp_parts_of_graph(const struct bp_graph *graph);
struct bp_parts bp_parts_of_ir(const struct bp_ir *ir);

static inline struct bp_typed_view **bp_parts_type(const struct bp_parts *p, uint32_t v)
{
    return (struct bp_typed_view **)(void *)(p->value + v * p->value_size + p->type_at);
}
static inline struct bp_tensor **bp_parts_constant(const struct bp_parts *p, uint32_t v)
{
    return (struct bp_tensor **)(void *)(p->value + v * p->value_size + p->constant_at);
}
static inline uint32_t bp_parts_kind(const struct bp_parts *p, uint32_t v)
{
    return *(const uint32_t *)(const void *)(p->value + v * p->value_size + p->kind_at);
}
static inline struct bp_node *bp_parts_node(const struct bp_parts *p, uint32_t n)
{
    return (struct bp_node *)(void *)(p->node + n * p->node_size);
}

/* The parameters of the samples. base: the sample with the largest one, of which parts that do not
 * differ are taken. */
struct bp_samples {
    int64_t at[BP_SAMPLES_MAX];
    uint32_t n, base;
};

/* Finds value = first + slope (at - at[base]) for one value of each sample; false: there are no
 * such integers. */
bool bp_samples_line(const struct bp_samples *samples, const int64_t *value, int64_t *out_first,
                     int64_t *out_slope);

/* A number that depends on the parameter. */
struct bp_change {
    uint32_t index;  /* of a value, or of a node */
    uint32_t offset; /* an axis, or the offset of an attribute */
    uint32_t entry;  /* of an attribute: which integer of a list */
    bool is_list;    /* the attribute is a struct bp_dims */
    int64_t first, slope;
};

/* All that depends on the parameter. */
struct bp_changes {
    struct bp_change *extent, *attr; /* in the order of values, and of nodes */
    uint32_t n_extent, n_attr;
    bool *value, *node; /* of each one: its type, constant or attributes depend on the parameter, or
                           it reads or computes such a value */
};

/* A constant that depends on the parameter: integers that do, or the leading block of the constant
 * of the base sample. */
struct bp_changed_constant {
    struct bp_tensor *base; /* a reference */
    int64_t *number; /* owned: the first value and the slope of each integer; NULL: a block */
    int64_t first[BP_RANK_MAX], slope[BP_RANK_MAX]; /* of each extent */
};
struct bp_changed_constants {
    struct bp_changed_constant *list;
    uint32_t n;
};

/* template_compare.c: compares the samples, and finds the changes of the nodes and of the types.
 * BP_ERR_UNSUPPORTED: they differ otherwise; the message says in what. */
enum bp_status bp_changes_find(const struct bp_samples *samples, const struct bp_parts *part,
                               struct bp_changes *out_changes);
void bp_changes_finish(struct bp_changes *changes);

/* template_constant.c: compares the constants of samples, and adds those that differ to the list.
 * out_unknown: of each value, set where a constant is none of these; NULL: that is a failure. Then
 * it marks the nodes that read or compute what depends on the parameter. */
enum bp_status bp_constants_find(const struct bp_samples *samples, const struct bp_parts *part,
                                 struct bp_stream *stream, struct bp_changes *changes,
                                 struct bp_changed_constants *out_constants, bool *out_unknown);
void bp_constants_finish(struct bp_changed_constants *constants);
/* Makes the tensors for a parameter, one for each entry. The caller destroys them, also after a
 * failure. */
enum bp_status bp_constants_make(const struct bp_changed_constants *constants,
                                 const struct bp_samples *samples, int64_t at,
                                 struct bp_device *device, struct bp_tensor **out_made);

/* template_apply.c: fills the numbers of a parameter into a copy whose types, attributes and
 * constants are still those of the base. Types and attributes that differ are allocated; constants
 * that differ get references to those of `made`. Then it infers the types of the results of all
 * nodes that differ. BP_ERR_UNSUPPORTED: these are others than the template says. */
enum bp_status bp_changes_apply(const struct bp_changes *changes,
                                const struct bp_changed_constants *constants,
                                const struct bp_samples *samples, int64_t at,
                                struct bp_tensor *const *made, struct bp_device *device,
                                const struct bp_parts *to);

/* An app's handle, and a reference of each IR that was made from it. */
struct bp_template {
    uint32_t magic;
    _Atomic uint32_t refs;
    void (*free)(struct bp_template *t); /* after the last reference: template.c; ir.c calls it */
    struct bp_samples samples;
    struct bp_graph *graph;   /* of the base sample: a reference */
    struct bp_device *device; /* a reference */
    struct bp_ir *ir;         /* that of the base sample after passes and lowering, without dead
                               nodes */
    struct bp_prepared **prepared; /* of each node of ir: a reference to the call that runs it in
                                      the base sample, or NULL */
    bool folds;                    /* nodes of ir compute constants that depend on the parameter */
    struct bp_changes of_graph, of_ir;
    struct bp_changed_constants constants;
    char *cache; /* options of the samples */
    uint32_t flags;
};
static inline bool bp_template_is(const struct bp_template *t)
{
    return bp_magic_is(t ? t->magic : 0, BP_MAGIC_TEMPLATE);
}
/* template_call.c. Fails for want of host memory. */
enum bp_status bp_template_no_memory(void);
static inline void bp_template_release(struct bp_template *t)
{
    if (atomic_fetch_sub(&t->refs, 1) == 1) t->free(t);
}

/* template_call.c: prepares the call of a node, as bp_prepared_make does. A call that does not
 * depend on the parameter of a template is that of the base sample. */
enum bp_status bp_template_call(const struct bp_ir *ir, uint32_t node, struct bp_invocation *inv,
                                struct bp_prepared **out_prepared);

/* template_ir.c: copies an IR without dead nodes and unused values; the copy does not depend on the
 * original. graph: of the program. BP_ERR_UNSUPPORTED: the contents of a folded constant were
 * freed. */
struct bp_compaction {
    const struct bp_ir *from;
    const struct bp_graph *graph;
    bool *revive;     /* of each value, or NULL: it was folded, and the copy computes it. The nodes
                         for it come first */
    uint32_t *origin; /* room for the number of each value of the copy in the original, or NULL */
};
enum bp_status bp_ir_compact(const struct bp_compaction *compaction, struct bp_ir **out_ir);
/* Makes the IR of a template for a parameter. It has a reference to the template, to which all that
 * does not depend on the parameter belongs. made: the tensors of bp_constants_make. */
enum bp_status bp_ir_derive(struct bp_template *t, int64_t at, struct bp_tensor *const *made,
                            struct bp_ir **out_ir);

#endif
