/* SPDX-License-Identifier: Apache-2.0 */
/* engine.cc: loads executables onto devices and runs their programs. A device has the program of
 * one engine: loading another one takes the memory of the tiles. */
#include "internal.hpp"

#include <cstring>

namespace poplar {
namespace {

/* Bytes that streams have copied: to devices, and to the host. */
std::atomic<std::uint64_t> copied_bytes[2];

/* Notices that two threads use a device at once. */
struct Busy {
    DeviceData &device;
    explicit Busy(DeviceData &device, const char *name) : device(device)
    {
        if (device.busy.exchange(true))
            standin_misuse("%s: another thread uses device %u", name, device.id);
    }
    ~Busy()
    {
        device.busy = false;
    }
};

std::size_t operand_count(const Operand &o)
{
    std::size_t n = 0;

    for (const Run &run : o.runs) n += run.count;
    return n;
}

/* Copies elements, each `bytes` large, of two rows with distances in bytes. */
void elements_copy(char *to, std::size_t to_step, const char *from, std::size_t from_step,
                   std::size_t bytes, std::size_t count)
{
    if (to_step == bytes && from_step == bytes) std::memmove(to, from, bytes * count);
    else if (bytes == 4)
        for (std::size_t i = 0; i < count; i++)
            std::memcpy(to + i * to_step, from + i * from_step, 4);
    else
        for (std::size_t i = 0; i < count; i++)
            std::memcpy(to + i * to_step, from + i * from_step, bytes);
}

/* The contents of an operand: in place if its elements are in a row, else in `copy`. */
char *operand_read(EngineData &e, const Operand &o, std::vector<char> &copy)
{
    std::size_t bytes = base_dtype_size(o.dtype), at = 0;

    if (o.runs.size() == 1 && o.runs[0].step == 1)
        return e.memory[o.runs[0].variable].data() + o.runs[0].offset * bytes;
    copy.resize(operand_count(o) * bytes);
    for (const Run &run : o.runs) {
        elements_copy(copy.data() + at, bytes, e.memory[run.variable].data() + run.offset * bytes,
                      run.step * bytes, bytes, run.count);
        at += run.count * bytes;
    }
    return copy.data();
}

void operand_write(EngineData &e, const Operand &o, const char *from)
{
    std::size_t bytes = base_dtype_size(o.dtype), at = 0;

    for (const Run &run : o.runs) {
        elements_copy(e.memory[run.variable].data() + run.offset * bytes, run.step * bytes,
                      from + at, bytes, bytes, run.count);
        at += run.count * bytes;
    }
}

base_tensor tensor_of(const Operand &o, void *data)
{
    if (o.shape.size() > BASE_RANK) throw poplar_error("a tensor of too many dimensions");
    return base_tensor_of(data, o.dtype, (int)o.shape.size(), o.shape.data());
}

void step_compute(EngineData &e, const Step &step)
{
    std::vector<std::vector<char>> copy(step.in.size());
    std::vector<base_tensor> in;
    std::vector<char> result(operand_count(step.out) * base_dtype_size(step.out.dtype));

    for (std::size_t i = 0; i < step.in.size(); i++)
        in.push_back(tensor_of(step.in[i], operand_read(e, step.in[i], copy[i])));
    standin_compute(step, in, tensor_of(step.out, result.data()));
    operand_write(e, step.out, result.data());
}

char *connected(EngineData &e, const std::string &handle)
{
    auto it = e.connected.find(handle);

    if (it == e.connected.end())
        throw stream_connection_error("stream '" + handle + "' is not connected");
    return it->second.begin;
}

void step_run(EngineData &e, const Step &step)
{
    std::vector<char> copy;

    switch (step.kind) {
    case Step::COPY: {
        const char *from = operand_read(e, step.in[0], copy);
        std::vector<char> all(from,
                              from + operand_count(step.in[0]) * base_dtype_size(step.out.dtype));
        operand_write(e, step.out, all.data());
        break;
    }
    case Step::FROM_HOST:
        operand_write(e, step.out, connected(e, step.name));
        copied_bytes[0] += operand_count(step.out) * base_dtype_size(step.out.dtype);
        break;
    case Step::TO_HOST: {
        char *to = connected(e, step.name);
        const char *from = operand_read(e, step.in[0], copy);
        std::memcpy(to, from, operand_count(step.in[0]) * base_dtype_size(step.in[0].dtype));
        copied_bytes[1] += operand_count(step.in[0]) * base_dtype_size(step.in[0].dtype);
        break;
    }
    case Step::COMPUTE: step_compute(e, step); break;
    }
}

} // namespace

/* For tests. */
extern "C" BASE_API std::uint64_t standin_poplar_copied(int to_host);
extern "C" std::uint64_t standin_poplar_copied(int to_host)
{
    return copied_bytes[to_host != 0];
}

Engine::Engine(const Executable &executable, const OptionFlags &) : data(new EngineData)
{
    standin_call("poplar.Engine.Engine");
    data->executable = executable.data;
    standin_objects++;
}

Engine::~Engine()
{
    if (data->device && data->device->loaded == data.get()) data->device->loaded = nullptr;
    standin_objects--;
}

void Engine::load(const Device &device)
{
    standin_call("poplar.Engine.load");
    if (device.data->base && !device.data->attached)
        throw poplar_error("load: the device is not attached");
    if (!(device.data->target == data->executable->target))
        throw poplar_error("load: the program was compiled for another target");
    Busy busy(*device.data, "load");
    data->device = device.data;
    device.data->loaded = data.get();
    data->memory.clear();
    for (const Variable &v : data->executable->variable) {
        /* Variables have no contents until a program writes them: every element is NaN. */
        std::vector<char> bytes(v.count * standin_bytes(v.type), (char)0xff);
        if (v.is_constant) bytes = v.contents;
        data->memory.push_back(bytes);
    }
}

void Engine::connectStream(StringRef handle, void *begin, void *end)
{
    std::string name = handle;
    auto it = data->executable->stream.find(name);

    standin_call("poplar.Engine.connectStream");
    if (it == data->executable->stream.end())
        throw stream_connection_error("there is no stream '" + name + "'");
    if ((std::size_t)((char *)end - (char *)begin) !=
        it->second.count * standin_bytes(it->second.type))
        throw stream_connection_error("stream '" + name + "' has another size");
    data->connected[name] = {(char *)begin, (char *)end};
}

void Engine::run(unsigned program)
{
    if (!data->device || data->device->loaded != data.get())
        standin_misuse("run: the device does not have this engine's program");
    Busy busy(*data->device, "run");
    standin_call("poplar.Engine.run");
    if (data->device->base && !data->device->attached)
        throw poplar_error("run: the device is not attached");
    if (program >= data->executable->program.size()) throw poplar_error("run: no such program");
    for (const auto &step : data->executable->program[program]) step_run(*data, *step);
}

} // namespace poplar
