/* SPDX-License-Identifier: Apache-2.0 */
/* onednn.h: declares the types and functions that the files for oneDNN 2 and 3 share.
 *
 * prepare creates a primitive for the strides of the views. If the primitive is faster in a layout
 * that oneDNN defines, additional primitives reorder tensors into the workspace and back at each
 * launch. Scratch memory is in the workspace too, so several launches of one plan may run at the
 * same time. Threads are OpenMP's (team.c).
 *
 * Products with an epilogue (onednn_fused.c) run the plugin's rows of add and of the activation
 * over the result of the primitive; small convolutions let the primitive add: decision 0025.
 *
 * There is no kernel row for softmax: oneDNN's softmax is not faster than the plugin's, and for a
 * row with a NaN it leaves the other elements finite. */
#ifndef CPU_ONEDNN_H
#define CPU_ONEDNN_H

#include "cpu.h"
#include <backplane/attrs.h>
#include <dnnl.h>
#include <stdbool.h>

/* X(function): functions that versions 2 and 3 both have. The plugin is compiled with the headers
 * of version 2. A description of memory is a struct there and a pointer to an opaque struct in
 * version 3, so that these functions take a pointer in both. */
#define DNNL_SYMBOLS(X) \
    X(dnnl_engine_create) \
    X(dnnl_memory_create) \
    X(dnnl_memory_desc_equal) \
    X(dnnl_memory_desc_get_size) \
    X(dnnl_memory_destroy) \
    X(dnnl_memory_set_data_handle) \
    X(dnnl_post_ops_create) \
    X(dnnl_post_ops_destroy) \
    X(dnnl_primitive_attr_create) \
    X(dnnl_primitive_attr_destroy) \
    X(dnnl_primitive_attr_set_post_ops) \
    X(dnnl_primitive_attr_set_scratchpad_mode) \
    X(dnnl_primitive_create) \
    X(dnnl_primitive_desc_destroy) \
    X(dnnl_primitive_desc_query) \
    X(dnnl_primitive_desc_query_md) \
    X(dnnl_primitive_destroy) \
    X(dnnl_primitive_execute) \
    X(dnnl_reorder_primitive_desc_create) \
    X(dnnl_set_max_cpu_isa) \
    X(dnnl_stream_create) \
    X(dnnl_stream_destroy) \
    X(dnnl_version)

/* X(function): those of version 2 only. */
#define DNNL_SYMBOLS_2(X) \
    X(dnnl_dilated_convolution_backward_weights_desc_init) \
    X(dnnl_dilated_convolution_forward_desc_init) \
    X(dnnl_dilated_deconvolution_forward_desc_init) \
    X(dnnl_matmul_desc_init) \
    X(dnnl_memory_desc_init_by_strides) \
    X(dnnl_post_ops_append_sum) \
    X(dnnl_primitive_desc_create)

/* X(function, parameters): those of version 3 only; all return dnnl_status_t. */
#define DNNL_SYMBOLS_3(X) \
    X(dnnl_convolution_backward_weights_primitive_desc_create, \
      (dnnl_primitive_desc_t * out, dnnl_engine_t, dnnl_alg_kind_t, const void *src, \
       const void *diff_weights, const void *diff_bias, const void *diff_dst, \
       const dnnl_dim_t *strides, const dnnl_dim_t *dilates, const dnnl_dim_t *before, \
       const dnnl_dim_t *after, const_dnnl_primitive_desc_t forward, const_dnnl_primitive_attr_t)) \
    X(dnnl_convolution_forward_primitive_desc_create, \
      (dnnl_primitive_desc_t * out, dnnl_engine_t, dnnl_prop_kind_t, dnnl_alg_kind_t, \
       const void *src, const void *weights, const void *bias, const void *dst, \
       const dnnl_dim_t *strides, const dnnl_dim_t *dilates, const dnnl_dim_t *before, \
       const dnnl_dim_t *after, const_dnnl_primitive_attr_t)) \
    X(dnnl_deconvolution_forward_primitive_desc_create, \
      (dnnl_primitive_desc_t * out, dnnl_engine_t, dnnl_prop_kind_t, dnnl_alg_kind_t, \
       const void *src, const void *weights, const void *bias, const void *dst, \
       const dnnl_dim_t *strides, const dnnl_dim_t *dilates, const dnnl_dim_t *before, \
       const dnnl_dim_t *after, const_dnnl_primitive_attr_t)) \
    X(dnnl_matmul_primitive_desc_create, \
      (dnnl_primitive_desc_t * out, dnnl_engine_t, const void *src, const void *weights, \
       const void *bias, const void *dst, const_dnnl_primitive_attr_t)) \
    X(dnnl_memory_desc_clone, (void **out, const void *desc)) \
    X(dnnl_memory_desc_create_with_strides, (void **out, int rank, const dnnl_dim_t *shape, \
                                             dnnl_data_type_t, const dnnl_dim_t *strides)) \
    X(dnnl_memory_desc_create_with_tag, \
      (void **out, int rank, const dnnl_dim_t *shape, dnnl_data_type_t, dnnl_format_tag_t)) \
    X(dnnl_memory_desc_destroy, (void *desc)) \
    X(dnnl_post_ops_append_sum, \
      (dnnl_post_ops_t, float scale, int32_t zero_point, dnnl_data_type_t))

