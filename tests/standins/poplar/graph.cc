/* SPDX-License-Identifier: Apache-2.0 */
/* graph.cc: implements the variables of graphs and the tensors that name their elements. */
#include "internal.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace poplar {

/* Their order is the stand-in's own. */
const Type BOOL(0), CHAR(1), UNSIGNED_CHAR(2), SIGNED_CHAR(3), INT(4), UNSIGNED_INT(5), HALF(6),
    FLOAT(7);

namespace {

struct TypeRow {
    const char *name;
    std::uint32_t dtype;
    std::size_t bytes;
};
/* Unsigned integers are indices, below 2^31. */
const TypeRow type_rows[] = {{"bool", BP_BOOL, 1},        {"char", BP_I8, 1},
                             {"unsigned char", BP_U8, 1}, {"signed char", BP_I8, 1},
                             {"int", BP_I32, 4},          {"unsigned int", BP_I32, 4},
                             {"half", BP_F16, 2},         {"float", BP_F32, 4}};

const TypeRow &type_row(const Type &type)
{
    if (type.number < 0 || (std::size_t)type.number >= sizeof type_rows / sizeof *type_rows)
        throw poplar_error("a tensor without a type");
    return type_rows[type.number];
}

void element_write(void *at, const Type &type, double value)
{
    if (type == FLOAT) {
        float f = (float)value;
        std::memcpy(at, &f, sizeof f);
    } else if (type == INT || type == UNSIGNED_INT) {
        std::int32_t i = (std::int32_t)value;
        std::memcpy(at, &i, sizeof i);
    } else if (type == HALF) {
        _Float16 h = (_Float16)value;
        std::memcpy(at, &h, sizeof h);
    } else {
        *(signed char *)at = type == BOOL ? value != 0 : (signed char)value;
    }
}

/* A tensor with elements that a function chooses: its place among those of `from` for each. */
template <typename F>
Tensor tensor_pick(const Tensor &from, const std::vector<std::size_t> &shape, F place)
{
    Tensor t = from;
    auto list = std::make_shared<std::vector<std::uint32_t>>(standin_count(shape));
    std::vector<std::size_t> at(shape.size(), 0);

    for (std::size_t i = 0; i < list->size(); i++) {
        (*list)[i] = from.at(place(at));
        for (std::size_t k = shape.size(); k-- > 0;) {
            if (++at[k] < shape[k]) break;
            at[k] = 0;
        }
    }
    t.extents = shape;
    t.list = list;
    return t;
}

/* A tensor with axes at other distances. Large ones, such as transposed weights, take most of the
 * time of this file: a row of the result at a time. */
Tensor tensor_shuffled(const Tensor &from, const std::vector<std::size_t> &shape,
                       const std::vector<std::size_t> &step)
{
    Tensor t = from;
    auto list = std::make_shared<std::vector<std::uint32_t>>(standin_count(shape));
    std::size_t row = shape.empty() ? 1 : shape.back(), by = shape.empty() ? 0 : step.back();

    for (std::size_t i = 0; i < list->size(); i += row) {
        std::size_t place = 0, left = i / row;
        for (std::size_t k = shape.size(); k-- > 1;) {
            place += left % shape[k - 1] * step[k - 1];
            left /= shape[k - 1];
        }
        for (std::size_t k = 0; k < row; k++) (*list)[i + k] = from.at(place + k * by);
    }
    t.extents = shape;
    t.list = list;
    return t;
}

std::vector<std::size_t> tensor_strides(const std::vector<std::size_t> &shape)
{
    std::vector<std::size_t> stride(shape.size(), 1);

    for (std::size_t k = shape.size(); k-- > 1;) stride[k - 1] = stride[k] * shape[k];
    return stride;
}

void want_axis(const Tensor &t, unsigned axis, const char *what)
{
    if (!t.valid()) throw poplar_error(std::string(what) + ": the tensor is not of a graph");
    if (axis >= t.rank())
        throw poplar_error(std::string(what) + ": dimension " + std::to_string(axis) +
                           " of a tensor of rank " + std::to_string(t.rank()));
}

} // namespace

std::string Type::toString() const
{
    return type_row(*this).name;
}

std::uint32_t standin_dtype(const Type &type)
{
    return type_row(type).dtype;
}

std::size_t standin_bytes(const Type &type)
{
    return type_row(type).bytes;
}

std::size_t standin_count(const std::vector<std::size_t> &shape)
{
    std::size_t n = 1;

    for (std::size_t extent : shape) n *= extent;
    return n;
}

