/* SPDX-License-Identifier: Apache-2.0 */
/* library.cc: implements the functions of popops, poplin and popnn: each checks its arguments and
 * adds a step to the program. */
#include "internal.hpp"

#include <poplin/Convolution.hpp>
#include <poplin/MatMul.hpp>
#include <poplin/codelets.hpp>
#include <popnn/NonLinearity.hpp>
#include <popnn/Pooling.hpp>
#include <popnn/codelets.hpp>
#include <popops/Cast.hpp>
#include <popops/ElementWise.hpp>
#include <popops/Gather.hpp>
#include <popops/Reduce.hpp>
#include <popops/codelets.hpp>

#include <algorithm>

using poplar::Tensor;
using poplar::Type;
using poputil::poplibs_error;
using Shape = std::vector<std::size_t>;

namespace poplar {

Tensor standin_add(Graph &graph, program::Sequence &program, const char *name,
                   const std::vector<std::int64_t> &number, const std::vector<Tensor> &in,
                   const Type &type, const Shape &shape)
{
    auto step = std::make_shared<Step>();
    Tensor out = standin_result(graph, type, shape);

    step->name = name;
    step->number = number;
    for (const Tensor &t : in) {
        if (t.graph != graph.data)
            throw poplibs_error(std::string(name) + ": a tensor of another graph");
        step->in.push_back(standin_operand(t));
    }
    step->out = standin_operand(out);
    program.steps.push_back(step);
    return out;
}

void standin_need(const Graph &graph, const char *library)
{
    if (!graph.data->codelets.count(library))
        throw poplar_error(std::string("there is no codelet of ") + library +
                           ": addCodelets was not called");
}

} // namespace poplar

void popops::addCodelets(poplar::Graph &graph)
{
    graph.data->codelets.insert("popops");
}

void poplin::addCodelets(poplar::Graph &graph)
{
    graph.data->codelets.insert("poplin");
}

void popnn::addCodelets(poplar::Graph &graph)
{
    graph.data->codelets.insert("popnn");
}

/* ---- popops ---- */

