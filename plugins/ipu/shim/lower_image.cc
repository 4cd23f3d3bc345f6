/* SPDX-License-Identifier: Apache-2.0 */
/* lower_image.cc: writes convolutions and pools. */
#include "internal.hpp"

#include <poplin/Convolution.hpp>
#include <popnn/Pooling.hpp>
#include <popops/Cast.hpp>
#include <popops/Reduce.hpp>

#include <cmath>

using poplar::Tensor;

namespace {

std::vector<std::size_t> field_of(const Tensor &x, std::size_t first)
{
    return std::vector<std::size_t>(x.shape().begin() + (std::ptrdiff_t)first, x.shape().end());
}

Tensor with_bias(const lowered &n, const Tensor &y)
{
    std::vector<std::size_t> shape(y.rank(), 1);

    if (!n.has(2)) return narrow(n, y);
    shape[1] = y.dim(1);
    return narrow(n, add(n.l, y, wide(n.l, n.in(2)).reshape(shape)));
}

/* With a bias, the result of half types is f32, and rounded once behind the sum. */
poplar::Type result_type(const lowered &n)
{
    return n.has(2) ? poplar::FLOAT : n.in(0).elementType();
}

/* Filters as [groups][outputs of a group][inputs of a group][kernel]. */
Tensor filters(const Tensor &w, std::size_t groups)
{
    std::vector<std::size_t> shape = {groups, w.dim(0) / groups};

    shape.insert(shape.end(), w.shape().begin() + 1, w.shape().end());
    return w.reshape(shape);
}

Tensor convolve(const lowered &n, const Tensor &x, const Tensor &w,
                const poplin::ConvParams &params)
{
    poplar::OptionFlags options;

    options.set("partialsType",
                n.l.from.fast && x.elementType() == poplar::HALF ? "half" : "float");
    return poplin::convolution(n.l.graph, x, w, params, false, n.l.program, n.node.name, options);
}

} // namespace

Tensor lower_conv(const lowered &n)
{
    const Tensor &x = n.in(0);
    std::size_t groups = (std::size_t)n.number(0), axes = (std::size_t)n.number(1);
    Tensor w = filters(n.in(1), groups);
    poplin::ConvParams params(x.elementType(), result_type(n), x.dim(0), field_of(x, 2),
                              field_of(w, 3), w.dim(2), w.dim(1), groups);

    for (unsigned k = 0; k < axes; k++) {
        params.outputTransform.stride[k] = (unsigned)n.number(2 + 4 * k);
        params.kernelTransform.dilation[k] = (unsigned)n.number(3 + 4 * k);
        params.inputTransform.paddingLower[k] = (unsigned)n.number(4 + 4 * k);
        params.inputTransform.paddingUpper[k] = (unsigned)n.number(5 + 4 * k);
    }
    return with_bias(n, convolve(n, x, w, params));
}

/* A convolution of x with zeros between its elements, by mirrored filters. Padding that a
 * convolution would add is what is cut off from the result of the transposed one: if more is cut
 * off than the filter reaches, the result is sliced. */
Tensor lower_conv_transpose(const lowered &n)
{
    const Tensor &x = n.in(0);
    std::size_t groups = (std::size_t)n.number(0), axes = (std::size_t)n.number(1);
    Tensor w = filters(n.in(1), groups), y;
    std::vector<unsigned> order = {0, 2, 1};
    std::vector<int64_t> cut(2 * axes, 0);

    for (unsigned k = 3; k < w.rank(); k++) order.push_back(k);
    w = w.dimShuffle(order);
    poplin::ConvParams params(x.elementType(), result_type(n), x.dim(0), field_of(x, 2),
                              field_of(w, 3), w.dim(2), w.dim(1), groups);
    for (unsigned k = 0; k < axes; k++) {
        int64_t stride = n.number(2 + 4 * k), dilation = n.number(3 + 4 * k);
        int64_t reach = ((int64_t)w.dim(3 + k) - 1) * dilation;
        int64_t lower = reach - n.number(4 + 4 * k);
        int64_t upper = reach - n.number(5 + 4 * k) + n.number(2 + 4 * (uint32_t)axes + k);
        params.inputTransform.dilation[k] = (unsigned)stride;
        params.kernelTransform.dilation[k] = (unsigned)dilation;
        params.kernelTransform.flip[k] = true;
        params.inputTransform.paddingLower[k] = (unsigned)(lower > 0 ? lower : 0);
        params.inputTransform.paddingUpper[k] = (unsigned)(upper > 0 ? upper : 0);
        cut[2 * k] = lower < 0 ? -lower : 0;
        cut[2 * k + 1] = upper < 0 ? -upper : 0;
    }
    y = convolve(n, x, w, params);
    for (unsigned k = 0; k < axes; k++)
        y = y.slice((std::size_t)cut[2 * k], y.dim(k + 2) - (std::size_t)cut[2 * k + 1], k + 2);
    return with_bias(n, y);
}

