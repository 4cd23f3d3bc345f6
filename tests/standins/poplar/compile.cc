/* SPDX-License-Identifier: Apache-2.0 */
/* compile.cc: compiles graphs: checks that each element has a tile, that no tile has too many
 * bytes, and that programs use streams of the graph; and saves executables. */
#include "internal.hpp"

#include <algorithm>
#include <cstring>
#include <iterator>

namespace poplar {

ExecutableData::ExecutableData()
{
    standin_objects++;
}

ExecutableData::~ExecutableData()
{
    standin_objects--;
}

namespace {

void check_mapping(const Variable &v)
{
    std::uint32_t at = 0;

    for (const auto &span : v.tiles) {
        if (span.first != at) break;
        at = span.second.end;
    }
    if (at != v.count)
        throw poplar_error("no tile mapping for a part of variable '" + v.name + "'");
}

void add_bytes(std::vector<std::int64_t> &tile, const Variable &v, std::int64_t sign)
{
    std::int64_t bytes = (std::int64_t)standin_bytes(v.type);

    for (const auto &span : v.tiles)
        tile[span.second.tile] += sign * bytes * (std::int64_t)(span.second.end - span.first);
}

/* Results of operators have memory from the step that writes them to the last one that reads them;
 * constants and variables of streams always. */
void check_memory(const GraphData &graph, const std::vector<std::shared_ptr<const Step>> &steps)
{
    std::vector<std::int64_t> tile(graph.target.tiles, 0);
    std::vector<std::size_t> last(graph.variable.size(), 0);
    std::vector<bool> live(graph.variable.size(), false);

    if (!graph.target.bytes) return;
    for (std::size_t v = 0; v < live.size(); v++)
        if (graph.variable[v].is_constant || graph.variable[v].lives) {
            add_bytes(tile, graph.variable[v], 1);
            live[v] = true;
        }
    for (std::size_t s = 0; s < steps.size(); s++) {
        for (const Operand &in : steps[s]->in)
            for (const Run &run : in.runs) last[run.variable] = s;
        for (const Run &run : steps[s]->out.runs)
            last[run.variable] = std::max(last[run.variable], s);
    }
    for (std::size_t s = 0; s < steps.size(); s++) {
        std::set<std::uint32_t> used;
        for (const Run &run : steps[s]->out.runs) used.insert(run.variable);
        for (std::uint32_t v : used)
            if (!live[v]) {
                add_bytes(tile, graph.variable[v], 1);
                live[v] = true;
            }
        for (const Operand &in : steps[s]->in)
            for (const Run &run : in.runs) used.insert(run.variable);
        for (std::size_t t = 0; t < tile.size(); t++)
            if (tile[t] > (std::int64_t)graph.target.bytes)
                throw graph_memory_allocation_error(
                    "Out of memory: tile " + std::to_string(t) + " needs " +
                    std::to_string(tile[t]) + " bytes of " + std::to_string(graph.target.bytes));
        for (std::uint32_t v : used)
            if (last[v] == s && !graph.variable[v].lives && !graph.variable[v].is_constant)
                add_bytes(tile, graph.variable[v], -1);
    }
}

} // namespace

Executable compileGraph(const Graph &graph, ArrayRef<program::Program> programs,
                        const OptionFlags &, ProgressFunc progress, const DebugContext &)
{
    auto data = std::make_shared<ExecutableData>();
    Executable executable;
    int n = (int)programs.size(), done = 0;

    if (progress) progress(0, n + 1);
    standin_call("poplar.compileGraph");
    for (const Variable &v : graph.data->variable) check_mapping(v);
    for (const program::Program &p : programs) {
        check_memory(*graph.data, p.steps);
        data->program.push_back(p.steps);
        if (progress) progress(++done, n + 1);
    }
    data->target = graph.data->target;
    data->variable = graph.data->variable;
    for (Variable &v : data->variable) v.tiles.clear();
    data->stream = graph.data->stream;
    executable.data = data;
    if (progress) progress(n + 1, n + 1);
    return executable;
}

/* ---- saved executables ---- */

namespace {

const char magic[8] = {'s', 't', 'a', 'n', 'd', 'i', 'n', '2'};

struct Writer {
    std::ostream &out;
    void number(std::uint64_t v)
    {
        out.write((const char *)&v, sizeof v);
    }
    void bytes(const void *data, std::size_t size)
    {
        number(size);
        out.write((const char *)data, (std::streamsize)size);
    }
    void text(const std::string &s)
    {
        bytes(s.data(), s.size());
    }
};

struct Reader {
    std::istream &in;
    std::uint64_t number()
    {
        std::uint64_t v = 0;
        in.read((char *)&v, sizeof v);
        if (!in) throw poplar_error("deserialize: the data ends early");
        return v;
    }
    /* A number of things that follow, each of at least one byte. */
    std::size_t count()
    {
        std::uint64_t v = number();
        if (v > (std::uint64_t)1 << 32) throw poplar_error("deserialize: the data is damaged");
        return (std::size_t)v;
    }
    std::string text()
    {
        std::string s(count(), '\0');
        in.read(&s[0], (std::streamsize)s.size());
        if (!in) throw poplar_error("deserialize: the data ends early");
        return s;
    }
};

void write_operand(Writer &w, const Operand &o)
{
    w.number(o.dtype);
    w.bytes(o.shape.data(), o.shape.size() * sizeof o.shape[0]);
    w.bytes(o.runs.data(), o.runs.size() * sizeof o.runs[0]);
}

template <typename T> std::vector<T> vector_of(const std::string &bytes)
{
    std::vector<T> v(bytes.size() / sizeof(T));

    if (!v.empty()) std::memcpy(v.data(), bytes.data(), v.size() * sizeof(T));
    return v;
}

Operand read_operand(Reader &r, const ExecutableData &data)
{
    Operand o;

    o.dtype = (std::uint32_t)r.number();
    o.shape = vector_of<std::int64_t>(r.text());
    o.runs = vector_of<Run>(r.text());
    for (const Run &run : o.runs)
        if (run.variable >= data.variable.size() || !run.count ||
            run.offset + (std::uint64_t)run.step * (run.count - 1) >=
                data.variable[run.variable].count)
            throw poplar_error("deserialize: the data is damaged");
    return o;
}

} // namespace

void Executable::serialize(std::ostream &out) const
{
    Writer w = {out};

    standin_call("poplar.Executable.serialize");
    out.write(magic, sizeof magic);
    w.number((std::uint64_t)data->target.type);
    w.number(data->target.tiles);
    w.number(data->target.bytes);
    w.number(data->variable.size());
    for (const Variable &v : data->variable) {
        w.number((std::uint64_t)v.type.number);
        w.number(v.count);
        w.number(v.is_constant);
        w.bytes(v.contents.data(), v.contents.size());
    }
    w.number(data->stream.size());
    for (const auto &s : data->stream) {
        w.text(s.first);
        w.number((std::uint64_t)s.second.type.number);
        w.number(s.second.count);
        w.number(s.second.to_device);
    }
    w.number(data->program.size());
    for (const auto &steps : data->program) {
        w.number(steps.size());
        for (const auto &step : steps) {
            w.number(step->kind);
            w.text(step->name);
            w.bytes(step->number.data(), step->number.size() * sizeof step->number[0]);
            w.number(step->in.size());
            for (const Operand &in : step->in) write_operand(w, in);
            write_operand(w, step->out);
        }
    }
}

Executable Executable::deserialize(std::istream &in)
{
    auto data = std::make_shared<ExecutableData>();
    Executable executable;
    Reader r = {in};
    char found[sizeof magic];

    standin_call("poplar.Executable.deserialize");
    in.read(found, sizeof found);
    if (!in || std::memcmp(found, magic, sizeof found))
        throw poplar_error("deserialize: this is no executable");
    data->target.type = (TargetType)r.number();
    data->target.tiles = (unsigned)r.number();
    data->target.bytes = r.number();
    for (std::size_t n = r.count(), i = 0; i < n; i++) {
        Variable v;
        v.type = Type((int)r.number());
        v.count = (std::uint32_t)r.number();
        v.is_constant = r.number();
        std::string bytes = r.text();
        v.contents.assign(bytes.begin(), bytes.end());
        if (v.is_constant && v.contents.size() != v.count * standin_bytes(v.type))
            throw poplar_error("deserialize: the data is damaged");
        data->variable.push_back(v);
    }
    for (std::size_t n = r.count(), i = 0; i < n; i++) {
        DataStream s;
        s.handle = r.text();
        s.type = Type((int)r.number());
        s.count = r.number();
        s.to_device = r.number();
        data->stream[s.handle] = s;
    }
    data->program.resize(r.count());
    for (auto &steps : data->program)
        for (std::size_t n = r.count(), i = 0; i < n; i++) {
            auto step = std::make_shared<Step>();
            step->kind = (Step::Kind)r.number();
            step->name = r.text();
            step->number = vector_of<std::int64_t>(r.text());
            for (std::size_t k = r.count(); k > 0; k--) step->in.push_back(read_operand(r, *data));
            step->out = read_operand(r, *data);
            steps.push_back(step);
        }
    executable.data = data;
    return executable;
}

} // namespace poplar