namespace {

bool is_float(const Type &type)
{
    return type == poplar::FLOAT || type == poplar::HALF;
}

enum Kind {
    FLOATS = 1,
    INTS = 2,
    BOOLS = 4,
    TEST = 8 /* the result is bool */
};

void want_kind(const char *name, const Type &type, int kinds)
{
    int kind = is_float(type)                                        ? FLOATS
               : type == poplar::BOOL                                ? BOOLS
               : type == poplar::INT || type == poplar::UNSIGNED_INT ? INTS
                                                                     : 0;

    if (!(kind & kinds)) throw poplibs_error(std::string(name) + ": not for " + type.toString());
}

/* The shape to which tensors broadcast. */
Shape broadcast_shape(const char *name, const std::vector<Tensor> &ts)
{
    Shape shape;

    for (const Tensor &t : ts) {
        if (t.rank() > shape.size()) shape.insert(shape.begin(), t.rank() - shape.size(), 1);
        for (std::size_t k = 0; k < t.rank(); k++) {
            std::size_t &extent = shape[shape.size() - t.rank() + k];
            if (extent != 1 && t.dim((unsigned)k) != 1 && extent != t.dim((unsigned)k))
                throw poplibs_error(std::string(name) + ": shapes do not match");
            extent = std::max(extent, t.dim((unsigned)k));
        }
    }
    return shape;
}

struct UnaryRow {
    popops::expr::UnaryOpType type;
    const char *name; /* in docs/ops.md */
    int kinds;
};
using U = popops::expr::UnaryOpType;
const UnaryRow unary_rows[] = {
    {U::ABSOLUTE, "abs", FLOATS | INTS},
    {U::ASIN, "asin", FLOATS},
    {U::BITWISE_NOT, "bitwise_not", INTS},
    {U::CEIL, "ceil", FLOATS},
    {U::COS, "cos", FLOATS},
    {U::EXPONENT, "exp", FLOATS},
    {U::EXPONENT_MINUS_ONE, "expm1", FLOATS},
    {U::FLOOR, "floor", FLOATS},
    {U::INVERSE, "reciprocal", FLOATS},
    {U::IS_FINITE, "isfinite", FLOATS | TEST},
    {U::IS_INF, "isinf", FLOATS | TEST},
    {U::IS_NAN, "isnan", FLOATS | TEST},
    {U::LOGARITHM, "log", FLOATS},
    {U::LOGARITHM_ONE_PLUS, "log1p", FLOATS},
    {U::LOGICAL_NOT, "logical_not", BOOLS | TEST},
    {U::NEGATE, "neg", FLOATS | INTS},
    {U::SIGNUM, "sign", FLOATS | INTS},
    {U::SIN, "sin", FLOATS},
    {U::TAN, "tan", FLOATS},
    {U::TANH, "tanh", FLOATS},
    {U::SQRT, "sqrt", FLOATS},
    {U::SQUARE, "square", FLOATS | INTS},
    {U::SIGMOID, "sigmoid", FLOATS},
    {U::RSQRT, "rsqrt", FLOATS},
};

struct BinaryRow {
    popops::expr::BinaryOpType type;
    const char *name;
    int kinds;
};
using B = popops::expr::BinaryOpType;
/* How the library's maximum and minimum treat NaN is not documented: the stand-in loses it. */
const BinaryRow binary_rows[] = {
    {B::ADD, "add", FLOATS | INTS},
    {B::ATAN2, "atan2", FLOATS},
    {B::BITWISE_AND, "bitwise_and", INTS},
    {B::BITWISE_OR, "bitwise_or", INTS},
    {B::BITWISE_XOR, "bitwise_xor", INTS},
    {B::DIVIDE, "div", FLOATS | INTS},
    {B::EQUAL, "equal", FLOATS | INTS | BOOLS | TEST},
    {B::GREATER_THAN_EQUAL, "greater_equal", FLOATS | INTS | BOOLS | TEST},
    {B::GREATER_THAN, "greater_than", FLOATS | INTS | BOOLS | TEST},
    {B::LESS_THAN_EQUAL, "less_equal", FLOATS | INTS | BOOLS | TEST},
    {B::LOGICAL_AND, "logical_and", BOOLS | TEST},
    {B::LOGICAL_OR, "logical_or", BOOLS | TEST},
    {B::LESS_THAN, "less_than", FLOATS | INTS | BOOLS | TEST},
    {B::MAXIMUM, "fmax", FLOATS | INTS},
    {B::MINIMUM, "fmin", FLOATS | INTS},
    {B::MULTIPLY, "mul", FLOATS | INTS},
    {B::NOT_EQUAL, "not_equal", FLOATS | INTS | BOOLS | TEST},
    {B::POWER, "pow", FLOATS},
    {B::REMAINDER, "fmod", FLOATS | INTS},
    {B::SUBTRACT, "sub", FLOATS | INTS},
};

} // namespace

Tensor popops::map(poplar::Graph &graph, expr::UnaryOpType op, const Tensor &a,
                   poplar::program::Sequence &program, const poplar::DebugContext &,
                   const poplar::OptionFlags &)
{
    poplar::standin_call("popops.map");
    poplar::standin_need(graph, "popops");
    for (const UnaryRow &row : unary_rows) {
        if (row.type != op) continue;
        want_kind(row.name, a.elementType(), row.kinds);
        return poplar::standin_add(graph, program, row.name, {}, {a},
                                   row.kinds & TEST ? poplar::BOOL : a.elementType(), a.shape());
    }
    throw poplibs_error("map: the stand-in lacks this unary operator");
}

Tensor popops::map(poplar::Graph &graph, expr::BinaryOpType op, const Tensor &a, const Tensor &b,
                   poplar::program::Sequence &program, const poplar::DebugContext &,
                   const poplar::OptionFlags &)
{
    poplar::standin_call("popops.map");
    poplar::standin_need(graph, "popops");
    for (const BinaryRow &row : binary_rows) {
        if (row.type != op) continue;
        want_kind(row.name, a.elementType(), row.kinds);
        if (a.elementType() != b.elementType())
            throw poplibs_error(std::string(row.name) + ": " + a.elementType().toString() +
                                " and " + b.elementType().toString());
        return poplar::standin_add(graph, program, row.name, {}, {a, b},
                                   row.kinds & TEST ? poplar::BOOL : a.elementType(),
                                   broadcast_shape(row.name, {a, b}));
    }
    throw poplibs_error("map: the stand-in lacks this binary operator");
}

