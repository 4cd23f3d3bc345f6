/* SPDX-License-Identifier: Apache-2.0 */
/* onednn.h: what the files that use oneDNN 2.x share.
 *
 * A primitive is made in prepare for the strides of the views. Where it works better in layouts
 * of oneDNN's own, further primitives reorder tensors into the workspace and back at each
 * launch. Scratch memory is in the workspace too, so launches of one plan may run at once.
 * Threads are OpenMP's (library.h).
 *
 * There is no row of softmax: oneDNN's is no faster than our own, and a NaN in a row leaves the
 * others finite. */
#ifndef CPU_ONEDNN_H
#define CPU_ONEDNN_H

#include "cpu.h"
#include <dnnl.h>
#include <stdbool.h>

/* X(function): all that is called. */
#define DNNL_SYMBOLS(X) \
    X(dnnl_dilated_convolution_forward_desc_init) \
    X(dnnl_engine_create) \
    X(dnnl_matmul_desc_init) \
    X(dnnl_memory_create) \
    X(dnnl_memory_desc_equal) \
    X(dnnl_memory_desc_get_size) \
    X(dnnl_memory_desc_init_by_strides) \
    X(dnnl_memory_destroy) \
    X(dnnl_primitive_attr_create) \
    X(dnnl_primitive_attr_destroy) \
    X(dnnl_primitive_attr_set_scratchpad_mode) \
    X(dnnl_primitive_create) \
    X(dnnl_primitive_desc_create) \
    X(dnnl_primitive_desc_destroy) \
    X(dnnl_primitive_desc_query) \
    X(dnnl_primitive_desc_query_md) \
    X(dnnl_primitive_destroy) \
    X(dnnl_primitive_execute) \
    X(dnnl_reorder_primitive_desc_create) \
    X(dnnl_set_max_cpu_isa) \
    X(dnnl_stream_create) \
    X(dnnl_stream_destroy)

enum { ONEDNN_ALIGNMENT = 64 }; /* of scratch memory and of packed constants, in bytes */

/* The library's functions, and its one engine. */
struct onednn {
#define X(function) __typeof__(function) *function;
    DNNL_SYMBOLS(X)
#undef X
    dnnl_engine_t engine;
};

/* Opens the library at the first call; NULL if it cannot be. */
const struct onednn *onednn_open(struct cpu *self);

/* The library, which a plan has opened. */
const struct onednn *onednn_opened(void);

/* One tensor of a primitive. */
struct onednn_slot {
    int arg;                 /* DNNL_ARG_SRC, ...; DNNL_ARG_DST is the output */
    dnnl_memory_desc_t desc; /* as the view lies */
    dnnl_query_t query; /* finds the layout that the primitive chose; 0: the op has this desc */
    bool constant;      /* its contents are known and stay: it is put in that layout once */
};

/* What a plan is made of: slots in the order of the launch's inputs, then the output. */
struct onednn_recipe {
    const void *op; /* dnnl_matmul_desc_t, ... */
    struct onednn_slot slot[4];
    int slots;
};

/* A desc of a view of 1 to DNNL_MAX_NDIMS axes; false: strides or dtype that oneDNN does not
 * take. */
bool onednn_desc_init(const struct onednn *dnnl, dnnl_memory_desc_t *desc,
                      const struct bp_view *view);
bool onednn_desc_strided(const struct onednn *dnnl, dnnl_memory_desc_t *desc, uint8_t dtype,
                         int rank, const int64_t *shape, const int64_t *stride);

/* onednn_pack.c: a constant in the layout that a primitive wants, shared by all plans that want the
 * same, whatever the shapes of their other inputs. */
struct onednn_pack {
    struct onednn_pack *next; /* of self->packs */
    uint64_t constant;        /* bp_prep.constant; 0: not known, and not shared */
    const void *from;
    dnnl_memory_desc_t lies, wants;
    void *data;
    uint64_t bytes;
    uint32_t plans;
};
/* The pack of a constant, counted once more; NULL: there is none. The lock is the caller's. */
struct onednn_pack *onednn_pack_find(struct cpu *self, const struct onednn_pack *like);
/* A copy of like, with memory for the data, which is still to be filled; the lock is the caller's.
 * NULL: no memory. */
struct onednn_pack *onednn_pack_make(struct cpu *self, const struct onednn_pack *like);
/* One plan less. */
void onednn_pack_release(struct cpu *self, struct onednn_pack *pack);

/* Makes the plan. BP_ERR_UNSUPPORTED: the library has nothing for it, or for one of its parts only
 * its reference implementation, which is some hundred times slower than any row of ours. */
enum bp_status onednn_plan_create(struct cpu *self, const struct bp_prep *prep,
                                  const struct onednn_recipe *recipe, struct bp_plan *out);

/* Runs it on the launch's data. */
enum bp_status onednn_plan_run(const struct bp_launch *launch);

#endif