std::size_t standin_variable(const GraphData &graph, std::uint32_t element)
{
    auto it = std::upper_bound(graph.variable.begin(), graph.variable.end(), element,
                               [](std::uint32_t e, const Variable &v) { return e < v.first; });

    return (std::size_t)(it - graph.variable.begin()) - 1;
}

namespace {

/* The longest run from place i on. The variable of the run before is likely the same. */
Run run_from(const Tensor &t, std::size_t i, std::uint32_t variable, bool is_row)
{
    const std::vector<Variable> &all = t.graph->variable;
    std::uint32_t e = t.at(i), first = all[variable].first;
    std::size_t n = t.numElements();
    Run run;

    if (e < first || e - first >= all[variable].count)
        variable = (std::uint32_t)standin_variable(*t.graph, e);
    first = all[variable].first;
    run = {variable, e - first, 1, 1};
    if (!t.list) {
        run.count = (std::uint32_t)std::min<std::size_t>(n - i, all[variable].count - run.offset);
        return run;
    }
    if (!is_row && i + 1 < n && t.at(i + 1) >= e) run.step = t.at(i + 1) - e;
    while (i + run.count < n && t.at(i + run.count) == e + (std::uint64_t)run.step * run.count &&
           t.at(i + run.count) - first < all[variable].count)
        run.count++;
    return run;
}

std::vector<Run> runs_of(const Tensor &t, bool are_rows)
{
    std::vector<Run> runs;
    std::size_t n = t.numElements();

    if (!t.valid()) throw poplar_error("a tensor that is not of a graph");
    for (std::size_t i = 0; i < n; i += runs.back().count)
        runs.push_back(run_from(t, i, runs.empty() ? 0 : runs.back().variable, are_rows));
    return runs;
}

} // namespace

Operand standin_operand(const Tensor &t)
{
    Operand o;

    o.runs = runs_of(t, false);
    o.dtype = standin_dtype(t.type);
    o.shape.assign(t.extents.begin(), t.extents.end());
    return o;
}

std::vector<Run> standin_rows(const Tensor &t)
{
    return runs_of(t, true);
}

/* ---- tensors ---- */

std::size_t Tensor::numElements() const
{
    return standin_count(extents);
}

Tensor Tensor::reshape(ArrayRef<std::size_t> shape) const
{
    Tensor t = *this;

    t.extents.assign(shape.begin(), shape.end());
    if (t.numElements() != numElements()) throw poplar_error("reshape: another number of elements");
    return t;
}

Tensor Tensor::flatten() const
{
    return reshape({numElements()});
}

Tensor Tensor::dimShuffle(const std::vector<unsigned> &permutation) const
{
    std::vector<std::size_t> stride = tensor_strides(extents), shape(rank()), step(rank());
    std::vector<bool> seen(rank(), false);

    if (permutation.size() != rank())
        throw poplar_error("dimShuffle: another number of dimensions");
    for (std::size_t k = 0; k < rank(); k++) {
        want_axis(*this, permutation[k], "dimShuffle");
        if (seen[permutation[k]]) throw poplar_error("dimShuffle: a dimension twice");
        seen[permutation[k]] = true;
        shape[k] = extents[permutation[k]];
        step[k] = stride[permutation[k]];
    }
    return tensor_shuffled(*this, shape, step);
}

namespace {

/* A tensor whose extent along one axis changes: `from` maps places along the axis. */
template <typename F>
Tensor tensor_along(const Tensor &t, unsigned axis, std::size_t extent, F from)
{
    std::vector<std::size_t> stride = tensor_strides(t.extents), shape = t.extents;

    shape[axis] = extent;
    return tensor_pick(t, shape, [&](const std::vector<std::size_t> &at) {
        std::size_t place = 0;
        for (std::size_t k = 0; k < at.size(); k++)
            place += (k == axis ? from(at[k]) : at[k]) * stride[k];
        return place;
    });
}

} // namespace

Tensor Tensor::slice(std::size_t begin, std::size_t end, unsigned dimension) const
{
    want_axis(*this, dimension, "slice");
    if (begin > end || end > extents[dimension])
        throw poplar_error("slice: " + std::to_string(begin) + " to " + std::to_string(end) +
                           " of extent " + std::to_string(extents[dimension]));
    if (begin == 0 && end == extents[dimension]) return *this;
    return tensor_along(*this, dimension, end - begin, [&](std::size_t i) { return i + begin; });
}

Tensor Tensor::broadcast(unsigned n, unsigned dimension) const
{
    std::size_t extent;

    want_axis(*this, dimension, "broadcast");
    extent = extents[dimension];
    return tensor_along(*this, dimension, extent * n, [&](std::size_t i) { return i % extent; });
}