/* SELECT takes the condition last. */
Tensor popops::map(poplar::Graph &graph, expr::TernaryOpType op, const Tensor &a, const Tensor &b,
                   const Tensor &c, poplar::program::Sequence &program,
                   const poplar::DebugContext &, const poplar::OptionFlags &)
{
    poplar::standin_call("popops.map");
    poplar::standin_need(graph, "popops");
    if (op != expr::TernaryOpType::SELECT)
        throw poplibs_error("map: the stand-in lacks this ternary operator");
    if (a.elementType() != b.elementType()) throw poplibs_error("select: different types");
    if (c.elementType() != poplar::BOOL) throw poplibs_error("select: the condition is not bool");
    return poplar::standin_add(graph, program, "where", {}, {c, a, b}, a.elementType(),
                               broadcast_shape("select", {a, b, c}));
}

Tensor popops::cast(poplar::Graph &graph, const Tensor &source, const Type &type,
                    poplar::program::Sequence &program, const poplar::DebugContext &)
{
    poplar::standin_call("popops.cast");
    poplar::standin_need(graph, "popops");
    return poplar::standin_add(graph, program, "cast", {}, {source}, type, source.shape());
}

Tensor popops::reduce(poplar::Graph &graph, const Tensor &in, const Shape &dims,
                      ReduceParams params, poplar::program::Sequence &program,
                      const poplar::DebugContext &, const poplar::OptionFlags &)
{
    static const char *const names[] = {"sum", "prod", "min", "max", "all", "any"};
    bool logical = params.op == Operation::LOGICAL_AND || params.op == Operation::LOGICAL_OR;
    Shape shape;
    std::vector<std::int64_t> axes(dims.begin(), dims.end());

    poplar::standin_call("popops.reduce");
    poplar::standin_need(graph, "popops");
    if (params.op == Operation::SQUARE_ADD || params.update)
        throw poplibs_error("reduce: the stand-in lacks it");
    want_kind("reduce", in.elementType(), logical ? BOOLS : FLOATS | INTS);
    for (std::size_t axis : dims)
        if (axis >= in.rank() || std::count(dims.begin(), dims.end(), axis) != 1)
            throw poplibs_error("reduce: dimensions that the tensor lacks, or one twice");
    for (std::size_t k = 0; k < in.rank(); k++)
        if (!std::count(dims.begin(), dims.end(), k)) shape.push_back(in.dim((unsigned)k));
    if (dims.empty()) throw poplibs_error("reduce: no dimensions");
    return poplar::standin_add(graph, program, names[(int)params.op], axes, {in}, in.elementType(),
                               shape);
}

Tensor popops::gather(poplar::Graph &graph, const Tensor &input, const Tensor &indices,
                      unsigned axis, poplar::program::Sequence &program, GatherParams,
                      const poplar::DebugContext &)
{
    Shape shape = input.shape();

    poplar::standin_call("popops.gather");
    poplar::standin_need(graph, "popops");
    if (indices.elementType() != poplar::UNSIGNED_INT)
        throw poplibs_error("gather: indices must be of type unsigned int");
    if (axis >= input.rank()) throw poplibs_error("gather: there is no such axis");
    shape.erase(shape.begin() + axis);
    shape.insert(shape.begin() + axis, indices.shape().begin(), indices.shape().end());
    return poplar::standin_add(graph, program, "gather", {(std::int64_t)axis}, {input, indices},
                               input.elementType(), shape);
}

/* ---- poplin ---- */

Tensor poplin::matMulGrouped(poplar::Graph &graph, const Tensor &a, const Tensor &b,
                             poplar::program::Sequence &program, const Type &type,
                             const poplar::DebugContext &, const poplar::OptionFlags &options,
                             matmul::PlanningCache *)
{
    poplar::standin_call("poplin.matMulGrouped");
    poplar::standin_need(graph, "poplin");
    for (const auto &option : options.flags)
        if (option.first != "partialsType" || (option.second != "float" && option.second != "half"))
            throw poplar::poplar_error("matMulGrouped: option " + option.first);
    if (a.rank() != 3 || b.rank() != 3 || a.dim(0) != b.dim(0) || a.dim(2) != b.dim(1))
        throw poplibs_error("matMulGrouped: shapes do not match");
    if (!is_float(a.elementType()) || a.elementType() != b.elementType() || type != a.elementType())
        throw poplibs_error("matMulGrouped: types do not match");
    return poplar::standin_add(graph, program, "matmul", {}, {a, b}, type,
                               {a.dim(0), a.dim(1), b.dim(2)});
}

