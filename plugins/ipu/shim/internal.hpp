/* SPDX-License-Identifier: Apache-2.0 */
/* internal.hpp: declares the objects of the shim, and the functions that its files share. Read
 * next: shim.cc (devices, programs, runs), lower.cc (operators). */
#ifndef BP_IPU_SHIM_INTERNAL_HPP
#define BP_IPU_SHIM_INTERNAL_HPP

#include "shim.h"

#include <poplar/DeviceManager.hpp>
#include <poplar/Engine.hpp>
#include <poplar/Graph.hpp>
#include <poplar/Program.hpp>

#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

/* A graph that the shim cannot express, or that contradicts itself. */
struct unsupported : std::runtime_error {
    explicit unsupported(const std::string &text) : std::runtime_error(text)
    {
    }
};

/* The state while a graph is written for Poplar. */
struct lowering {
    const bp_ipu_graph &from;
    poplar::Graph &graph;
    poplar::program::Sequence &program;
    std::vector<poplar::Tensor> tensor; /* of each tensor of the graph, once it is written */
    std::vector<poplar::Tensor> faults; /* bool scalars: an index is beyond its axis */

    lowering(const bp_ipu_graph &from, poplar::Graph &graph, poplar::program::Sequence &program)
        : from(from), graph(graph), program(program), tensor(from.n_tensor)
    {
    }
};

/* A node with its operands. */
struct lowered {
    lowering &l;
    const bp_ipu_node &node;

    bool has(uint32_t i) const
    {
        return i < node.n_in && node.in[i] != BP_IPU_NONE;
    }
    const poplar::Tensor &in(uint32_t i) const;
    const bp_ipu_tensor &out(uint32_t i = 0) const
    {
        return l.from.tensor[node.out[i]];
    }
    /* Sets result i; the function of the operator returns result 0. */
    void result(uint32_t i, const poplar::Tensor &y) const;
    std::vector<std::size_t> shape() const;
    int64_t number(uint32_t i) const
    {
        return node.number[i];
    }
    double real(uint32_t i) const
    {
        return node.real[i];
    }
};

poplar::Type type_of(uint32_t type);
std::size_t type_bytes(uint32_t type);
std::vector<std::size_t> shape_of(const bp_ipu_tensor &t);

/* lower.cc: writes a node, whose inputs are written. */
void lower_node(lowering &l, const bp_ipu_node &node);
/* The work before the first node: adds the code of PopLibs to the graph. */
void lower_begin(poplar::Graph &graph);
/* Whether one of the faults is true: a bool scalar. */
poplar::Tensor lower_fault(lowering &l);

/* Elements by elements, of the node's program. */
poplar::Tensor number_like(lowering &l, const poplar::Tensor &x, double value);
/* x in f32 if it is a half type; narrow converts a result to the node's type. */
poplar::Tensor wide(lowering &l, const poplar::Tensor &x);
poplar::Tensor narrow(const lowered &n, const poplar::Tensor &y);
poplar::Tensor add(lowering &l, const poplar::Tensor &a, const poplar::Tensor &b);
poplar::Tensor sub(lowering &l, const poplar::Tensor &a, const poplar::Tensor &b);
poplar::Tensor mul(lowering &l, const poplar::Tensor &a, const poplar::Tensor &b);
poplar::Tensor div(lowering &l, const poplar::Tensor &a, const poplar::Tensor &b);
/* a where the condition is true, b elsewhere. */
poplar::Tensor select(lowering &l, const poplar::Tensor &condition, const poplar::Tensor &a,
                      const poplar::Tensor &b);

/* x with more elements, as broadcasting makes: lower_move.cc. */
poplar::Tensor expanded(const poplar::Tensor &x, const std::vector<std::size_t> &shape);
/* gelu by tanh: lower_activation.cc. */
poplar::Tensor gelu_tanh(const lowered &n);

/* Whether the results of an operator are variables of their own, never elements of an input, so that
 * they may replace inputs: lower_update.cc. */
bool is_update(uint32_t op);

/* Writers of the operators: of the files that the comment names. */
using lower_function = poplar::Tensor(const lowered &n);
/* lower.cc, lower_activation.cc, lower_erf.cc, lower_move.cc, lower_image.cc, lower_norm.cc,
 * lower_update.cc */
#define OP(name, number, real, text) lower_function lower_##name;
#include "ops.def"

#endif
