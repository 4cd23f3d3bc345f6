/* SPDX-License-Identifier: Apache-2.0 */
/* graphs.h: declares recipes, random graphs as data, and the functions that make, build, run,
 * compare, shrink and print them. */
#ifndef BP_TEST_GRAPHS_H
#define BP_TEST_GRAPHS_H

#include <backplane/backplane.h>
#include <ops/common/reference.h>
#include <stdbool.h>
#include <stdint.h>

enum {
    FUZZ_NODES = 60,
    FUZZ_VALUES = 400,
    FUZZ_FLAT = 12, /* inputs or outputs of a node */
    FUZZ_PORTS = 12,
    FUZZ_OUTPUTS = 32,    /* of a graph */
    FUZZ_ATTRS = 40,      /* words of an attribute struct */
    FUZZ_LISTS = 5,       /* lists among the attributes */
    FUZZ_ELEMENTS = 1500, /* of a value, at most; larger values are no inputs of further nodes */
    FUZZ_MESSAGE = 1500
};
#define FUZZ_ABSENT UINT32_MAX    /* no value: an optional input */
#define FUZZ_BAD (UINT32_MAX - 1) /* the node that should compute the value was refused */

/* ---- recipes ---- */

enum fuzz_kind {
    FUZZ_INPUT,
    FUZZ_CONSTANT,
    FUZZ_RESULT
};

enum fuzz_data {
    FUZZ_PLAIN,    /* floats in [-2, 2); integers from -3 to 3 */
    FUZZ_WEIGHT,   /* floats in [-1/2, 1/2) */
    FUZZ_POSITIVE, /* floats in [1/2, 3/2) */
    FUZZ_INDEX,    /* integers from 0 to limit - 1 */
    FUZZ_SPECIAL,  /* as FUZZ_PLAIN, with some NaN, infinities and zeros of both signs */
    FUZZ_RATE      /* floats in [0, 1) */
};

struct fuzz_value {
    uint32_t dtype, rank;
    int64_t shape[REF_RANK];
    enum fuzz_kind kind;
    enum fuzz_data data; /* of inputs and constants, and of results that shrinking makes inputs */
    int64_t limit;       /* for FUZZ_INDEX */
    bool frozen;         /* a constant that never changes */
    bool strided;        /* a constant whose first axis is the innermost in memory */
    uint32_t base;       /* a constant: its tensor is the transposed view of this constant's, or
                            FUZZ_ABSENT */
    bool is_view, is_output;
    uint32_t readers; /* nodes that read it */
};

/* A call. op NULL: the gradients of n_y values, whose inputs are the y, then the dy, then the x. */
struct fuzz_node {
    const struct bp_opinfo *op;
    uint64_t attrs[FUZZ_ATTRS];
    int64_t list[FUZZ_LISTS][REF_RANK];
    uint32_t n_list;
    uint32_t in[FUZZ_FLAT], n_in;
    uint32_t count[FUZZ_PORTS]; /* inputs of each port */
    uint32_t out[FUZZ_FLAT], n_out;
    uint32_t n_y;
    bool dropped; /* by shrinking: its results are inputs */
};

/* A property of a graph, for the counts at the end. */
enum fuzz_trait {
    FUZZ_HAS_VIEW,
    FUZZ_HAS_SECOND_READER,
    FUZZ_HAS_GRADIENT,
    FUZZ_HAS_CHAIN, /* a group that a pass may fuse: elementwise nodes, or a product and what
                       follows, with one reader each */
    FUZZ_HAS_UPDATE,
    FUZZ_HAS_RANDOM,
    FUZZ_HAS_CONV,
    FUZZ_HAS_MATMUL,
    FUZZ_HAS_HALF,
    FUZZ_HAS_SPECIAL,
    FUZZ_HAS_BOUND, /* an operator whose extents depend on data */
    FUZZ_TRAITS
};
extern const char *const fuzz_traits[FUZZ_TRAITS];

struct fuzz_recipe {
    uint64_t seed;
    struct fuzz_node node[FUZZ_NODES];
    struct fuzz_value value[FUZZ_VALUES];
    uint32_t n_node, n_value;
    uint32_t output[FUZZ_OUTPUTS], n_output;
    bool has[FUZZ_TRAITS];
    uint32_t refused; /* calls that the generator tried and the graph refused */
};

/* recipe.c. Records the nodes of a recipe in a graph. symbol: a tensor for each value, or NULL;
 * nodes whose inputs have none are skipped. */
enum bp_status fuzz_record(struct bp_graph *graph, const struct fuzz_node *node,
                           struct bp_tensor **symbol);
void fuzz_print(const struct fuzz_recipe *recipe);
bool fuzz_node_is_update(const struct fuzz_node *node);
bool fuzz_has_updates(const struct fuzz_recipe *recipe);
void fuzz_count_readers(struct fuzz_recipe *recipe);
void fuzz_find_traits(struct fuzz_recipe *recipe);

/* ---- generator ---- */