/* ---- pools ---- */

namespace {

/* The numbers of a pool along one axis. */
struct window {
    int64_t extent, stride, dilation, lower, upper; /* upper: with which the last window is whole */
    int64_t counted; /* of the padding behind, as the attributes have it */
};

window window_of(const lowered &n, uint32_t k)
{
    const int64_t *number = n.node.number + 1 + 6 * k;

    return {number[0], number[1], number[2], number[3], number[4], number[5]};
}

/* x with a number around its axis. */
Tensor padded(lowering &l, const Tensor &x, unsigned axis, int64_t lower, int64_t upper,
              double value)
{
    Tensor y = x;

    for (int side = 0; side < 2; side++) {
        std::vector<std::size_t> shape = y.shape(), ones(y.rank(), 1);
        int64_t extent = side ? upper : lower;
        if (extent <= 0) continue;
        shape[axis] = (std::size_t)extent;
        Tensor border = expanded(number_like(l, x, value).reshape(ones), shape);
        y = side ? poplar::concat({y, border}, axis) : poplar::concat({border, y}, axis);
    }
    return y;
}

/* A pool that PopLibs has: no dilation. */
Tensor library_pool(const lowered &n, const Tensor &x, popnn::PoolingType type)
{
    std::vector<std::size_t> extent;
    std::vector<unsigned> stride;
    std::vector<int> lower, upper;

    for (uint32_t k = 0; k < n.number(0); k++) {
        window w = window_of(n, k);
        extent.push_back((std::size_t)w.extent);
        stride.push_back((unsigned)w.stride);
        lower.push_back((int)w.lower);
        upper.push_back((int)(w.upper > 0 ? w.upper : 0));
    }
    popnn::pooling::PoolParams params(type, field_of(x, 2), extent, stride, lower, upper, x.dim(1),
                                      x.dim(0), x.elementType());
    return popnn::pooling::pool(n.l.graph, params, x, n.l.program, n.node.name);
}

/* The places of one axis that are first, second, .. in each window, combined: any dilation. */
Tensor along(const lowered &n, const Tensor &x, uint32_t k, popops::Operation op, double border)
{
    window w = window_of(n, k);
    unsigned axis = k + 2;
    std::size_t places = n.shape()[axis];
    Tensor from = padded(n.l, x, axis, w.lower, w.upper, border);
    std::vector<Tensor> parts;

    for (int64_t i = 0; i < w.extent; i++) {
        std::size_t first = (std::size_t)(i * w.dilation);
        Tensor part = from.slice(first, first + (places - 1) * (std::size_t)w.stride + 1, axis)
                          .subSample((unsigned)w.stride, axis);
        std::vector<std::size_t> shape = part.shape();
        shape.insert(shape.begin(), 1);
        parts.push_back(part.reshape(shape));
    }
    return popops::reduce(n.l.graph, poplar::concat(parts, 0), {0}, op, n.l.program);
}

/* The places from `begin` to `end` that window o has. */
struct cover {
    int64_t first, count;
};

cover covered(const window &w, std::size_t o, int64_t begin, int64_t end)
{
    int64_t at = (int64_t)o * w.stride - w.lower;
    int64_t skipped = at < begin ? (begin - at + w.dilation - 1) / w.dilation : 0;
    int64_t count = end <= at ? 0 : (end - at + w.dilation - 1) / w.dilation;

    count = std::min(count, w.extent) - skipped;
    return {at + skipped * w.dilation, std::max<int64_t>(count, 0)};
}

/* The windows of one axis one after the other: windows may be far larger than the field. */
Tensor one_by_one(const lowered &n, const Tensor &x, uint32_t k, popops::Operation op,
                  double border)
{
    window w = window_of(n, k);
    unsigned axis = k + 2;
    std::vector<std::size_t> shape = x.shape(), ones(x.rank(), 1);
    std::vector<Tensor> parts;

    shape[axis] = 1;
    for (std::size_t o = 0; o < n.shape()[axis]; o++) {
        cover c = covered(w, o, 0, (int64_t)x.dim(axis));
        if (!c.count) {
            parts.push_back(expanded(number_like(n.l, x, border).reshape(ones), shape));
            continue;
        }
        Tensor part = x.slice((std::size_t)c.first,
                              (std::size_t)(c.first + (c.count - 1) * w.dilation + 1), axis);
        if (c.count > 1) {
            part = part.subSample((unsigned)w.dilation, axis);
            part = popops::reduce(n.l.graph, part, {axis}, op, n.l.program).reshape(shape);
        }
        parts.push_back(part);
    }
    return poplar::concat(parts, axis);
}

/* How many counted places the windows of an axis have, to divide their sums by. */
Tensor counts(const lowered &n, const Tensor &x, uint32_t k, bool with_padding)
{
    window w = window_of(n, k);
    std::size_t places = n.shape()[k + 2];
    int64_t extent = (int64_t)x.dim(k + 2);
    int64_t begin = with_padding ? -w.lower : 0, end = with_padding ? extent + w.counted : extent;
    std::vector<float> count(places, 0);
    std::vector<std::size_t> shape(x.rank(), 1);
    Tensor c;

    for (std::size_t o = 0; o < places; o++) count[o] = (float)covered(w, o, begin, end).count;
    shape[k + 2] = places;
    c = n.l.graph.addConstant(poplar::FLOAT, shape, poplar::ArrayRef<float>(count));
    n.l.graph.setTileMapping(c, 0);
    return c;
}

/* Windows of different extents: place o of n takes floor(o extent / n) to ceil((o + 1) extent / n). */
Tensor adaptive(const lowered &n, const Tensor &x, popops::Operation op, bool is_mean)
{
    Tensor y = x;

    for (uint32_t k = 0; k < n.number(0); k++) {
        unsigned axis = k + 2;
        std::size_t places = n.shape()[axis], extent = y.dim(axis);
        std::vector<Tensor> parts;
        for (std::size_t o = 0; o < places; o++) {
            std::size_t begin = o * extent / places, end = ((o + 1) * extent + places - 1) / places;
            Tensor part = y.slice(begin, end, axis);
            std::vector<std::size_t> shape = part.shape();
            shape[axis] = 1;
            if (end - begin > 1)
                part = popops::reduce(n.l.graph, part, {axis}, op, n.l.program).reshape(shape);
            if (is_mean) part = div(n.l, part, number_like(n.l, part, (double)(end - begin)));
            parts.push_back(part);
        }
        y = poplar::concat(parts, axis);
    }
    return y;
}

enum pool_mode {
    PLAIN = 0,
    ADAPTIVE = 1,
    GENERAL = 2,
    FAR = 3
};

/* The windows of an axis in the modes GENERAL and FAR. */
Tensor windows(const lowered &n, const Tensor &x, uint32_t k, popops::Operation op, double border)
{
    return n.number(19) == FAR ? one_by_one(n, x, k, op, border) : along(n, x, k, op, border);
}

} // namespace

