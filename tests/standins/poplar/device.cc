/* SPDX-License-Identifier: Apache-2.0 */
/* device.cc: implements devices. Hardware is as many devices as BP_STANDIN_DEVICES says, with 1,472
 * tiles that share BP_STANDIN_MEMORY. BP_STANDIN_BUSY is a list of numbers of devices to which
 * another process is attached. */
#include "internal.hpp"

#include <poplar/IPUModel.hpp>

#include <cstdarg>
#include <cstdlib>
#include <cstring>
#include <mutex>

namespace poplar {
namespace {

const unsigned TILES = 1472;
const std::size_t TILE_BYTES = 624 * 1024;

base_vendor vendor = {"poplar", 1, 0, 0, {}};
std::mutex vendor_lock;
std::vector<std::shared_ptr<DeviceData>> hardware;

bool is_busy(unsigned id)
{
    const char *list = std::getenv("BP_STANDIN_BUSY");
    std::string wanted = "," + std::to_string(id) + ",", all = list ? list : "";

    return ("," + all + ",").find(wanted) != std::string::npos;
}

std::shared_ptr<DeviceData> device_make(unsigned id, TargetType type, unsigned tiles,
                                        std::size_t bytes)
{
    auto d = std::make_shared<DeviceData>();

    d->id = id;
    d->target.type = type;
    d->target.tiles = tiles;
    d->target.bytes = bytes;
    return d;
}

} // namespace

std::atomic<int> standin_objects{0};

void standin_call(const char *name)
{
    int code = base_enter(name);

    base_leave(code);
    switch (code) {
    case 0: return;
    case 1: throw graph_memory_allocation_error(std::string(name) + ": told to run out of memory");
    case 2: throw recoverable_runtime_error(std::string(name) + ": told to fail, recoverable");
    case 3: throw unrecoverable_runtime_error(std::string(name) + ": told to fail for good");
    case 4: throw application_runtime_error(std::string(name) + ": told to fail");
    default: throw poplar_error(std::string(name) + ": told to fail");
    }
}

extern "C" BASE_API int standin_poplar_live(void);
extern "C" int standin_poplar_live(void)
{
    return standin_objects;
}

void standin_misuse(const char *format, ...)
{
    char text[400];
    va_list list;

    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    base_lock();
    base_misuse(1, "%s", text);
    base_unlock();
    throw poplar_error(text);
}

unsigned Device::getId() const
{
    return data->id;
}

const Target &Device::getTarget() const
{
    return data->target;
}

bool Device::attach() const
{
    standin_call("poplar.Device.attach");
    std::lock_guard<std::mutex> guard(vendor_lock);
    if (data->attached || is_busy(data->id)) return false;
    data->attached = true;
    return true;
}

void Device::detach() const
{
    standin_call("poplar.Device.detach");
    std::lock_guard<std::mutex> guard(vendor_lock);
    if (!data->attached) standin_misuse("detach: device %u is not attached", data->id);
    data->attached = false;
    data->loaded = nullptr;
}

Device Device::createCPUDevice()
{
    Device d;

    d.data = device_make(0, TargetType::CPU, 1, 0);
    return d;
}

IPUModel::IPUModel(const char *version) : tilesPerIPU(TILES)
{
    if (std::strcmp(version, "ipu1") && std::strcmp(version, "ipu2"))
        throw poplar_error("IPUModel: there is no such version");
}

Device IPUModel::createDevice(const OptionFlags &) const
{
    Device d;

    if (numIPUs != 1) throw poplar_error("IPUModel: one IPU only");
    d.data = device_make(0, TargetType::IPU_MODEL, tilesPerIPU, TILE_BYTES);
    return d;
}

DeviceManager DeviceManager::createDeviceManager()
{
    standin_call("poplar.DeviceManager.createDeviceManager");
    std::lock_guard<std::mutex> guard(vendor_lock);
    if (!hardware.empty()) return DeviceManager();
    base_lock();
    base_vendor_open(&vendor);
    base_unlock();
    for (int i = 0; i < vendor.n_device; i++) {
        base_device &base = vendor.device[i];
        std::size_t bytes = std::getenv("BP_STANDIN_MEMORY") ? base.total / TILES : TILE_BYTES;
        hardware.push_back(device_make((unsigned)i, TargetType::IPU, TILES, bytes));
        hardware.back()->base = &base;
    }
    return DeviceManager();
}

std::vector<Device> DeviceManager::getDevices(TargetType type, unsigned requiredNumIPUs,
                                              const OptionFlags &) const
{
    std::vector<Device> found;

    standin_call("poplar.DeviceManager.getDevices");
    if (type != TargetType::IPU || requiredNumIPUs != 1) return found;
    for (const auto &data : hardware) {
        found.emplace_back();
        found.back().data = data;
    }
    return found;
}

} // namespace poplar
