/* SPDX-License-Identifier: Apache-2.0 */
/* shim.cc: implements devices, programs and runs of shim.h. Each function of the interface catches
 * what Poplar throws. Program 0 of an executable copies the inputs, computes, and copies the
 * outputs; each input that stays on the device, and each weight, has a program that copies it, and
 * each updated input one that copies its value to the host. */
#include "internal.hpp"

#include <poplar/IPUModel.hpp>
#include <poplar/exceptions.hpp>
#include <poputil/TileMapping.hpp>

#include <cstring>
#include <functional>
#include <mutex>
#include <new>
#include <sstream>

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace {

/* One device. The lock is held while a program is loaded or runs. */
struct ipu_device {
    poplar::Device poplar;
    std::mutex lock;
    bool attached = false;
    bp_ipu_program *loaded = nullptr;
};

/* The contents of a kept input that the device has. */
struct kept {
    const void *data = nullptr;
    uint64_t memory = 0, version = 0; /* memory 0: none */
};

/* The value of an updated input. */
struct state {
    bool newer = false;   /* than the memory of the input */
    bool on_host = false; /* a newer value is in `saved`, because the device has another program */
    bool lost = false;    /* the run that was to leave it has failed */
    std::vector<char> saved;
};

struct cancelled {};
struct in_use {};
struct stale {};

thread_local std::string last_error;

/* A stream of a program: an input, a weight, an output, or the value of an updated input. */
struct stream {
    std::string handle;
    uint32_t tensor = 0;  /* number in the graph */
    unsigned program = 0; /* copies it alone; 0: program 0 does */
    std::size_t bytes = 0;
};

} // namespace

/* The devices of a target. Poplar attaches a process to a device once, so that all objects of a
 * target share one list; the last one detaches. */
struct bp_ipu_list {
    std::vector<std::unique_ptr<ipu_device>> devices;
    ~bp_ipu_list();
};

struct bp_ipu {
    uint32_t target;
    std::shared_ptr<bp_ipu_list> list;
    ipu_device &device(uint32_t number) const
    {
        return *list->devices.at(number);
    }
};

struct bp_ipu_program {
    ipu_device *device;
    std::shared_ptr<const poplar::Executable> executable; /* without options that a load needs */
    std::unique_ptr<poplar::Engine> engine;
    std::vector<stream> in, weight, out;
    std::vector<stream> back;       /* of each input: to the host; program 0: it is not updated */
    std::vector<const void *> data; /* of each weight */
    std::vector<kept> contents;     /* of each input */
    std::vector<state> values;      /* of each input */
    unsigned n_program;             /* of the executable */
    bool has_fault;                 /* the executable has a stream for index faults */
    unsigned char fault;
};

