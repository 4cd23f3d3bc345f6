/* SPDX-License-Identifier: Apache-2.0 */
/* internal.hpp: the objects behind the classes of this stand-in for Poplar. Read next: graph.cc
 * (variables and tensors), library.cc (operators), compile.cc, engine.cc, compute.cc. */
#ifndef STANDINS_POPLAR_INTERNAL_HPP
#define STANDINS_POPLAR_INTERNAL_HPP

#include <poplar/Engine.hpp>
#include <poputil/TileMapping.hpp>

#include <atomic>
#include <set>

extern "C" {
#include "base.h"
#include "rows.h"
}

namespace poplar {

/* A span of a variable on one tile: from the key of the map to `end`. */
struct Span {
    std::uint32_t end;
    unsigned tile;
};

struct Variable {
    Type type;
    std::string name;
    std::uint32_t first, count; /* of elements, numbered through all variables */
    std::map<std::uint32_t, Span> tiles;
    bool is_constant = false;
    bool lives = false;         /* always: a stream reads or writes the variable */
    std::vector<char> contents; /* of a constant */
};

struct GraphData {
    Target target;
    std::vector<Variable> variable;
    std::map<std::string, DataStream> stream;
    std::set<std::string> codelets; /* "popops" */
    std::uint32_t next = 0;
};

/* Elements of one variable at equal distances: the first one, their number, the distance. */
struct Run {
    std::uint32_t variable, offset, count, step;
};

struct Operand {
    std::uint32_t dtype; /* enum bp_dtype */
    std::vector<std::int64_t> shape;
    std::vector<Run> runs;
};

/* Work of a control program. Operators are named as in docs/ops.md; numbers are their attributes as
 * compute.cc reads them. */
struct Step {
    enum Kind : std::uint32_t {
        COPY,
        FROM_HOST,
        TO_HOST,
        COMPUTE
    };
    Kind kind = COMPUTE;
    std::string name; /* of the operator, or of the stream */
    std::vector<std::int64_t> number;
    std::vector<Operand> in;
    Operand out;
};

struct ExecutableData {
    Target target;
    std::vector<Variable> variable; /* tiles are not kept */
    std::map<std::string, DataStream> stream;
    std::vector<std::vector<std::shared_ptr<const Step>>> program;
    ExecutableData();
    ExecutableData(const ExecutableData &) = delete;
    ~ExecutableData();
};

struct DeviceData {
    unsigned id = 0;
    Target target;
    base_device *base = nullptr; /* of hardware */
    bool attached = false;
    EngineData *loaded = nullptr;  /* the engine whose program the device has */
    std::atomic<bool> busy{false}; /* a call of an engine is using the device */
};

struct Connected {
    char *begin = nullptr, *end = nullptr;
};

struct EngineData {
    std::shared_ptr<const ExecutableData> executable;
    std::shared_ptr<DeviceData> device;
    std::map<std::string, Connected> connected;
    std::vector<std::vector<char>> memory; /* of each variable, while the engine is loaded */
};

/* device.cc: executables and engines that are not destroyed. For tests: standin_poplar_live(). */
extern std::atomic<int> standin_objects;
/* Begins a public function, named as "poplar.Engine.run": throws if a test asks for its failure. Code 1: out of
 * memory, 2: recoverable, 3: unrecoverable, 4: of the application; others: poplar_error. */
void standin_call(const char *name);
/* Reports a misuse, whose effect the library leaves undefined, and throws. */
[[noreturn]] void standin_misuse(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* graph.cc */
std::uint32_t standin_dtype(const Type &type); /* enum bp_dtype */
std::size_t standin_bytes(const Type &type);
Operand standin_operand(const Tensor &tensor);
/* The elements of a tensor as rows of neighbours: runs of distance 1. */
std::vector<Run> standin_rows(const Tensor &tensor);
std::size_t standin_count(const std::vector<std::size_t> &shape);
/* The variable of an element. */
std::size_t standin_variable(const GraphData &graph, std::uint32_t element);
/* A mapped variable for a result. */
Tensor standin_result(Graph &graph, const Type &type, const std::vector<std::size_t> &shape);
/* library.cc: adds an operator to a program; its inputs must be mapped when the graph is compiled. */
Tensor standin_add(Graph &graph, program::Sequence &program, const char *name,
                   const std::vector<std::int64_t> &number, const std::vector<Tensor> &in,
                   const Type &type, const std::vector<std::size_t> &shape);
/* Throws unless the codelets of a library were added. */
void standin_need(const Graph &graph, const char *library);
/* compute.cc: runs an operator; throws if the portable kernels lack it. */
void standin_compute(const Step &step, const std::vector<base_tensor> &in, const base_tensor &out);

} // namespace poplar

#endif
