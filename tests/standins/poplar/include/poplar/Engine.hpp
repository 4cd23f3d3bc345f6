/* SPDX-License-Identifier: Apache-2.0 */
/* Engine.hpp: compiles graphs, and runs compiled graphs on devices. */
#ifndef POPLAR_ENGINE_HPP
#define POPLAR_ENGINE_HPP

#include <poplar/DeviceManager.hpp>
#include <poplar/Program.hpp>

#include <functional>
#include <istream>
#include <ostream>

namespace poplar {

using ProgressFunc = std::function<void(int, int)>;
struct ExecutableData; /* the stand-in's own: internal.hpp */
struct EngineData;

class POPLAR_API Executable {
  public:
    void serialize(std::ostream &out) const;
    static Executable deserialize(std::istream &in);

    std::shared_ptr<const ExecutableData> data; /* the stand-in's own */
};

POPLAR_API Executable compileGraph(const Graph &graph, ArrayRef<program::Program> programs,
                                   const OptionFlags &options = {}, ProgressFunc progress = {},
                                   const DebugContext &context = {});

class POPLAR_API Engine {
  public:
    Engine(const Executable &executable, const OptionFlags &options = {});
    Engine(const Engine &) = delete;
    ~Engine();
    void load(const Device &device);
    void connectStream(StringRef handle, void *begin, void *end);
    void run(unsigned program = 0);

  private:
    std::unique_ptr<EngineData> data;
};

} // namespace poplar

#endif