namespace {

int failed(int code, const char *text)
{
    last_error = text;
    for (char &c : last_error)
        if (c == '\n' || c == '\r') c = ' ';
    return code;
}

/* Runs the body of a function of the interface. */
int guarded(const std::function<void()> &body)
{
    try {
        body();
        return BP_IPU_OK;
    } catch (const cancelled &) {
        return failed(BP_IPU_CANCELLED, "cancelled");
    } catch (const in_use &) {
        return failed(BP_IPU_IN_USE, "another process is attached to the device");
    } catch (const stale &) {
        return failed(BP_IPU_STALE, "the saved bytes are no executable of this graph");
    } catch (const unsupported &e) {
        return failed(BP_IPU_UNSUPPORTED, e.what());
    } catch (const poplar::graph_memory_allocation_error &e) {
        return failed(BP_IPU_MEMORY, e.what());
    } catch (const poplar::unrecoverable_runtime_error &e) {
        return failed(BP_IPU_LOST, e.what());
    } catch (const std::bad_alloc &) {
        return failed(BP_IPU_NO_HOST, "no memory of the host");
    } catch (const std::exception &e) {
        return failed(BP_IPU_FAILED, e.what());
    } catch (...) {
        return failed(BP_IPU_FAILED, "an exception of an unknown type");
    }
}

std::size_t tensor_count(const bp_ipu_tensor &t)
{
    std::size_t n = 1;

    for (std::size_t extent : shape_of(t)) n *= extent;
    return n;
}

/* Whether a tensor may be the new value of an input. */
bool is_new_value(const bp_ipu_graph &graph, int32_t in, int32_t after)
{
    const bp_ipu_tensor &a = graph.tensor[in], &b = graph.tensor[after];
    bool computes = false;

    for (uint32_t i = 0; i < graph.n_node; i++)
        for (uint32_t k = 0; k < graph.node[i].n_out; k++)
            if (graph.node[i].out[k] == after) computes = is_update(graph.node[i].op);
    return computes && a.kind == BP_IPU_KEPT && a.type == b.type && shape_of(a) == shape_of(b);
}

void check_graph(const bp_ipu_graph &graph)
{
    auto is_tensor = [&](int32_t number) {
        return number >= 0 && (uint32_t)number < graph.n_tensor;
    };
    bool good = graph.size >= sizeof graph;

    for (uint32_t i = 0; good && i < graph.n_tensor; i++)
        good = graph.tensor[i].type < BP_IPU_TYPES && graph.tensor[i].rank <= BP_IPU_RANK &&
               (graph.tensor[i].kind != BP_IPU_WEIGHT || graph.tensor[i].data);
    for (uint32_t i = 0; good && i < graph.n_node; i++) {
        good = graph.node[i].n_out > 0;
        for (uint32_t k = 0; good && k < graph.node[i].n_out; k++)
            good = is_tensor(graph.node[i].out[k]);
        for (uint32_t k = 0; good && k < graph.node[i].n_in; k++)
            good = graph.node[i].in[k] == BP_IPU_NONE || is_tensor(graph.node[i].in[k]);
    }
    for (uint32_t i = 0; good && i < graph.n_in; i++) good = is_tensor(graph.in[i]);
    for (uint32_t i = 0; good && i < graph.n_out; i++) good = is_tensor(graph.out[i]);
    for (uint32_t i = 0; good && graph.after && i < graph.n_in; i++)
        good = graph.after[i] == BP_IPU_NONE ||
               (is_tensor(graph.after[i]) && is_new_value(graph, graph.in[i], graph.after[i]));
    if (!good) throw unsupported("the graph contradicts itself");
}

/* Whether a node checks indices. */
bool has_indices(const bp_ipu_node &node)
{
    return node.op == BP_IPU_OP_gather ||
           (node.op == BP_IPU_OP_cache_write && node.n_in > 2 && node.in[2] != BP_IPU_NONE);
}

/* Names the streams of a program: which there are follows from the graph alone. */
void name_streams(const bp_ipu_graph &graph, bp_ipu_program &p)
{
    unsigned next = 1;
    auto make = [&](const char *kind, uint32_t i, uint32_t tensor, bool alone) {
        const bp_ipu_tensor &t = graph.tensor[tensor];
        return stream{kind + std::to_string(i), tensor, alone ? next++ : 0,
                      tensor_count(t) * type_bytes(t.type)};
    };

    for (uint32_t i = 0; i < graph.n_in; i++) {
        uint32_t t = (uint32_t)graph.in[i];
        p.in.push_back(make("in", i, t, graph.tensor[t].kind == BP_IPU_KEPT));
        p.back.emplace_back();
        if (graph.after && graph.after[i] != BP_IPU_NONE)
            p.back.back() = make("back", i, (uint32_t)graph.after[i], true);
    }
    for (uint32_t t = 0; t < graph.n_tensor; t++)
        if (graph.tensor[t].kind == BP_IPU_WEIGHT) {
            p.weight.push_back(make("weight", t, t, true));
            p.data.push_back(graph.tensor[t].data);
        }
    for (uint32_t i = 0; i < graph.n_out; i++)
        p.out.push_back(make("out", i, (uint32_t)graph.out[i], false));
    p.contents.assign(graph.n_in, kept());
    p.values.assign(graph.n_in, state());
    p.n_program = next;
    p.has_fault = false;
    for (uint32_t i = 0; i < graph.n_node; i++) p.has_fault |= has_indices(graph.node[i]);
}

/* A variable that a stream of the host fills, in the program with the stream's number. */
void write_source(lowering &l, const stream &s, std::vector<poplar::program::Sequence> &programs)
{
    const bp_ipu_tensor &t = l.from.tensor[s.tensor];
    poplar::Type type = type_of(t.type);
    poplar::Tensor variable = l.graph.addVariable(type, shape_of(t), s.handle);
    poplar::DataStream from = l.graph.addHostToDeviceFIFO(s.handle, type, tensor_count(t));

    poputil::mapTensorLinearly(l.graph, variable);
    programs[s.program].add(poplar::program::Copy(from, variable));
    l.tensor[s.tensor] = variable;
}

/* The new value of an updated input replaces the old one, which no node reads any more. */
void write_update(lowering &l, const stream &in, const stream &back,
                  std::vector<poplar::program::Sequence> &programs)
{
    const bp_ipu_tensor &t = l.from.tensor[back.tensor];
    const poplar::Tensor &variable = l.tensor[in.tensor], &value = l.tensor[back.tensor];

    if (!value.valid()) throw unsupported("an updated input that no node updates");
    l.program.add(poplar::program::Copy(value, variable));
    programs[back.program].add(poplar::program::Copy(
        variable, l.graph.addDeviceToHostFIFO(back.handle, type_of(t.type), tensor_count(t))));
}

/* Elements that variables hold in another order, or twice, are copied before the host reads them. */
void write_output(lowering &l, const stream &s)
{
    const bp_ipu_tensor &t = l.from.tensor[s.tensor];
    poplar::Type type = type_of(t.type);
    poplar::Tensor copy = l.graph.addVariable(type, shape_of(t), s.handle);
    poplar::DataStream to = l.graph.addDeviceToHostFIFO(s.handle, type, tensor_count(t));

    if (!l.tensor[s.tensor].valid()) throw unsupported("an output that no node makes");
    poputil::mapTensorLinearly(l.graph, copy);
    l.program.add(poplar::program::Copy(l.tensor[s.tensor], copy));
    l.program.add(poplar::program::Copy(copy, to));
}

void report(const bp_ipu_graph &graph, double done)
{
    if (graph.progress && graph.progress(graph.ctx, done)) throw cancelled();
}

/* Poplar's progress function must not throw: it only notes that the caller wants the end. */
poplar::Executable compile(const poplar::Target &target, const bp_ipu_graph &from,
                           bp_ipu_program &p)
{
    poplar::Graph graph(target);
    std::vector<poplar::program::Sequence> programs(p.n_program);
    lowering l(from, graph, programs[0]);
    bool ended = false;

    lower_begin(graph);
    for (const stream &s : p.in) write_source(l, s, programs);
    for (const stream &s : p.weight) write_source(l, s, programs);
    for (uint32_t i = 0; i < from.n_node; i++) {
        if (i % 16 == 0) report(from, 0.2 * i / from.n_node);
        lower_node(l, from.node[i]);
    }
    for (const stream &s : p.out) write_output(l, s);
    for (std::size_t i = 0; i < p.in.size(); i++)
        if (p.back[i].program) write_update(l, p.in[i], p.back[i], programs);
    if (p.has_fault) {
        poplar::Tensor fault = lower_fault(l);
        programs[0].add(
            poplar::program::Copy(fault, graph.addDeviceToHostFIFO("fault", poplar::BOOL, 1)));
    }
    report(from, 0.2);
    std::vector<poplar::program::Program> all(programs.begin(), programs.end());
    poplar::Executable executable = poplar::compileGraph(graph, all, {}, [&](int done, int of) {
        if (from.progress && from.progress(from.ctx, 0.2 + 0.8 * done / (of ? of : 1)))
            ended = true;
    });
    if (ended) throw cancelled();
    return executable;
}

/* Attaches to the device; the lock is held. */
void device_attach(ipu_device &d)
{
    if (d.attached) return;
    if (!d.poplar.attach()) throw in_use();
    d.attached = true;
}

/* Copies the value of an updated input from the device, which has the program; the lock is held. */
void value_fetch(bp_ipu_program &p, std::size_t i, void *to)
{
    const stream &back = p.back[i];

    p.engine->connectStream(back.handle, (char *)to, (char *)to + back.bytes);
    p.engine->run(back.program);
}

/* Saves newer values before the memory of the tiles is given to another program. A failure leaves
 * the program and its values where they are. */
void program_leave(bp_ipu_program &p)
{
    for (std::size_t i = 0; i < p.values.size(); i++) {
        state &value = p.values[i];
        if (!value.newer || value.on_host) continue;
        value.saved.resize(p.back[i].bytes);
        value_fetch(p, i, value.saved.data());
        value.on_host = true;
    }
    p.contents.assign(p.contents.size(), kept());
}

/* Makes the program the one that the device has; the lock is held. */
void program_load(bp_ipu_program &p)
{
    ipu_device &d = *p.device;

    device_attach(d);
    if (d.loaded) program_leave(*d.loaded);
    d.loaded = nullptr;
    if (!p.engine) p.engine = std::make_unique<poplar::Engine>(*p.executable);
    p.engine->load(d.poplar);
    if (p.has_fault) p.engine->connectStream("fault", &p.fault, &p.fault + 1);
    for (std::size_t i = 0; i < p.weight.size(); i++) {
        char *data = (char *)const_cast<void *>(p.data[i]);
        p.engine->connectStream(p.weight[i].handle, data, data + p.weight[i].bytes);
        p.engine->run(p.weight[i].program);
    }
    d.loaded = &p;
}

/* Makes sure that the device has the contents of an input. Returns whether they were copied. */
bool input_copy(bp_ipu_program &p, std::size_t i, const void *in, const bp_ipu_content &now)
{
    kept &old = p.contents[i];
    state &value = p.values[i];
    char *data = (char *)const_cast<void *>(in);
    bool same = now.memory && now.memory == old.memory && now.version == old.version &&
                data == old.data;

    if (value.lost) throw std::runtime_error("a value was lost in an earlier run that failed");
    if (value.newer) same = !value.on_host;
    if (value.newer && value.on_host) data = value.saved.data();
    if (!p.in[i].program || !same)
        p.engine->connectStream(p.in[i].handle, data, data + p.in[i].bytes);
    if (!p.in[i].program) return false;
    old = kept();
    if (!same) p.engine->run(p.in[i].program);
    value.on_host = false;
    old.data = in;
    old.memory = now.memory;
    old.version = now.after;
    return !same;
}

/* Notes how the run of program 0 ended: if it failed, nothing is known of the updated values. */
void values_end(bp_ipu_program &p, bool good)
{
    for (std::size_t i = 0; i < p.values.size(); i++) {
        if (!p.back[i].program) continue;
        p.values[i].newer = good;
        p.values[i].lost = !good;
        if (!good) p.contents[i] = kept();
    }
}

void program_run(bp_ipu_program &p, bp_ipu_launch &run)
{
    std::lock_guard<std::mutex> guard(p.device->lock);

    if (run.n_in != p.in.size() || run.n_out != p.out.size())
        throw unsupported("another number of pointers");
    run.out_loaded = p.device->loaded != &p;
    if (run.out_loaded) program_load(p);
    run.out_copied = 0;
    for (std::size_t i = 0; i < p.in.size(); i++)
        run.out_copied += input_copy(p, i, run.in[i],
                                     run.content ? run.content[i] : bp_ipu_content());
    for (std::size_t i = 0; i < p.out.size(); i++)
        p.engine->connectStream(p.out[i].handle, run.out[i], (char *)run.out[i] + p.out[i].bytes);
    p.fault = 0;
    try {
        p.engine->run(0);
    } catch (...) {
        values_end(p, false);
        throw;
    }
    values_end(p, true);
    run.out_fault = p.fault;
}

/* A newer value is on the device unless it was saved: the device has this program. */
void value_take(bp_ipu_program &p, std::size_t i, bool forget, void *data)
{
    std::lock_guard<std::mutex> guard(p.device->lock);

    if (i >= p.back.size() || !p.back[i].program) throw unsupported("the input is not updated");
    state &value = p.values[i];
    if (forget) {
        value = state();
        p.contents[i] = kept();
        return;
    }
    if (value.lost) throw std::runtime_error("the value was lost in a run that failed");
    if (value.newer && value.on_host) std::memcpy(data, value.saved.data(), p.back[i].bytes);
    else if (value.newer) value_fetch(p, i, data);
    if (value.on_host) value = state();
    value.newer = false;
}

std::vector<poplar::Device> devices_of(uint32_t target)
{
    if (target == BP_IPU_CPU) return {poplar::Device::createCPUDevice()};
    if (target == BP_IPU_MODEL) return {poplar::IPUModel("ipu2").createDevice()};
    return poplar::DeviceManager::createDeviceManager().getDevices(poplar::TargetType::IPU, 1);
}

std::shared_ptr<bp_ipu_list> list_open(uint32_t target)
{
    static std::mutex lock;
    static std::weak_ptr<bp_ipu_list> opened[BP_IPU_CPU + 1];
    std::lock_guard<std::mutex> guard(lock);
    std::shared_ptr<bp_ipu_list> list = opened[target].lock();

    if (list) return list;
    list = std::make_shared<bp_ipu_list>();
    for (poplar::Device &d : devices_of(target)) {
        list->devices.push_back(std::make_unique<ipu_device>());
        list->devices.back()->poplar = std::move(d);
    }
    opened[target] = list;
    return list;
}

std::unique_ptr<bp_ipu_program> program_begin(bp_ipu &ipu, uint32_t number,
                                              const bp_ipu_graph &graph)
{
    auto p = std::make_unique<bp_ipu_program>();

    check_graph(graph);
    p->device = &ipu.device(number);
    name_streams(graph, *p);
    return p;
}

} // namespace

