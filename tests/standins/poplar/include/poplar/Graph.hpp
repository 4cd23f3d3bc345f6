/* SPDX-License-Identifier: Apache-2.0 */
/* Graph.hpp: the stand-in's targets, tensors and graphs, by the signatures of Poplar. A tensor names
 * elements of variables of a graph; it holds no contents. */
#ifndef POPLAR_GRAPH_HPP
#define POPLAR_GRAPH_HPP

#include <poplar/Basics.hpp>

#include <memory>

namespace poplar {

enum class TargetType {
    IPU,
    IPU_MODEL,
    CPU
};

class POPLAR_API Target {
  public:
    TargetType getTargetType() const
    {
        return type;
    }
    unsigned getNumIPUs() const
    {
        return 1;
    }
    unsigned getNumTiles() const
    {
        return tiles;
    }
    unsigned getTilesPerIPU() const
    {
        return tiles;
    }
    std::size_t getBytesPerTile() const
    {
        return bytes;
    }
    bool operator==(const Target &o) const
    {
        return type == o.type && tiles == o.tiles && bytes == o.bytes;
    }
    TargetType type = TargetType::CPU; /* the stand-in's own, to the end */
    unsigned tiles = 1;
    std::size_t bytes = 0; /* 0: unlimited */
};

struct GraphData; /* the stand-in's own: internal.hpp */

/* Elements of variables, in the tensor's order. */
class POPLAR_API Tensor {
  public:
    Tensor()
    {
    }
    std::size_t rank() const
    {
        return extents.size();
    }
    const std::vector<std::size_t> &shape() const
    {
        return extents;
    }
    std::size_t dim(unsigned i) const
    {
        return extents.at(i);
    }
    std::size_t numElements() const;
    Type elementType() const
    {
        return type;
    }
    bool valid() const
    {
        return graph != nullptr;
    }

    Tensor reshape(ArrayRef<std::size_t> shape) const;
    Tensor flatten() const;
    Tensor dimShuffle(const std::vector<unsigned> &permutation) const;
    Tensor slice(std::size_t begin, std::size_t end, unsigned dimension = 0) const;
    Tensor broadcast(unsigned n, unsigned dimension) const;
    Tensor subSample(unsigned stride, unsigned dimension) const;
    Tensor reverse(unsigned dimension) const;
    bool isParallelWriteable() const;

    /* The stand-in's own, to the end. Elements are numbered through all variables of the graph. */
    std::shared_ptr<GraphData> graph;
    Type type;
    std::vector<std::size_t> extents;
    std::uint32_t first = 0; /* of elements in a row, if `list` is empty */
    std::shared_ptr<const std::vector<std::uint32_t>> list;
    std::uint32_t at(std::size_t i) const
    {
        return list ? (*list)[i] : first + (std::uint32_t)i;
    }
};

POPLAR_API Tensor concat(ArrayRef<Tensor> tensors, unsigned dimension = 0);

class POPLAR_API DataStream {
  public:
    std::string handle; /* the stand-in's own, to the end */
    Type type;
    std::size_t count = 0;
    bool to_device = false;
};

class POPLAR_API Graph {
  public:
    explicit Graph(const Target &target);
    const Target &getTarget() const;
    Tensor addVariable(const Type &type, ArrayRef<std::size_t> shape,
                       const DebugContext &context = {});
    template <typename T>
    Tensor addConstant(const Type &type, ArrayRef<std::size_t> shape, ArrayRef<T> values,
                       const DebugContext &context = {})
    {
        std::vector<double> v(values.begin(), values.end());
        return constant(type, shape, v, context);
    }
    template <typename T>
    Tensor addConstant(const Type &type, ArrayRef<std::size_t> shape, T value,
                       const DebugContext &context = {})
    {
        std::size_t n = 1;
        for (std::size_t extent : shape) n *= extent;
        return constant(type, shape, std::vector<double>(n, (double)value), context);
    }
    void setTileMapping(const Tensor &tensor, unsigned tile);
    DataStream addHostToDeviceFIFO(StringRef handle, const Type &type, std::size_t count);
    DataStream addDeviceToHostFIFO(StringRef handle, const Type &type, std::size_t count);

    std::shared_ptr<GraphData> data; /* the stand-in's own, to the end */

  private:
    Tensor constant(const Type &type, ArrayRef<std::size_t> shape,
                    const std::vector<double> &values, const DebugContext &context);
};

} // namespace poplar

#endif
