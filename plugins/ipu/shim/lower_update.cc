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

bool is_update(uint32_t op)
{
    return op == BP_IPU_OP_sgd || op == BP_IPU_OP_cache_write || op == BP_IPU_OP_momentum ||
           op == BP_IPU_OP_adam || op == BP_IPU_OP_scale;
}

namespace {

/* An input of one value, for arithmetic with tensors of a rank. */
Tensor one_value(const lowered &n, uint32_t i, std::size_t rank)
{
    return wide(n.l, n.in(i)).reshape(std::vector<std::size_t>(rank, 1));
}

Tensor times(lowering &l, const Tensor &x, double factor)
{
    return mul(l, x, number_like(l, x, factor));
}

/* x a + y (1 - a), with 1 - a in f64, as the operators' rule says. */
Tensor average(lowering &l, double a, const Tensor &x, const Tensor &y)
{
    return add(l, times(l, x, a), times(l, y, 1 - a));
}

/* 1 - beta to the number of the step. */
Tensor correction(const lowered &n, uint32_t i, std::size_t rank)
{
    Tensor power = one_value(n, i, rank);

    return sub(n.l, number_like(n.l, power, 1), power);
}

} // namespace

/* Half types in f32, as the operator's rule says. */
Tensor lower_sgd(const lowered &n)
{
    Tensor x = wide(n.l, n.in(0)), dx = wide(n.l, n.in(1));

    return narrow(n, sub(n.l, x, mul(n.l, dx, one_value(n, 2, x.rank()))));
}

Tensor lower_momentum(const lowered &n)
{
    lowering &l = n.l;
    Tensor x = wide(l, n.in(0)), g = wide(l, n.in(1)), step;

    if (n.real(1) != 0) g = add(l, g, times(l, x, n.real(1)));
    step = add(l, times(l, n.in(3), n.real(0)), g);
    n.result(1, step);
    if (n.number(0)) step = add(l, g, times(l, step, n.real(0)));
    return narrow(n, sub(l, x, mul(l, step, one_value(n, 2, x.rank()))));
}

/* With adamw the parameter shrinks by itself, and the gradient has no part of it. */
Tensor lower_adam(const lowered &n)
{
    lowering &l = n.l;
    Tensor x = wide(l, n.in(0)), g = wide(l, n.in(1)), rate = one_value(n, 2, x.rank());
    Tensor moment1, moment2, square, root;
    double decay = n.real(3);

    if (decay != 0 && n.number(0))
        x = mul(l, x, sub(l, number_like(l, rate, 1), times(l, rate, decay)));
    else if (decay != 0) g = add(l, g, times(l, x, decay));
    moment1 = average(l, n.real(0), n.in(3), g);
    moment2 = average(l, n.real(1), n.in(4), mul(l, g, g));
    n.result(1, moment1);
    n.result(2, moment2);
    n.result(3, times(l, n.in(5), n.real(0)));
    n.result(4, times(l, n.in(6), n.real(1)));
    square = moment2;
    if (n.has(7)) {
        Tensor stays = popops::map(l.graph, binary::LESS_THAN_EQUAL, moment2, n.in(7), l.program);
        square = select(l, stays, n.in(7), moment2);
        n.result(5, square);
    }
    square = div(l, square, correction(n, 6, x.rank()));
    root = popops::map(l.graph, popops::expr::UnaryOpType::SQRT, square, l.program);
    root = add(l, root, number_like(l, root, n.real(2)));
    moment1 = div(l, div(l, moment1, correction(n, 5, x.rank())), root);
    return narrow(n, sub(l, x, mul(l, moment1, rate)));
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
