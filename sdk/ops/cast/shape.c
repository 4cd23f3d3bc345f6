/* SPDX-License-Identifier: Apache-2.0 */
/* shape.c: has the shape rules of cast and bit_cast. */
#include <call/shape.h>

#include <backplane/attrs.h>
#include <inttypes.h>

enum bp_status bp_infer_cast(struct bp_invocation *inv)
{
    const struct bp_cast_attrs *a = inv->attrs;
    const struct bp_opinfo *op = &inv->row->info;

    if (a->to > 63 || !(op->types[BP_VAR_U] >> a->to & 1))
        return bp_error(BP_ERR_INVALID, "cast: attribute to is %s, which cast does not make",
                        bp_dtype_name((uint32_t)a->to));
    if (a->round < BP_CAST_ROUND_NEAREST || a->round > BP_CAST_ROUND_DOWN)
        return bp_error(BP_ERR_INVALID, "cast: attribute round is %" PRId64 ", expected 0 to 2",
                        a->round);
    bp_shape_copy(&inv->out[0], bp_invocation_in(inv, 0));
    inv->out[0].dtype = (uint32_t)a->to;
    return BP_OK;
}

enum bp_status bp_infer_bit_cast(struct bp_invocation *inv)
{
    const struct bp_bit_cast_attrs *a = inv->attrs;
    const struct bp_opinfo *op = &inv->row->info;
    uint32_t from = bp_invocation_in(inv, 0)->dtype, to = (uint32_t)a->to;

    if (a->to > 63 || !(op->types[BP_VAR_U] >> a->to & 1))
        return bp_error(BP_ERR_INVALID,
                        "bit_cast: attribute to is %s, which bit_cast does not make",
                        bp_dtype_name(to));
    if (bp_dtype_bits(from) != bp_dtype_bits(to))
        return bp_error(BP_ERR_INVALID,
                        "bit_cast: attribute to is %s, of %u bits, expected a dtype of %u bits as "
                        "x, which is %s",
                        bp_dtype_name(to), bp_dtype_bits(to), bp_dtype_bits(from),
                        bp_dtype_name(from));
    bp_shape_copy(&inv->out[0], bp_invocation_in(inv, 0));
    inv->out[0].dtype = to;
    return BP_OK;
}
