/* SPDX-License-Identifier: Apache-2.0 */
/* shim.h: defines the C interface of libbp_ipu_shim.so, which is written in C++ over Poplar and
 * PopLibs, whose interfaces C cannot call. The library is compiled where Poplar's SDK is
 * (build.sh); the plugin opens it at run time.
 *
 * A graph is given as flat arrays and becomes a program for one device. All shapes are known. The
 * memory of the tiles belongs to the program that a device has loaded: running another program
 * loads that one, and takes the values that the first one kept.
 *
 * Functions return an enum bp_ipu_code. bp_ipu_error has the message of the last failure of the
 * calling thread. A device runs one program at a time: other threads wait. */
#ifndef BP_IPU_SHIM_H
#define BP_IPU_SHIM_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The number changes whenever a struct, a list or the meaning of a function changes. */
#define BP_IPU_SHIM_VERSION 4

enum bp_ipu_code {
    BP_IPU_OK = 0,
    BP_IPU_FAILED = 1,      /* any other failure */
    BP_IPU_MEMORY = 2,      /* the program does not fit into the memory of a tile */
    BP_IPU_IN_USE = 3,      /* another process is attached to the device */
    BP_IPU_LOST = 4,        /* the device must be reset: unrecoverable_runtime_error */
    BP_IPU_UNSUPPORTED = 5, /* an operator or a type that the shim lacks */
    BP_IPU_STALE = 6,       /* bytes that are no executable of this graph */
    BP_IPU_CANCELLED = 7,   /* progress returned another number than 0 */
    BP_IPU_NO_HOST = 8      /* no memory of the host */
};

enum bp_ipu_target {
    BP_IPU_HARDWARE = 0,
    BP_IPU_MODEL = 1, /* Poplar's IPUModel, which runs on the host */
    BP_IPU_CPU = 2    /* Poplar's cpu target */
};

enum bp_ipu_type {
    BP_IPU_F32 = 0,
    BP_IPU_F16 = 1,
    BP_IPU_I32 = 2,
    BP_IPU_BOOL = 3, /* a byte, 0 or 1 */
    BP_IPU_I8 = 4,
    BP_IPU_U8 = 5,
    BP_IPU_TYPES = 6
};

enum {
    BP_IPU_RANK = 8,
    BP_IPU_NUMBERS = 48,
    BP_IPU_REALS = 4,
    BP_IPU_NONE = -1 /* in place of a tensor's number: an absent input */
};

enum bp_ipu_kind {
    BP_IPU_RESULT = 0,
    BP_IPU_INPUT = 1, /* copied to the device for each run */
    BP_IPU_KEPT = 2,  /* an input that stays on the device while its contents are the same */
    BP_IPU_WEIGHT = 3 /* copied to the device when the program is loaded */
};

struct bp_ipu_tensor {
    uint32_t type, rank; /* enum bp_ipu_type */
    uint32_t kind;       /* enum bp_ipu_kind */
    uint32_t zero;
    int64_t shape[BP_IPU_RANK];
    const void *data; /* of a weight: its contents, which must stay as long as the program */
};

/* The shim's operators: BP_IPU_OP_add, ...; ops.def has their numbers and inputs. */
enum bp_ipu_op {
#define OP(name, number, real, text) BP_IPU_OP_##name,
#include "ops.def"
    BP_IPU_OPS
};

struct bp_ipu_node {
    uint32_t op; /* enum bp_ipu_op */
    uint32_t n_in, n_out, n_number;
    const int32_t *in;  /* numbers of tensors; BP_IPU_NONE: absent */
    const int32_t *out; /* numbers of the tensors that it makes: one, or as ops.def says */
    int64_t number[BP_IPU_NUMBERS]; /* as ops.def says */
    double real[BP_IPU_REALS];
    const char *name; /* for messages and profiles */
};

struct bp_ipu_graph {
    size_t size;
    const struct bp_ipu_tensor *tensor;
    const struct bp_ipu_node *node; /* in an order in which they can run */
    const int32_t *in, *out;        /* numbers of tensors: the order of a run's pointers */

