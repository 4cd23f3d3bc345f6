/* SPDX-License-Identifier: Apache-2.0 */
/* run_model.h: types and functions shared by the files of `bp run`: a model with its inputs, and
 * the actions on it. */
#ifndef BP_TOOLS_RUN_MODEL_H
#define BP_TOOLS_RUN_MODEL_H

#include "bench.h"
#include "tools.h"
#include <backplane/model.h>

struct run_model {
    const char *path, *device_name;
    struct bp_core *core;
    struct bp_device *device;
    struct bp_stream *stream;
    struct bp_model *model;
    struct bp_model_value *in, *out;
    uint32_t n_in, n_out;
    FILE *output; /* file for tables and results of checks */
    double load_s, rtol;
    uint64_t seed; /* of --weights */
};

/* The most bytes and floating-point operations of a device in a second. */
struct run_roof {
    double bytes, flops;
};

/* The options of the command line. */
struct run_words {
    struct bp_texts shapes;
    const char *data, *profile, *weights, *dump, *roof; /* NULL if not given */
    double repeat, fold_mib, run_mib, rounds, seconds; /* limits: NAN if not given */
    uint64_t seed;                                     /* parsed from weights */
    struct run_roof peak; /* parsed from roof */
    const char *cache; /* of the programs of the model; NULL if not given */
    bool verify, json, tune;
};

/* The name of the command, for messages: "run", unless another command has set it. */
extern const char *run_command;

/* Prints "bp run: ", `what` and the message of the last failure. Returns false. */
bool run_failed(const char *what);

/* Whether the file of a model can be read; if not, prints why. */
bool run_can_read(const char *path);
/* Whether --data, if it is given, is a folder; if not, prints that as the command. */
bool run_has_data(const char *command, const struct run_words *w);

/* Opens the device and loads the model; closes both, also after a failure. run_open returns the
 * exit status. */
int run_open(struct run_model *r, const struct run_words *words);
void run_close(struct run_model *r);

/* Runs the model once. seconds: time until the outputs exist. A failure is printed. */
bool run_model_once(struct run_model *r, double *seconds);

/* Finds the program that runs with the model's inputs use; NULL: they go node by node. */
struct bp_program *run_find_program(struct run_model *r);

/* In run_interrupt.c: makes the first Ctrl-C cancel a compilation of the program that was set last,
 * and the next one end the process. Without a compilation the first one ends the process. A program
 * must be valid until another one, or NULL, is set. */
void run_interrupt_begin(void);
void run_interrupt_set(struct bp_program *program);

/* In run_inputs.c: checks each --shape; makes the inputs. A failure is printed. run_data_file: a
 * file of --data, or NULL if it does not exist; the caller frees the path. */
bool run_check_shapes(struct run_model *r, const struct run_words *words);
bool run_take_inputs(struct run_model *r, const struct run_words *words);
char *run_data_file(const struct run_words *words, const char *what, uint32_t i);

/* In run_roof.c: measures the peak of the device; 0: not known, since the device has no kernel. */
void run_measure_roof(struct run_model *r, struct run_roof *out);

/* In run_walk.c: the graph for the inputs; NULL if there is none, for example for inputs that are
 * no tensors. in: room for the tensors of the inputs. */
bool run_find_graph(struct run_model *r, struct bp_tensor **in, struct bp_graph **out_graph);

/* In run_weights.c: a bp_model_weights function. Draws numbers with the initial distribution of He
 * et al. (normal, variance 2 / fan in) from the seed *ctx (uint64_t); statistics of normalisations
 * are positive. The Delving Deep into Rectifiers paper, 2015, eq. 10. */
void run_weights(void *ctx, const char *name, uint32_t rank, const int64_t *shape, int64_t fan_in,
                 float *data, int64_t count);

/* In run_fallbacks.c: reports the fallbacks of the device since it was opened, in a table on
 * standard output, or in JSON. */
void run_fallbacks(struct run_model *r, cJSON *json);

/* In run_walk.c: runs a model operator call by operator call, and waits for each. Uses the model's
 * graph, or, if the model has none because it depends on data, a run with a watcher. */
struct run_walk {
    struct run_model *r;
    void (*before)(struct run_walk *walk, const struct bp_watched *call); /* or NULL */
    void (*after)(struct run_walk *walk, const struct bp_watched *call);
    void *ctx;
    /* Set before both functions are called. */
    const char *name; /* name of the node that makes the call */
    /* The start of the call; and, in `after`, its duration until its results existed. */
    double begin, seconds;
    uint32_t calls, nodes; /* calls before this one; nodes of the graph, 0 without a graph */
    bool failed;
};
/* Returns false after printing why the model could not be run. */
bool run_walk(struct run_walk *walk);

/* In run_profile.c: prints tables by operator and node, and writes a trace in Chrome's format to
 * the file of --profile. Returns the exit status. */
int run_profile(struct run_model *r, const struct run_words *words);

/* In run_verify.c: runs each call on the device and by the reference, from the same inputs. Returns
 * the exit status; BP_EXIT_FAILED if a result is wrong, constant or not finite, or no call has a
 * reference. Prints to `told`. */
int run_verify(struct run_model *r);

/* Whether an output equals the expected one within ONNX's tolerance. Prints the result to
 * `told`. */
bool run_same(struct run_model *r, const char *name, const struct bp_model_value *got,
              const struct bp_model_value *expected);

#endif
