/* SPDX-License-Identifier: Apache-2.0 */
/* onednn.h: declares the types and functions that the files for oneDNN 2.x share.
 *
 * prepare creates a primitive for the strides of the views. If the primitive is faster in a layout
 * that oneDNN defines, additional primitives reorder tensors into the workspace and back at each
 * launch. Scratch memory is in the workspace too, so several launches of one plan may run at the
 * same time. Threads are OpenMP's (team.c).
 *
 * There is no kernel row for softmax: oneDNN's softmax is not faster than the plugin's, and for a
 * row with a NaN it leaves the other elements finite. */
#ifndef CPU_ONEDNN_H
#define CPU_ONEDNN_H

#include "cpu.h"
#include <dnnl.h>
#include <stdbool.h>

/* X(function): all functions that the plugin calls. */
#define DNNL_SYMBOLS(X) \
    X(dnnl_dilated_convolution_forward_desc_init) \
    X(dnnl_dilated_deconvolution_forward_desc_init) \
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

enum { ONEDNN_ALIGNMENT = 64 }; /* in bytes, of scratch memory and packed constants */

/* The library's functions, and the one engine that the plugin uses. */
struct onednn {
#define X(function) __typeof__(function) *function;
    DNNL_SYMBOLS(X)
#undef X
    dnnl_engine_t engine;
};

/* Opens the library at the first call. NULL: the library cannot be opened. */
const struct onednn *onednn_open(struct cpu *self);

/* The library, after a plan has opened it. */
const struct onednn *onednn_opened(void);

/* One tensor of a primitive. */
struct onednn_slot {
    int arg;                 /* DNNL_ARG_SRC, ...; DNNL_ARG_DST is the output */
    dnnl_memory_desc_t desc; /* the layout of the view */
    dnnl_query_t query; /* query for the layout that the primitive chose; 0: the op uses `desc` */
    bool constant;      /* the contents never change: they are reordered only once */
};

/* The description of a plan: slots in the order of the launch's inputs, then the output. */
struct onednn_recipe {
    const void *op; /* dnnl_matmul_desc_t, ... */
    struct onednn_slot slot[4];
    int slots;
};

/* Describes a view of 1 to DNNL_MAX_NDIMS axes. false: oneDNN does not support its strides or
 * dtype. */
bool onednn_desc_init(const struct onednn *dnnl, dnnl_memory_desc_t *desc,
                      const struct bp_view *view);
bool onednn_desc_strided(const struct onednn *dnnl, dnnl_memory_desc_t *desc, uint8_t dtype,
                         int rank, const int64_t *shape, const int64_t *stride);

/* onednn_pack.c: a constant tensor in the layout that a primitive needs. All plans that need the
 * same layout share it, whatever the shapes of their other inputs. */
struct onednn_pack {
    struct onednn_pack *next; /* in the list self->packs */
    uint64_t constant;        /* bp_prep.constant; 0: unknown, so the pack is not shared */
    const void *from;
    dnnl_memory_desc_t lies, wants;
    void *data;
    uint64_t bytes;
    uint32_t plans;
};
/* Finds the pack of a constant and adds one to its users; NULL: there is none. The caller holds the
 * lock. */
struct onednn_pack *onednn_pack_find(struct cpu *self, const struct onednn_pack *like);
/* Adds a copy of `like`, with memory for the data, which the caller must fill. The caller holds the
 * lock. NULL: out of memory. */
struct onednn_pack *onednn_pack_make(struct cpu *self, const struct onednn_pack *like);
/* Removes one plan from the pack's users, and frees a pack without users. */
void onednn_pack_release(struct cpu *self, struct onednn_pack *pack);

/* Creates the plan. BP_ERR_UNSUPPORTED: the library has no implementation, or for one of its parts
 * only the reference implementation, which is some hundred times slower than the plugin's kernel
 * rows. */
enum bp_status onednn_plan_create(struct cpu *self, const struct bp_prep *prep,
                                  const struct onednn_recipe *recipe, struct bp_plan *out);

/* Runs the launch's plan on the launch's data. */
enum bp_status onednn_plan_run(const struct bp_launch *launch);

#endif