Tensor lower_max_pool(const lowered &n)
{
    Tensor y = n.in(0);

    if (n.number(19) == ADAPTIVE) return adaptive(n, y, popops::Operation::MAX, false);
    if (n.number(19) == PLAIN) return library_pool(n, y, popnn::PoolingType::MAX);
    for (uint32_t k = 0; k < n.number(0); k++)
        y = windows(n, y, k, popops::Operation::MAX, -INFINITY);
    return y;
}

Tensor lower_avg_pool(const lowered &n)
{
    Tensor x = wide(n.l, n.in(0)), y = x;

    if (n.number(19) == PLAIN) return narrow(n, library_pool(n, x, popnn::PoolingType::AVG));
    if (n.number(19) == ADAPTIVE) y = adaptive(n, x, popops::Operation::ADD, n.real(0) == 0);
    else
        for (uint32_t k = 0; k < n.number(0); k++) y = windows(n, y, k, popops::Operation::ADD, 0);
    if (n.real(0) != 0) return narrow(n, div(n.l, y, number_like(n.l, y, n.real(0))));
    for (uint32_t k = 0; k < n.number(0) && n.number(19) != ADAPTIVE; k++)
        y = div(n.l, y, counts(n, x, k, n.number(20)));
    return narrow(n, y);
}