poplar::Type type_of(uint32_t type)
{
    const poplar::Type types[] = {poplar::FLOAT, poplar::HALF,        poplar::INT,
                                  poplar::BOOL,  poplar::SIGNED_CHAR, poplar::UNSIGNED_CHAR};

    return types[type];
}

std::size_t type_bytes(uint32_t type)
{
    static const std::size_t bytes[] = {4, 2, 4, 1, 1, 1};

    return bytes[type];
}

std::vector<std::size_t> shape_of(const bp_ipu_tensor &t)
{
    return std::vector<std::size_t>(t.shape, t.shape + t.rank);
}

EXPORT uint32_t bp_ipu_version(void)
{
    return BP_IPU_SHIM_VERSION;
}

EXPORT const char *bp_ipu_error(void)
{
    return last_error.c_str();
}

EXPORT int bp_ipu_open(uint32_t target, bp_ipu **out)
{
    return guarded([&] {
        auto ipu = std::make_unique<bp_ipu>();
        if (target > BP_IPU_CPU) throw unsupported("there is no such target");
        ipu->target = target;
        ipu->list = list_open(target);
        *out = ipu.release();
    });
}

bp_ipu_list::~bp_ipu_list()
{
    for (auto &d : devices)
        guarded([&] {
            if (d->attached) d->poplar.detach();
        });
}