poplin::ConvParams::InputTransform::InputTransform(std::size_t axes)
    : truncationLower(axes, 0), truncationUpper(axes, 0), dilation(axes, 1), paddingLower(axes, 0),
      paddingUpper(axes, 0), flip(axes, false)
{
}

poplin::ConvParams::OutputTransform::OutputTransform(std::size_t axes)
    : truncationLower(axes, 0), truncationUpper(axes, 0), stride(axes, 1), paddingLower(axes, 0),
      paddingUpper(axes, 0)
{
}

poplin::ConvParams::ConvParams(Type inputType, Type outputType, std::size_t batchSize,
                               Shape inputFieldShape, Shape kernelShape, std::size_t inputChannels,
                               std::size_t outputChannels, std::size_t numConvGroups)
    : inputType(inputType), outputType(outputType), batchSize(batchSize),
      inputFieldShape(inputFieldShape), kernelShape(kernelShape),
      inputChannelsPerConvGroup(inputChannels), outputChannelsPerConvGroup(outputChannels),
      numConvGroups(numConvGroups), inputTransform(inputFieldShape.size()),
      kernelTransform(inputFieldShape.size()), outputTransform(inputFieldShape.size())
{
}

std::size_t poplin::ConvParams::getOutputSize(unsigned k) const
{
    std::size_t x = (inputFieldShape[k] - 1) * inputTransform.dilation[k] + 1 +
                    inputTransform.paddingLower[k] + inputTransform.paddingUpper[k];
    std::size_t w = (kernelShape[k] - 1) * kernelTransform.dilation[k] + 1;

    if (x < w) throw poplibs_error("ConvParams: the kernel is larger than the field");
    return (x - w) / outputTransform.stride[k] + 1;
}

namespace {

template <typename T> bool all_are(const std::vector<T> &v, T value)
{
    return std::all_of(v.begin(), v.end(), [&](T x) { return x == value; });
}

/* The stand-in computes these transforms only; the shim needs no others. */
void want_known(const poplin::ConvParams &p)
{
    if (!all_are(p.inputTransform.truncationLower, 0u) ||
        !all_are(p.inputTransform.truncationUpper, 0u) ||
        !all_are(p.kernelTransform.truncationLower, 0u) ||
        !all_are(p.kernelTransform.truncationUpper, 0u) ||
        !all_are(p.kernelTransform.paddingLower, 0u) ||
        !all_are(p.kernelTransform.paddingUpper, 0u) ||
        !all_are(p.outputTransform.truncationLower, 0u) ||
        !all_are(p.outputTransform.truncationUpper, 0u) ||
        !all_are(p.outputTransform.paddingLower, 0u) ||
        !all_are(p.outputTransform.paddingUpper, 0u) || !all_are(p.inputTransform.flip, false))
        throw poplibs_error("convolution: the stand-in lacks this transform");
}

} // namespace

/* Numbers of the step: axes, groups, then for each axis the input's dilation, the paddings, the
 * kernel's dilation, whether it is flipped, and the stride. */