    /* Of each input: the tensor whose contents the input has after a run, or BP_IPU_NONE. Such an
     * input is kept, and updated: its new value stays on the device, and bp_ipu_state has it. The
     * tensor is of the input's type, and is the result of a node. NULL: no input is updated. */
    const int32_t *after;
    uint32_t n_tensor, n_node, n_in, n_out;
    uint32_t fast; /* 1: NaN may be lost, half types may add in half */
    uint32_t zero;

    /* Called from time to time while the graph is compiled: 0 to 1. Another result than 0 ends the
     * compilation; Poplar itself goes on until its call returns. May be NULL. */
    void *ctx;
    uint32_t (*progress)(void *ctx, double done);
};

struct bp_ipu_facts {
    size_t size;
    char name[64]; /* "IPU 0, 1472 tiles" */
    uint64_t tiles, bytes_per_tile;
    uint32_t id, zero; /* Poplar's number of the device */
};

/* The contents of an input of a run. An input that is kept on the device is not copied again if its
 * address is that of the last run, and memory and version are `memory` and `after` of that run.
 * memory 0: unknown, so that the input is copied. Of an updated input, the value that the last run
 * left is used, whatever the contents, until bp_ipu_state has taken it. */
struct bp_ipu_content {
    uint64_t memory, version, after;
};

/* One run. */
struct bp_ipu_launch {
    size_t size;
    const void *const *in;
    const struct bp_ipu_content *content; /* of each input; NULL: all unknown */
    void *const *out;
    uint32_t n_in, n_out;
    uint32_t out_fault;  /* set to 1: an index is beyond its axis; results are not defined then */
    uint32_t out_loaded; /* set to 1: the program had to be loaded */
    uint32_t out_copied; /* set to the number of kept inputs that were copied */
    uint32_t zero;
};

struct bp_ipu;         /* the devices of one target */
struct bp_ipu_program; /* a compiled graph */

uint32_t bp_ipu_version(void); /* BP_IPU_SHIM_VERSION of the library */
const char *bp_ipu_error(void);

int bp_ipu_open(uint32_t target, struct bp_ipu **out);
void bp_ipu_close(struct bp_ipu *ipu); /* all programs are destroyed; detaches from devices */
uint32_t bp_ipu_device_count(const struct bp_ipu *ipu);
int bp_ipu_device_info(const struct bp_ipu *ipu, uint32_t device, struct bp_ipu_facts *out);

int bp_ipu_compile(struct bp_ipu *ipu, uint32_t device, const struct bp_ipu_graph *graph,
                   struct bp_ipu_program **out);
/* Makes a program from the bytes of bp_ipu_save, for an equal graph. */
int bp_ipu_restore(struct bp_ipu *ipu, uint32_t device, const struct bp_ipu_graph *graph,
                   const void *data, uint64_t size, struct bp_ipu_program **out);
/* Makes a program with the code of another one, for an equal graph with other weights. */
int bp_ipu_share(struct bp_ipu_program *program, const struct bp_ipu_graph *graph,
                 struct bp_ipu_program **out);
/* Passes the executable, without weights, to write, which returns 0; another number ends save and
 * is in *out_write. */
int bp_ipu_save(struct bp_ipu_program *program, void *ctx,
                int (*write)(void *ctx, const void *data, uint64_t size), int *out_write);
void bp_ipu_destroy(struct bp_ipu_program *program);

/* Attaches to the device if this process has not, loads the program if the device has another one,
 * copies inputs, runs, and copies outputs. */
int bp_ipu_run(struct bp_ipu_program *program, struct bp_ipu_launch *run);

/* Takes the value of an updated input, which is newer than the memory of the input after a run.
 * forget 0: writes it to data, if it is newer; later runs use it as long as their bp_ipu_content
 * says that data has not changed. It fails if the last run has failed, so that the value is lost.
 * forget 1: writes nothing. The next run copies the input. */
int bp_ipu_state(struct bp_ipu_program *program, uint32_t input, uint32_t forget, void *data);

#ifdef __cplusplus
}
#endif

#endif