EXPORT void bp_ipu_close(bp_ipu *ipu)
{
    delete ipu;
}

EXPORT uint32_t bp_ipu_device_count(const bp_ipu *ipu)
{
    return (uint32_t)ipu->list->devices.size();
}

EXPORT int bp_ipu_device_info(const bp_ipu *ipu, uint32_t number, bp_ipu_facts *out)
{
    return guarded([&] {
        static const char *const names[] = {"IPU ", "IPUModel ", "Poplar's cpu target "};
        const poplar::Device &d = ipu->device(number).poplar;
        const poplar::Target &target = d.getTarget();
        std::string name = names[ipu->target] + std::to_string(d.getId()) + ", " +
                           std::to_string(target.getNumTiles()) + " tiles";
        bp_ipu_facts info = {};
        info.size = out->size;
        info.id = d.getId();
        info.tiles = target.getNumTiles();
        info.bytes_per_tile = ipu->target == BP_IPU_CPU ? 0 : target.getBytesPerTile();
        name.copy(info.name, sizeof info.name - 1);
        *out = info;
    });
}

EXPORT int bp_ipu_compile(bp_ipu *ipu, uint32_t number, const bp_ipu_graph *graph,
                          bp_ipu_program **out)
{
    return guarded([&] {
        auto p = program_begin(*ipu, number, *graph);
        p->executable = std::make_shared<poplar::Executable>(
            compile(p->device->poplar.getTarget(), *graph, *p));
        *out = p.release();
    });
}

