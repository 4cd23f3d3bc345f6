/* SPDX-License-Identifier: Apache-2.0 */
/* call_chain.h: declares the executors of the steps of a row, with the descriptions of their
 * tensors: made once and run again and again, or made for one launch. */
#ifndef NPU_CALL_CHAIN_H
#define NPU_CALL_CHAIN_H

#include "call.h"
#include <kit/invoke.h>

/* An object that has to be destroyed. */
struct npu_object {
    void *object;
    int (*destroy)(const void *object);
};

/* A tensor of an executor, and where its address comes from. */
struct npu_binding {
    void *tensor, *address; /* the address that the executor has now */
    int64_t offset;
    size_t index; /* among the inputs or the outputs of the function */
    uint16_t at;  /* the number of the input or output of the launch */
    uint8_t from; /* enum npu_from */
    bool is_out;
};
enum npu_from {
    NPU_FROM_IN,
    NPU_FROM_OUT,
    NPU_FROM_WORKSPACE,
    NPU_FROM_WORD,
    NPU_FROM_HELD
};

/* The addresses of a launch. */
struct npu_place {
    const struct bp_view *const *in, *const *out;
    char *temporaries;
    void *word;
    char *held; /* the constants of the plan */
};

/* A step: an executor between its phases. */
struct npu_ready {
    const struct npu_function *function;
    void *executor;
    uint64_t size;  /* of its workspace */
    uint32_t first; /* its first binding */
    bool shared;    /* the executor belongs to the step that this one repeats */
};

/* The steps of a launch, with room for all that they need. */
struct npu_chain {
    struct npu_chain *next;
    struct npu *npu;
    uint64_t size;  /* the largest workspace */
    bool repeats;   /* the executors can run again */
    bool no_memory; /* CANN has not made an object */
    bool shares;    /* steps share executors: these have to be repeatable */
    bool has_lists; /* how the tensors of a list get other addresses is not known */
    uint32_t n_step, n_object, n_binding;
    struct npu_ready *step;
    struct npu_object *object;
    struct npu_binding *binding;
};

/* call.c: aclDataType of a dtype; -1: none. */
int npu_dtype(int64_t dtype);
/* Makes the executors of a build. After a failure, too, npu_chain_drop has to be called. */
enum bp_status npu_chain_make(struct npu_chain *chain, const struct npu_place *place,
                              const struct kit_build *b);

/* chain.c: whether a step runs the executor of the step that it repeats. */
bool npu_chain_shares(const struct npu *npu, const struct kit_build *b, uint32_t s);
/* The bytes of a chain for a build; and a chain in such memory. */
size_t npu_chain_bytes(const struct npu *npu, const struct kit_build *b);
struct npu_chain *npu_chain_init(void *memory, struct npu *npu, const struct kit_build *b);
/* Makes the executors repeatable; the addresses are then those of the last launch. */
enum bp_status npu_chain_repeat(struct npu_chain *chain, struct npu_device *device);
/* Submits the steps to a stream. */
enum bp_status npu_chain_run(struct npu_chain *chain, struct npu_device *device, void *workspace,
                             void *stream);
/* Gives the executors the addresses of a launch. */
enum bp_status npu_chain_move(struct npu_chain *chain, struct npu_device *device,
                              const struct npu_place *place);
void npu_chain_drop(struct npu_chain *chain, struct npu_device *device);
void *npu_binding_address(const struct npu_binding *binding, const struct npu_place *place);

/* library.c: as npu_check, but without a message if the function does not take the tensors: the
 * reason is logged at level debug. */
enum bp_status npu_check_phase_one(const struct npu *npu, uint32_t device, const char *row,
                                   const char *function, int code);

#endif