Tensor Tensor::subSample(unsigned stride, unsigned dimension) const
{
    want_axis(*this, dimension, "subSample");
    if (!stride) throw poplar_error("subSample: a stride of 0");
    return tensor_along(*this, dimension, (extents[dimension] + stride - 1) / stride,
                        [&](std::size_t i) { return i * stride; });
}

Tensor Tensor::reverse(unsigned dimension) const
{
    std::size_t extent;

    want_axis(*this, dimension, "reverse");
    extent = extents[dimension];
    return tensor_along(*this, dimension, extent, [&](std::size_t i) { return extent - 1 - i; });
}

/* No element twice, and none of a constant. */
bool Tensor::isParallelWriteable() const
{
    std::vector<std::uint32_t> all;

    for (const Run &run : standin_operand(*this).runs)
        if (graph->variable[run.variable].is_constant) return false;
    if (!list) return true;
    all = *list;
    std::sort(all.begin(), all.end());
    return std::adjacent_find(all.begin(), all.end()) == all.end();
}

Tensor concat(ArrayRef<Tensor> tensors, unsigned dimension)
{
    Tensor t;
    std::vector<std::size_t> shape;
    auto list = std::make_shared<std::vector<std::uint32_t>>();
    std::size_t outer = 1, inner = 1;

    if (!tensors.size()) throw poplar_error("concat: no tensors");
    t = tensors[0];
    want_axis(t, dimension, "concat");
    shape = t.extents;
    shape[dimension] = 0;
    for (const Tensor &part : tensors) {
        std::vector<std::size_t> same = part.extents;
        if (part.graph != t.graph) throw poplar_error("concat: tensors of different graphs");
        if (part.type != t.type) throw poplar_error("concat: tensors of different types");
        want_axis(part, dimension, "concat");
        shape[dimension] += part.extents[dimension];
        same[dimension] = shape[dimension];
        if (same != shape) throw poplar_error("concat: extents differ");
    }
    for (unsigned k = 0; k < dimension; k++) outer *= shape[k];
    for (std::size_t k = dimension + 1; k < shape.size(); k++) inner *= shape[k];
    list->reserve(standin_count(shape));
    for (std::size_t o = 0; o < outer; o++)
        for (const Tensor &part : tensors) {
            std::size_t n = part.extents[dimension] * inner;
            for (std::size_t i = 0; i < n; i++) list->push_back(part.at(o * n + i));
        }
    t.extents = shape;
    t.list = list;
    return t;
}

/* ---- graphs ---- */

Graph::Graph(const Target &target) : data(std::make_shared<GraphData>())
{
    data->target = target;
}

const Target &Graph::getTarget() const
{
    return data->target;
}

Tensor Graph::addVariable(const Type &type, ArrayRef<std::size_t> shape,
                          const DebugContext &context)
{
    Tensor t;
    Variable v;

    t.graph = data;
    t.type = type;
    t.extents.assign(shape.begin(), shape.end());
    t.first = data->next;
    standin_bytes(type);
    if (t.numElements() > UINT32_MAX - data->next) throw poplar_error("too many elements");
    v.type = type;
    v.name = context.name;
    v.first = data->next;
    v.count = (std::uint32_t)t.numElements();
    if (!v.count) throw poplar_error("addVariable: '" + v.name + "' has no elements");
    data->next += v.count;
    data->variable.push_back(v);
    return t;
}

Tensor Graph::constant(const Type &type, ArrayRef<std::size_t> shape,
                       const std::vector<double> &values, const DebugContext &context)
{
    Tensor t = addVariable(type, shape, context);
    Variable &v = data->variable.back();
    std::size_t bytes = standin_bytes(type);

    if (values.size() != v.count) throw poplar_error("addConstant: another number of values");
    v.is_constant = true;
    v.contents.resize(v.count * bytes);
    for (std::size_t i = 0; i < v.count; i++)
        element_write(v.contents.data() + i * bytes, type, values[i]);
    return t;
}

namespace {

/* Puts elements of a variable on a tile; a part that has one already moves. */
void variable_map(Variable &v, std::uint32_t begin, std::uint32_t end, unsigned tile)
{
    auto it = v.tiles.upper_bound(begin);

    if (it != v.tiles.begin()) it--;
    while (it != v.tiles.end() && it->first < end) {
        std::uint32_t from = it->first;
        Span old = it->second;
        if (old.end <= begin) {
            it++;
            continue;
        }
        it = v.tiles.erase(it);
        if (from < begin) v.tiles[from] = {begin, old.tile};
        if (old.end > end) it = v.tiles.insert({end, old}).first;
    }
    v.tiles[begin] = {end, tile};
}

} // namespace