enum { ONEDNN_ALIGNMENT = 64 }; /* in bytes, of scratch memory and packed constants */

/* The library's functions, and the one engine that the plugin uses. */
struct onednn {
#define X(function) __typeof__(function) *function;
    DNNL_SYMBOLS(X)
    struct onednn_two {
        DNNL_SYMBOLS_2(X)
    } two;   /* set if major is 2 */
#undef X
#define X(function, parameters) dnnl_status_t(*function) parameters;
    struct onednn_three {
        DNNL_SYMBOLS_3(X)
    } three; /* set if major is 3 */
#undef X
    int major; /* 2 or 3 */
    dnnl_engine_t engine;
};

/* Opens the library at the first call. NULL: the library cannot be opened. */
const struct onednn *onednn_open(struct cpu *self);

/* The library, after a plan has opened it. */
const struct onednn *onednn_opened(void);

/* onednn_calls.c: a description of memory, of version 2 or 3. */
struct onednn_desc {
    dnnl_memory_desc_t two; /* of version 3: only rank, shape and type of a view's description */
    void *three;            /* owned; NULL in version 2 */
};

/* Describes a view of 1 to DNNL_MAX_NDIMS axes. false: oneDNN does not support its strides or
 * dtype. onednn_desc_finish releases each description; one that is all zero needs no release. */
bool onednn_desc_init(const struct onednn *dnnl, struct onednn_desc *desc,
                      const struct bp_view *view);
bool onednn_desc_strided(const struct onednn *dnnl, struct onednn_desc *desc, uint8_t dtype,
                         int rank, const int64_t *shape, const int64_t *stride);
/* Describes the same tensor in a layout that oneDNN may choose. `desc` describes a view. */
bool onednn_desc_any(const struct onednn *dnnl, struct onednn_desc *any,
                     const struct onednn_desc *desc);
bool onednn_desc_copy(const struct onednn *dnnl, struct onednn_desc *to,
                      const struct onednn_desc *from);
/* Copies the description that a query of a primitive returns. */
bool onednn_desc_query(const struct onednn *dnnl, struct onednn_desc *to,
                       const_dnnl_primitive_desc_t primitive, dnnl_query_t query);
void onednn_desc_finish(const struct onednn *dnnl, struct onednn_desc *desc);
bool onednn_desc_equal(const struct onednn *dnnl, const struct onednn_desc *a,
                       const struct onednn_desc *b);
/* The argument of functions that both versions have. */
const dnnl_memory_desc_t *onednn_desc_pointer(const struct onednn_desc *desc);

/* One tensor of a primitive. The descriptions belong to the caller. */
struct onednn_slot {
    int arg;                          /* DNNL_ARG_SRC, ... */
    const struct onednn_desc *desc;   /* the layout of the view */
    const struct onednn_desc *wanted; /* the layout that the primitive is created with */
    dnnl_query_t query; /* query for the layout that the primitive chose; 0: it uses `desc` */
    bool constant;      /* the contents never change: they are reordered only once */
};

/* The geometry of a convolution, in oneDNN's terms. */
struct onednn_window {
    dnnl_dims_t step, holes, before, after;
    bool transposed; /* a transposed convolution, which oneDNN calls deconvolution */
    bool of_weights; /* the gradient in the filters: the slots are those of the result's gradient,
                        the image and the filters' gradient */
    bool winograd;   /* by Winograd's algorithm */
};

/* onednn_conv.c: describes filters; with several groups the groups are one more axis. Converts the
 * attributes of a convolution of x by w to y. Returns how many multiplications a convolution to y
 * adds, whose first axis of w counts the channels of y. Returns whether elements have no gaps,
 * channels innermost. */
bool onednn_filter_desc(const struct onednn *dnnl, struct onednn_desc *desc,
                        const struct bp_view *w, int64_t groups);
void onednn_geometry(const int64_t *stride, const int64_t *dilation, const int64_t *pad,
                     const struct bp_view *x, const struct bp_view *w, const struct bp_view *y,
                     struct onednn_window *to);
double onednn_conv_terms(const struct bp_view *y, const struct bp_view *w);
bool onednn_channels_last(const struct bp_view *v);

/* onednn_fused.c: what follows a product: the residual is added, and an activation is applied. The
 * rows are the plugin's own. */
