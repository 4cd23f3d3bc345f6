/* SPDX-License-Identifier: Apache-2.0 */
/* lower_move.cc: writes operators that move elements. Most of them only name elements of variables
 * again, and copy nothing: an output of the graph is copied when it is read. */
#include "internal.hpp"

#include <popops/Cast.hpp>
#include <popops/ElementWise.hpp>
#include <popops/Gather.hpp>
#include <popops/Reduce.hpp>

#include <algorithm>

using poplar::Tensor;
using binary = popops::expr::BinaryOpType;

Tensor expanded(const Tensor &x, const std::vector<std::size_t> &shape)
{
    std::vector<std::size_t> front(shape.size() - x.rank(), 1);
    Tensor y;

    front.insert(front.end(), x.shape().begin(), x.shape().end());
    y = x.reshape(front);
    for (unsigned i = 0; i < shape.size(); i++)
        if (front[i] != shape[i]) y = y.broadcast((unsigned)shape[i], i);
    return y;
}

Tensor lower_reshape(const lowered &n)
{
    return n.in(0).reshape(n.shape());
}

Tensor lower_expand(const lowered &n)
{
    return expanded(n.in(0), n.shape());
}

Tensor lower_transpose(const lowered &n)
{
    std::vector<unsigned> order;

    for (uint32_t i = 0; i < n.in(0).rank(); i++) order.push_back((unsigned)n.number(i));
    return n.in(0).dimShuffle(order);
}

Tensor lower_slice(const lowered &n)
{
    Tensor y = n.in(0);

    for (unsigned i = 0; i < n.in(0).rank(); i++) {
        y = y.slice((std::size_t)n.number(3 * i), (std::size_t)n.number(3 * i + 1), i);
        if (n.number(3 * i + 2) != 1) y = y.subSample((unsigned)n.number(3 * i + 2), i);
    }
    return y;
}

Tensor lower_split(const lowered &n)
{
    unsigned axis = (unsigned)n.number(0);
    std::size_t begin = 0;

    for (uint32_t i = 0; i < n.node.n_out; i++) {
        std::size_t end = begin + (std::size_t)n.out(i).shape[axis];
        n.result(i, n.in(0).slice(begin, end, axis));
        begin = end;
    }
    return n.l.tensor[(std::size_t)n.node.out[0]];
}

Tensor lower_concat(const lowered &n)
{
    std::vector<Tensor> parts;

    for (uint32_t i = 0; i < n.node.n_in; i++) parts.push_back(n.in(i));
    return poplar::concat(parts, (unsigned)n.number(0));
}

/* An index below zero counts from the end. One beyond the axis sets the fault, and takes place 0. */
Tensor lower_gather(const lowered &n)
{
    const Tensor &x = n.in(0);
    lowering &l = n.l;
    Tensor index = n.in(1), below, bad, at;
    unsigned axis = (unsigned)n.number(0);
    double extent = (double)x.dim(axis);
    std::vector<std::size_t> dims;

    at = index;
    if (!n.number(1)) {
        below = popops::map(l.graph, binary::LESS_THAN, index, number_like(l, index, 0), l.program);
        at = select(l, below, add(l, index, number_like(l, index, extent)), index);
    }
    bad = popops::map(
        l.graph, binary::LOGICAL_OR,
        popops::map(l.graph, binary::LESS_THAN, at, number_like(l, at, 0), l.program),
        popops::map(l.graph, binary::GREATER_THAN_EQUAL, at, number_like(l, at, extent), l.program),
        l.program);
    at = select(l, bad, number_like(l, at, 0), at);
    for (unsigned i = 0; i < bad.rank(); i++) dims.push_back(i);
    if (!dims.empty())
        bad = popops::reduce(l.graph, bad, dims, popops::Operation::LOGICAL_OR, l.program);
    l.faults.push_back(bad);
    at = popops::cast(l.graph, at, poplar::UNSIGNED_INT, l.program);
    Tensor y = popops::gather(l.graph, x, at, axis, l.program, popops::GatherParams(), n.node.name);
    if (!n.number(2)) return y;
    std::vector<std::size_t> shape = index.shape();
    shape.insert(shape.begin(), axis, 1);
    shape.resize(y.rank(), 1);
    Tensor zero = popops::map(l.graph, binary::EQUAL, index,
                              number_like(l, index, (double)n.number(2) - 1), l.program);
    return select(l, zero.reshape(shape), number_like(l, y, 0), y);
}

namespace {

enum pad_mode {
    VALUE,
    REFLECT,
    REPLICATE,
    CIRCULAR
};

/* The place within an axis that a place of its padded form has, or -1: the value. */
int64_t place_of(int64_t at, int64_t extent, int64_t mode)
{
    int64_t period = mode == REFLECT && extent > 1 ? 2 * (extent - 1) : extent;

    if (at >= 0 && at < extent) return at;
    if (mode == VALUE) return -1;
    if (mode == REPLICATE) return at < 0 ? 0 : extent - 1;
    at = (at % period + period) % period;
    return at < extent ? at : period - at;
}

/* One axis with places `begin` to `end`, as runs of places in a row, and runs of the value. */
Tensor padded_axis(const lowered &n, const Tensor &x, unsigned axis, int64_t begin, int64_t end)
{
    int64_t extent = (int64_t)x.dim(axis), mode = n.number(16), next;
    std::vector<Tensor> parts;

    for (int64_t at = begin; at < end; at = next) {
        int64_t from = place_of(at, extent, mode);
        next = at + 1;
        while (next < end && place_of(next, extent, mode) == (from < 0 ? -1 : from + (next - at)))
            next++;
        if (from >= 0) {
            parts.push_back(x.slice((std::size_t)from, (std::size_t)(from + (next - at)), axis));
            continue;
        }
        std::vector<std::size_t> shape = x.shape(), ones(x.rank(), 1);
        shape[axis] = (std::size_t)(next - at);
        parts.push_back(expanded(number_like(n.l, x, n.real(0)).reshape(ones), shape));
    }
    return poplar::concat(parts, axis);
}

} // namespace

Tensor lower_pad(const lowered &n)
{
    Tensor y = n.in(0);

    for (unsigned i = 0; i < n.in(0).rank(); i++) {
        int64_t before = n.number(2 * i), after = n.number(2 * i + 1);
        if (before || after) y = padded_axis(n, y, i, -before, (int64_t)y.dim(i) + after);
    }
    return y;
}

Tensor lower_fill(const lowered &n)
{
    Tensor c = n.l.graph.addConstant(type_of(n.out().type), std::vector<std::size_t>(), n.real(0));

    n.l.graph.setTileMapping(c, 0);
    return expanded(c, n.shape());
}