void Graph::setTileMapping(const Tensor &tensor, unsigned tile)
{
    standin_call("poplar.Graph.setTileMapping");
    if (tensor.graph != data) throw poplar_error("setTileMapping: a tensor of another graph");
    if (tile >= data->target.tiles)
        throw poplar_error("setTileMapping: tile " + std::to_string(tile) + " of " +
                           std::to_string(data->target.tiles));
    for (const Run &run : standin_rows(tensor))
        variable_map(data->variable[run.variable], run.offset, run.offset + run.count, tile);
}

namespace {

DataStream stream_add(GraphData &graph, const std::string &handle, const Type &type,
                      std::size_t count, bool to_device)
{
    DataStream stream;

    stream.handle = handle;
    stream.type = type;
    stream.count = count;
    stream.to_device = to_device;
    if (!graph.stream.insert({handle, stream}).second)
        throw poplar_error("there is a stream '" + handle + "' already");
    return stream;
}

} // namespace

DataStream Graph::addHostToDeviceFIFO(StringRef handle, const Type &type, std::size_t count)
{
    return stream_add(*data, handle, type, count, true);
}

DataStream Graph::addDeviceToHostFIFO(StringRef handle, const Type &type, std::size_t count)
{
    return stream_add(*data, handle, type, count, false);
}

Tensor standin_result(Graph &graph, const Type &type, const std::vector<std::size_t> &shape)
{
    Tensor t = graph.addVariable(type, shape, "result");

    poputil::mapTensorLinearly(graph, t);
    return t;
}

/* ---- copies ---- */

void program::Sequence::add(const Program &program)
{
    steps.insert(steps.end(), program.steps.begin(), program.steps.end());
}

program::Copy::Copy(Tensor source, Tensor destination, bool, const DebugContext &)
{
    auto step = std::make_shared<Step>();

    if (source.graph != destination.graph) throw poplar_error("Copy: tensors of different graphs");
    if (source.type != destination.type) throw poplar_error("Copy: tensors of different types");
    if (source.numElements() != destination.numElements())
        throw poplar_error("Copy: tensors of different sizes");
    if (!destination.isParallelWriteable())
        throw poplar_error(
            "Copy: the destination cannot be written: an element twice, or a constant");
    step->kind = Step::COPY;
    step->in.push_back(standin_operand(source));
    step->out = standin_operand(destination);
    steps.push_back(step);
}

namespace {

void copy_check(const Tensor &t, const DataStream &s)
{
    if (t.type != s.type) throw poplar_error("Copy: stream '" + s.handle + "' has another type");
    if (t.numElements() != s.count)
        throw poplar_error("Copy: stream '" + s.handle + "' has another number of elements");
    for (const Run &run : standin_operand(t).runs) t.graph->variable[run.variable].lives = true;
}

} // namespace

program::Copy::Copy(DataStream source, Tensor destination, bool, const DebugContext &)
{
    auto step = std::make_shared<Step>();

    if (!source.to_device) throw poplar_error("Copy: the stream leads to the host");
    copy_check(destination, source);
    if (!destination.isParallelWriteable())
        throw poplar_error(
            "Copy: the destination cannot be written: an element twice, or a constant");
    step->kind = Step::FROM_HOST;
    step->name = source.handle;
    step->out = standin_operand(destination);
    steps.push_back(step);
}

program::Copy::Copy(Tensor source, DataStream destination, bool, const DebugContext &)
{
    auto step = std::make_shared<Step>();

    if (destination.to_device) throw poplar_error("Copy: the stream leads to the device");
    copy_check(source, destination);
    step->kind = Step::TO_HOST;
    step->name = destination.handle;
    step->in.push_back(standin_operand(source));
    steps.push_back(step);
}

} // namespace poplar

void poputil::mapTensorLinearly(poplar::Graph &graph, const poplar::Tensor &t)
{
    const poplar::Target &target = graph.getTarget();
    std::size_t n = t.numElements(), bytes = poplar::standin_bytes(t.elementType());
    /* At least 128 bytes a tile. */
    std::size_t grain = std::max<std::size_t>((n + target.tiles - 1) / target.tiles, 128 / bytes);
    poplar::Tensor flat = t.flatten();

    if (t.graph != graph.data) throw poplibs_error("mapTensorLinearly: a tensor of another graph");
    for (const poplar::Run &run : poplar::standin_rows(flat)) {
        poplar::Variable &v = graph.data->variable[run.variable];
        std::uint32_t end = run.offset + run.count;
        std::uint32_t size = (std::uint32_t)grain;
        unsigned tile = 0;
        for (std::uint32_t at = run.offset; at < end; at += size)
            poplar::variable_map(v, at, std::min(at + size, end), tile++);
    }
}
