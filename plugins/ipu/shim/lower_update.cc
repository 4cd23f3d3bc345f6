/* SPDX-License-Identifier: Apache-2.0 */
/* lower_update.cc: writes operators whose results replace inputs that stay on the device. A result
 * is a variable of its own: the end of the program copies it over the input. */
#include "internal.hpp"

#include <popops/Cast.hpp>
#include <popops/ElementWise.hpp>
#include <popops/Gather.hpp>
#include <popops/Reduce.hpp>
#include <poputil/TileMapping.hpp>

using poplar::Tensor;
using binary = popops::expr::BinaryOpType;

/* Half types in f32, as the operator's rule says. */
Tensor lower_sgd(const lowered &n)
{
    Tensor x = wide(n.l, n.in(0)), dx = wide(n.l, n.in(1)), rate = wide(n.l, n.in(2));

    rate = rate.reshape(std::vector<std::size_t>(x.rank(), 1));
    return narrow(n, sub(n.l, x, mul(n.l, dx, rate)));
}

namespace {

/* The places along an axis of a cache, and where an update is written. */
struct writing {
    lowering &l;
    unsigned axis;
    std::size_t extent, count; /* of the cache and of the update, along the axis */
    bool circular;
};

Tensor compare(lowering &l, binary op, const Tensor &x, double value)
{
    return popops::map(l.graph, op, x, number_like(l, x, value), l.program);
}

Tensor either(lowering &l, const Tensor &a, const Tensor &b)
{
    return popops::map(l.graph, binary::LOGICAL_OR, a, b, l.program);
}

/* 0, 1, 2, .. */
Tensor places(const writing &w)
{
    std::vector<int> values(w.extent);
    Tensor c;

    for (std::size_t i = 0; i < w.extent; i++) values[i] = (int)i;
    c = w.l.graph.addConstant(poplar::INT, std::vector<std::size_t>{w.extent},
                              poplar::ArrayRef<int>(values));
    poputil::mapTensorLinearly(w.l.graph, c);
    return c;
}

/* A cache with an update from place `first` on, of shape 1. If the place is not valid, nothing is
 * written, and the fault is set. */
Tensor written(const writing &w, const Tensor &cache, const Tensor &update, Tensor first)
{
    lowering &l = w.l;
    std::vector<std::size_t> shape(cache.rank(), 1);
    Tensor bad = compare(l, binary::LESS_THAN, first, 0), at, outside, below, rows;

    if (w.circular)
        first = popops::map(l.graph, binary::REMAINDER, first,
                            number_like(l, first, (double)w.extent), l.program);
    else
        bad = either(l, bad, compare(l, binary::GREATER_THAN, first, (double)(w.extent - w.count)));
    l.faults.push_back(bad.reshape(std::vector<std::size_t>()));
    at = sub(l, places(w), select(l, bad, number_like(l, first, 0), first));
    below = compare(l, binary::LESS_THAN, at, 0);
    if (w.circular) at = select(l, below, add(l, at, number_like(l, at, (double)w.extent)), at);
    outside = compare(l, binary::GREATER_THAN_EQUAL, at, (double)w.count);
    if (!w.circular) outside = either(l, outside, below);
    outside = either(l, outside, bad);
    at = popops::cast(l.graph, select(l, outside, number_like(l, at, 0), at), poplar::UNSIGNED_INT,
                      l.program);
    rows = popops::gather(l.graph, update, at, w.axis, l.program, popops::GatherParams());
    shape[w.axis] = w.extent;
    return select(l, outside.reshape(shape), cache, rows);
}

/* In a variable of its own. */
Tensor copied(const lowered &n, const Tensor &x)
{
    Tensor y = n.l.graph.addVariable(x.elementType(), x.shape(), n.node.name);

    poputil::mapTensorLinearly(n.l.graph, y);
    n.l.program.add(poplar::program::Copy(x, y));
    return y;
}

} // namespace

Tensor lower_cache_write(const lowered &n)
{
    unsigned axis = (unsigned)n.number(0);
    const Tensor &cache = n.in(0);
    std::vector<Tensor> parts;

    if (!n.has(1)) return copied(n, cache);
    const Tensor &update = n.in(1);
    writing w = {n.l, axis, cache.dim(axis), update.dim(axis), n.number(1) != 0};
    if (!n.has(2))
        return copied(n, poplar::concat({update, cache.slice(w.count, w.extent, axis)}, axis));
    Tensor first = n.in(2).reshape({n.in(2).numElements()});
    if (!n.in(2).rank()) return written(w, cache, update, first);
    for (std::size_t i = 0; i < cache.dim(0); i++)
        parts.push_back(
            written(w, cache.slice(i, i + 1), update.slice(i, i + 1), first.slice(i, i + 1)));
    return poplar::concat(parts, 0);
}