/* Generates a recipe: records each call in a graph, which infers its result. */
struct fuzz_generator {
    struct fuzz_recipe *recipe;
    struct bp_graph *graph;
    struct bp_tensor *symbol[FUZZ_VALUES];
    struct fuzz_node *node; /* being made */
    bool bad;               /* one of its inputs is FUZZ_BAD */
    uint64_t random;
    uint32_t target; /* nodes that the recipe is to have */
    /* Inputs may have infinities and NaN. The graph then has no gradients, and only operators of
     * which a motif knows that their results are defined. */
    bool special;
    bool verbose, plain; /* plain: no floats but f32 */
    bool faults;         /* some kernels find bad values in their inputs */
};

/* nodes.c */
uint64_t fuzz_mix(uint64_t x);
uint32_t fuzz_below(struct fuzz_generator *m, uint32_t n);
bool fuzz_chance(struct fuzz_generator *m, uint32_t percent);
uint32_t fuzz_float_dtype(struct fuzz_generator *m);
bool fuzz_is_float(uint32_t dtype);
int64_t fuzz_elements(const struct fuzz_generator *m, uint32_t v);
const struct fuzz_value *fuzz_value_of(const struct fuzz_generator *m, uint32_t v);

uint32_t fuzz_new(struct fuzz_generator *m, enum fuzz_kind kind, enum fuzz_data data,
                  uint32_t dtype, uint32_t rank, const int64_t *shape);
/* A constant that is usually frozen, like a weight; and a new value of the type of v. */
uint32_t fuzz_weight(struct fuzz_generator *m, enum fuzz_data data, uint32_t dtype, uint32_t rank,
                     const int64_t *shape);
uint32_t fuzz_new_like(struct fuzz_generator *m, uint32_t v);
/* A constant in the memory of constant v: its transposed view. */
uint32_t fuzz_alias(struct fuzz_generator *m, uint32_t v);

/* Picks an earlier value, or makes an input. rank: FUZZ_ABSENT: any. */
uint32_t fuzz_pick(struct fuzz_generator *m, uint32_t rank);
uint32_t fuzz_pick_dtype(struct fuzz_generator *m, uint32_t dtype, uint32_t rank);
uint32_t fuzz_pick_like(struct fuzz_generator *m, uint32_t v);

/* A node: begin, then its inputs by port and its attributes, then end, which returns its first
 * result; n_out 0: the declared outputs. */
void fuzz_begin(struct fuzz_generator *m, const char *op);
void fuzz_in(struct fuzz_generator *m, uint32_t v);
void fuzz_in_many(struct fuzz_generator *m, const uint32_t *v, uint32_t n);
void fuzz_i64(struct fuzz_generator *m, const char *name, int64_t value);
void fuzz_f64(struct fuzz_generator *m, const char *name, double value);
void fuzz_ints(struct fuzz_generator *m, const char *name, uint32_t n, const int64_t *at);
void fuzz_list(struct fuzz_generator *m, const char *name, uint32_t n, const int64_t *at);
uint32_t fuzz_end(struct fuzz_generator *m, uint32_t n_out);
uint32_t fuzz_unary(struct fuzz_generator *m, const char *op, uint32_t x);
uint32_t fuzz_binary(struct fuzz_generator *m, const char *op, uint32_t x, uint32_t y);
uint32_t fuzz_cast(struct fuzz_generator *m, uint32_t x, uint32_t dtype);
void fuzz_output(struct fuzz_generator *m, uint32_t v);

/* motifs_*.c: each appends a few nodes. */
typedef void fuzz_motif(struct fuzz_generator *m);
fuzz_motif fuzz_motif_chain, fuzz_motif_diamond, fuzz_motif_broadcast, fuzz_motif_identity,
    fuzz_motif_twins, fuzz_motif_select, fuzz_motif_casts;
fuzz_motif fuzz_motif_view, fuzz_motif_views, fuzz_motif_join, fuzz_motif_append, fuzz_motif_split,
    fuzz_motif_copies, fuzz_motif_index, fuzz_motif_fault;
fuzz_motif fuzz_motif_conv, fuzz_motif_matmul, fuzz_motif_attention, fuzz_motif_pool,
    fuzz_motif_norm, fuzz_motif_softmax, fuzz_motif_reduce;
fuzz_motif fuzz_motif_any, fuzz_motif_fold, fuzz_motif_beside, fuzz_motif_layout;
fuzz_motif fuzz_motif_update, fuzz_motif_random, fuzz_motif_gradient;
uint32_t fuzz_activation(struct fuzz_generator *m, uint32_t x);

/* generate.c */
struct fuzz_style {
    uint32_t nodes; /* about the largest number of nodes of a graph */
    bool plain;     /* no floats but f32, so that a device compiles fewer kernels */
    bool faults;    /* some kernels find bad values in their inputs */
    bool verbose;   /* prints calls that the graph refused */
};
bool fuzz_generate(struct bp_core *core, uint64_t seed, const struct fuzz_style *style,
                   struct fuzz_recipe *recipe);