Tensor poplin::convolution(poplar::Graph &graph, const Tensor &in, const Tensor &weights,
                           const ConvParams &p, bool transposeAndFlipWeights,
                           poplar::program::Sequence &program, const poplar::DebugContext &,
                           const poplar::OptionFlags &, PlanningCache *)
{
    std::size_t axes = p.inputFieldShape.size();
    Shape x = {p.batchSize, p.inputChannelsPerConvGroup * p.numConvGroups};
    Shape w = {p.numConvGroups, p.outputChannelsPerConvGroup, p.inputChannelsPerConvGroup};
    Shape y = {p.batchSize, p.outputChannelsPerConvGroup * p.numConvGroups};
    std::vector<std::int64_t> number = {(std::int64_t)axes, (std::int64_t)p.numConvGroups};

    poplar::standin_call("poplin.convolution");
    poplar::standin_need(graph, "poplin");
    if (transposeAndFlipWeights) throw poplibs_error("convolution: the stand-in lacks it");
    want_known(p);
    x.insert(x.end(), p.inputFieldShape.begin(), p.inputFieldShape.end());
    w.insert(w.end(), p.kernelShape.begin(), p.kernelShape.end());
    if (in.shape() != x)
        throw poplibs_error("convolution: the input has another shape than params");
    if (weights.shape() != w)
        throw poplibs_error("convolution: the weights have another shape than params");
    if (in.elementType() != p.inputType || weights.elementType() != p.inputType ||
        !is_float(p.inputType) || !is_float(p.outputType))
        throw poplibs_error("convolution: types do not match");
    for (unsigned k = 0; k < axes; k++) {
        y.push_back(p.getOutputSize(k));
        for (unsigned v : {p.inputTransform.dilation[k], p.inputTransform.paddingLower[k],
                           p.inputTransform.paddingUpper[k], p.kernelTransform.dilation[k],
                           (unsigned)p.kernelTransform.flip[k], p.outputTransform.stride[k]})
            number.push_back(v);
    }
    return poplar::standin_add(graph, program, "conv", number, {in, weights}, p.outputType, y);
}

/* ---- popnn ---- */

Tensor popnn::nonLinearity(poplar::Graph &graph, NonLinearityType type, Tensor t,
                           poplar::program::Sequence &program, const poplar::DebugContext &)
{
    static const char *const names[] = {"sigmoid", "relu",    "tanh", "gelu",
                                        "softmax", "softmax", NULL};
    const char *name = names[(int)type];

    poplar::standin_call("popnn.nonLinearity");
    poplar::standin_need(graph, "popnn");
    if (!name) throw poplibs_error("nonLinearity: the stand-in lacks it");
    if (!is_float(t.elementType())) throw poplibs_error("nonLinearity: not for this type");
    if (!t.rank()) throw poplibs_error("nonLinearity: a tensor of rank 0");
    return poplar::standin_add(graph, program, name, {}, {t}, t.elementType(), t.shape());
}

/* Numbers of the step: axes, then for each the window, the stride and the paddings. */
Tensor popnn::pooling::pool(poplar::Graph &graph, const PoolParams &p, const Tensor &in,
                            poplar::program::Sequence &program, const poplar::DebugContext &,
                            const poplar::OptionFlags &)
{
    Shape x = {p.batchSize, p.numChannels}, y = x;
    std::size_t axes = p.inputFieldShape.size();
    std::vector<std::int64_t> number = {(std::int64_t)axes};

    poplar::standin_call("popnn.pooling.pool");
    poplar::standin_need(graph, "popnn");
    x.insert(x.end(), p.inputFieldShape.begin(), p.inputFieldShape.end());
    if (in.shape() != x) throw poplibs_error("pool: the input has another shape than params");
    if (in.elementType() != p.dType || !is_float(p.dType))
        throw poplibs_error("pool: types do not match");
    if (p.poolingType == PoolingType::SUM) throw poplibs_error("pool: the stand-in lacks SUM");
    for (unsigned k = 0; k < axes; k++) {
        std::int64_t lower = p.inputTruncationOrPaddingLower[k];
        std::int64_t upper = p.inputTruncationOrPaddingUpper[k];
        std::int64_t window = (std::int64_t)p.kernelShape[k], stride = p.stride[k];
        std::int64_t field = (std::int64_t)p.inputFieldShape[k] + lower + upper;
        if (lower < 0 || upper < 0) throw poplibs_error("pool: the stand-in lacks truncation");
        if (field < window) throw poplibs_error("pool: the window is larger than the field");
        y.push_back((std::size_t)((field - window) / stride + 1));
        for (std::int64_t v : {window, stride, lower, upper}) number.push_back(v);
    }
    return poplar::standin_add(graph, program,
                               p.poolingType == PoolingType::MAX ? "max_pool" : "avg_pool", number,
                               {in}, p.dType, y);
}