EXPORT int bp_ipu_restore(bp_ipu *ipu, uint32_t number, const bp_ipu_graph *graph, const void *data,
                          uint64_t size, bp_ipu_program **out)
{
    return guarded([&] {
        auto p = program_begin(*ipu, number, *graph);
        std::istringstream in(std::string((const char *)data, size));
        try {
            p->executable = std::make_shared<poplar::Executable>(
                poplar::Executable::deserialize(in));
        } catch (const std::bad_alloc &) {
            throw;
        } catch (const std::exception &) {
            throw stale();
        }
        *out = p.release();
    });
}

EXPORT int bp_ipu_share(bp_ipu_program *program, const bp_ipu_graph *graph, bp_ipu_program **out)
{
    return guarded([&] {
        auto p = std::make_unique<bp_ipu_program>();
        check_graph(*graph);
        p->device = program->device;
        name_streams(*graph, *p);
        if (p->weight.size() != program->weight.size() || p->in.size() != program->in.size() ||
            p->n_program != program->n_program)
            throw stale();
        p->executable = program->executable;
        *out = p.release();
    });
}

EXPORT int bp_ipu_save(bp_ipu_program *program, void *ctx,
                       int (*write)(void *ctx, const void *data, uint64_t size), int *out_write)
{
    int code = guarded([&] {
        std::ostringstream bytes;
        program->executable->serialize(bytes);
        const std::string all = bytes.str();
        *out_write = write(ctx, all.data(), all.size());
        if (*out_write) throw std::runtime_error("the caller could not write");
    });

    return code;
}

EXPORT void bp_ipu_destroy(bp_ipu_program *program)
{
    guarded([&] {
        std::lock_guard<std::mutex> guard(program->device->lock);
        if (program->device->loaded == program) program->device->loaded = nullptr;
        program->engine.reset();
    });
    delete program;
}

EXPORT int bp_ipu_run(bp_ipu_program *program, bp_ipu_launch *run)
{
    return guarded([&] { program_run(*program, *run); });
}

EXPORT int bp_ipu_state(bp_ipu_program *program, uint32_t input, uint32_t forget, void *data)
{
    return guarded([&] { value_take(*program, input, forget != 0, data); });
}