/* ---- runs ---- */

/* The device and what runs on it. */
struct fuzz_place {
    const char *name;
    bool apart; /* each graph runs in a process of its own, and no device is open here */
    struct bp_core *core;
    struct bp_device *device;
    struct bp_stream *stream[3]; /* two of the default kind; a queue, or NULL */
    struct bp_generator *generator;
    bool bitwise; /* results of programs must have the bits of bp_graph_run */
    uint32_t threads;
};

/* A graph that was recorded from a recipe, with its tensors. */
struct fuzz_built {
    const struct fuzz_recipe *recipe;
    struct bp_graph *graph;
    struct bp_tensor *constant[FUZZ_VALUES]; /* of constants that nodes use */
    uint32_t input[FUZZ_VALUES], n_input;    /* their values */
    uint32_t output[FUZZ_OUTPUTS], n_output; /* numbers of the graph's values */
};

/* A failed check: what differs. */
enum fuzz_fault {
    FUZZ_FINE,
    FUZZ_RECORD,    /* the graph cannot be recorded */
    FUZZ_REFERENCE, /* a node's result is not that of the reference */
    FUZZ_GRAPH,     /* bp_graph_run differs from calls one by one */
    FUZZ_PROGRAM,   /* bp_program_run differs from bp_graph_run */
    FUZZ_LEAK,      /* tensors live on */
    FUZZ_STREAM,    /* a stream, or the device, fails where no graph runs */
    FUZZ_CRASH      /* the process died */
};
struct fuzz_report {
    enum fuzz_fault fault;
    char message[FUZZ_MESSAGE];
    uint64_t compiled, runs; /* of programs */
    bool fused;              /* a program has a group of elementwise nodes as one launch */
    uint64_t faults;         /* runs that ended with BP_ERR_FAULT */
    uint64_t checked;        /* results of nodes that were compared with a reference */
};

/* place.c. fuzz_open returns false if there is no such device. */
bool fuzz_open(struct fuzz_place *place);
void fuzz_close(struct fuzz_place *place);
/* Replaces a stream if it has failed: a fault of a kernel stays with an asynchronous stream.
 * Returns false if the new stream is of no use either. */
bool fuzz_repair(struct fuzz_place *place, int at);
/* Checks a graph, in a process of its own if the place says so. */
void fuzz_check_somewhere(struct fuzz_place *place, const struct fuzz_recipe *recipe,
                          struct fuzz_report *report);

/* build.c */
/* shuffle: 0: records the nodes in the order of the recipe; else in another order in which each
 * node follows the nodes that compute its inputs. */
bool fuzz_build(const struct fuzz_place *place, const struct fuzz_recipe *recipe, uint64_t shuffle,
                struct fuzz_built *built, struct fuzz_report *report);
void fuzz_unbuild(struct fuzz_built *built);
/* Creates a tensor of the type of v. strided: the first axis is the innermost. */
enum bp_status fuzz_tensor(const struct fuzz_place *place, const struct fuzz_value *v, bool strided,
                           struct bp_tensor **out);
/* Writes the numbers of a value: others for each set, but the same ones for a frozen constant. */
bool fuzz_write(const struct fuzz_recipe *recipe, uint32_t value, uint32_t set,
                struct bp_stream *stream, struct bp_tensor *tensor);

/* The contents of all outputs, inputs and constants after a run. */
struct fuzz_snapshot {
    enum bp_status status;
    char message[400];
    uint32_t n;
    struct fuzz_array {
        uint32_t dtype;
        uint64_t bytes;
        char *data;
        char name[24];
        bool ignored; /* an input that the run was to overwrite */
    } array[FUZZ_OUTPUTS + FUZZ_VALUES];
    uint64_t drawn; /* offset of the generator */
};
void fuzz_snapshot_add(struct fuzz_snapshot *s, struct bp_stream *stream, struct bp_tensor *tensor,
                       const char *kind, uint32_t number);
void fuzz_snapshot_clear(struct fuzz_snapshot *s);

/* execute.c: runs the nodes one by one, as calls. The result of each is compared with its
 * reference; with perturb not 0, it is changed at random by at most its tolerance instead. */
enum bp_status fuzz_execute(const struct fuzz_built *built, struct bp_stream *stream,
                            struct bp_generator *generator, struct bp_tensor *const *in,
                            struct bp_tensor **out, uint64_t perturb, struct fuzz_report *report);

/* check.c: makes all runs of a graph. */
void fuzz_check(struct fuzz_place *place, const struct fuzz_recipe *recipe,
                struct fuzz_report *report);

/* compare.c. tolerance: for each array the largest difference of each element, or NULL. */
bool fuzz_same(const struct fuzz_snapshot *got, const struct fuzz_snapshot *expected,
               double *const *tolerance, char *message, size_t size);

/* shrink.c: drops nodes and outputs as long as the graph fails in the same way. */
void fuzz_shrink(struct fuzz_place *place, struct fuzz_recipe *recipe,
                 struct fuzz_report *report);

#endif
