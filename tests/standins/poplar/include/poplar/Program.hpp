/* SPDX-License-Identifier: Apache-2.0 */
/* Program.hpp: control programs: sequences and copies. */
#ifndef POPLAR_PROGRAM_HPP
#define POPLAR_PROGRAM_HPP

#include <poplar/Graph.hpp>

namespace poplar {

struct Step; /* the stand-in's own: internal.hpp */

namespace program {

class POPLAR_API Program {
  public:
    std::vector<std::shared_ptr<const Step>> steps; /* the stand-in's own */
};

class POPLAR_API Sequence : public Program {
  public:
    Sequence()
    {
    }
    void add(const Program &program);
};

class POPLAR_API Copy : public Program {
  public:
    Copy(Tensor source, Tensor destination, bool dontOutline = false,
         const DebugContext &context = {});
    Copy(DataStream source, Tensor destination, bool optimiseMemory = false,
         const DebugContext &context = {});
    Copy(Tensor source, DataStream destination, bool optimiseMemory = false,
         const DebugContext &context = {});
};

} // namespace program
} // namespace poplar

#endif