struct onednn_epilogue {
    /* At most one of these is set; neither: there is no residual. */
    const struct bp_kernel *add;  /* the row of add, which reads the primitive's result */
    const struct bp_kernel *copy; /* the row of assign: the residual is copied to y, unless it is
                                     there, and the primitive adds to y */
    const struct bp_kernel *activate; /* the row of the activation; NULL: there is none */
    union {
        struct bp_clip_attrs numbers; /* of operators whose attributes are at most two F64, too */
        struct bp_gelu_attrs gelu;
    } attrs; /* of the activation */
    /* A convolution of many images is computed image by image, so that the epilogue finds the
     * result in the cache. */
    int64_t images;                  /* 1: all at once */
    uint64_t x_step, y_step, r_step; /* bytes from image to image of x, y and the residual */
    bool flat; /* y and the residual have no gaps and the same order of elements */
};

/* Copies the residual to y if the primitive adds to y. */
enum bp_status onednn_epilogue_begin(const struct bp_launch *launch,
                                     const struct onednn_epilogue *then);
/* Adds the residual to the result of the primitive, which lies in `sum` in the layout of y, writes
 * y, and applies the activation. sum NULL: y has the sum. */
enum bp_status onednn_epilogue_run(const struct bp_launch *launch,
                                   const struct onednn_epilogue *then, int64_t image, void *sum);

/* The description of a plan: slots in the order of the launch's inputs, then the output. */
struct onednn_recipe {
    const struct onednn_window *window; /* of a convolution; NULL: a product of matrices */
    const struct onednn_epilogue *epilogue; /* NULL: none. Its steps are those of the launch: the
                                               slots describe one image */
    struct onednn_slot slot[4];             /* src, weights, perhaps bias, dst */
    int slots;
    double terms; /* multiplications that are added, by which the plan's width is chosen */
};

/* onednn_calls.c: lets a primitive with these attributes add its result to the output. */
bool onednn_attr_add(const struct onednn *dnnl, dnnl_primitive_attr_t attr);
/* onednn_calls.c: creates the description of the recipe's primitive. */
bool onednn_recipe_describe(const struct onednn *dnnl, const struct onednn_recipe *recipe,
                            const_dnnl_primitive_attr_t attr, dnnl_primitive_desc_t *out);

/* onednn_pack.c: a constant tensor in the layout that a primitive needs. All plans that need the
 * same layout share it, whatever the shapes of their other inputs. */
struct onednn_pack {
    struct onednn_pack *next; /* in the list self->packs */
    uint64_t constant;        /* bp_prep.constant; 0: unknown, so the pack is not shared */
    const void *from;
    struct onednn_desc lies, wants;
    void *data;
    uint64_t bytes;
    uint32_t plans;
};
/* Finds the pack of a constant and adds one to its users; NULL: there is none. The caller holds the
 * lock. */
struct onednn_pack *onednn_pack_find(struct cpu *self, const struct onednn_pack *like);
/* Adds a copy of `like` with its own descriptions, and with memory for the data, which the caller
 * must fill. The caller holds the lock. NULL: out of memory. */
struct onednn_pack *onednn_pack_make(struct cpu *self, const struct onednn_pack *like);
/* Removes one plan from the pack's users, and frees a pack without users. */
void onednn_pack_release(struct cpu *self, struct onednn_pack *pack);

/* Creates the plan. BP_ERR_UNSUPPORTED: the library has no implementation, or for one of its parts
 * only the reference implementation, which is some hundred times slower than the plugin's kernel
 * rows, or for a primitive that adds one by GEMM, which becomes several times slower. */
enum bp_status onednn_plan_create(struct cpu *self, const struct bp_prep *prep,
                                  const struct onednn_recipe *recipe, struct bp_plan *out);

/* onednn_conv.c: prepares a call of conv, or of an operator whose inputs and attributes begin so,
 * with a bias at input 2 and an epilogue (NULL: none). */
enum bp_status onednn_conv_prepare(struct cpu *self, const struct bp_prep *prep,
                                   const struct onednn_epilogue *epilogue, struct bp_plan *out);
struct matmul;

/* onednn_matmul.c: the same for matmul. onednn_matmul_takes: whether oneDNN should compute a call,
 * or other kernels that are faster for small ones; fills *out_product. */
bool onednn_matmul_takes(const struct cpu *self, const struct bp_prep *prep,
                         struct matmul *out_product);
enum bp_status onednn_matmul_plan(struct cpu *self, const struct bp_prep *prep,
                                  const struct matmul *product,
                                  const struct onednn_epilogue *epilogue, struct bp_plan *out);

/* Runs the launch's plan on the launch's data. */
enum bp_status onednn_plan_run(const struct bp_launch *launch);

#endif
