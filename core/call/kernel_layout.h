/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_layout.h: declares the layouts of plugins: which of them kernel rows take, and how tensors
 * are converted. */
#ifndef BP_KERNEL_LAYOUT_H
#define BP_KERNEL_LAYOUT_H

#include "../schema/op.h"

/* The layout of a declared input or output of a row; 0: strides. */
static inline uint32_t bp_kernel_in_layout(const struct bp_kernel *k, uint32_t port)
{
    return k->in_layout && port < k->in_known ? k->in_layout[port] : 0;
}
static inline uint32_t bp_kernel_out_layout(const struct bp_kernel *k, uint32_t port)
{
    return k->out_layout && port < k->out_known ? k->out_layout[port] : 0;
}

/* Whether a tensor of a row is in another layout than strides. The loader has set both lists to
 * NULL where none is. */
static inline bool bp_kernel_has_layouts(const struct bp_kernel *k)
{
    return k->in_layout || k->out_layout;
}

/* The declared input to which input i of a call's flat list belongs. */
uint32_t bp_in_port(const struct bp_opdef *row, const uint16_t *in_at, uint32_t i);

/* Whether a tensor of a call is in a layout. An output is given then. */
bool bp_invocation_has_layouts(const struct bp_invocation *inv);
/* Whether all tensors of a call are in the layouts of a row. out: the types of the outputs. */
bool bp_layouts_fit(const struct bp_invocation *inv, const struct bp_view *const *out,
                    const struct bp_kernel *k);

/* The name of a layout; "" for 0. */
const char *bp_layout_name(const struct bp_device *device, uint32_t layout);

/* Returns the bytes of a tensor in view->layout, which is not 0, as the plugin states them.
 * BP_ERR_UNSUPPORTED: the tensor cannot be in this layout. */
enum bp_status bp_layout_bytes(const struct bp_device *device, const struct bp_view *view,
                               uint64_t *out_bytes);

/* Fills an invocation for the conversion of a tensor of type `from` to type `to`, which has the
 * same dtype and shape. */
void bp_layout_invocation(struct bp_device *device, const struct bp_view *from,
                          const struct bp_view *to, struct bp_invocation *inv);
/* Creates a copy of a tensor in another layout. */
enum bp_status bp_layout_convert(struct bp_stream *stream, struct bp_tensor *from, uint32_t layout,
                                 struct bp_tensor **out_tensor);

#endif
