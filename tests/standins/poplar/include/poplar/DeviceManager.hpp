/* SPDX-License-Identifier: Apache-2.0 */
/* DeviceManager.hpp: devices of the machine. A device must be attached before a program is loaded
 * onto it; one process at a time can attach to a device. */
#ifndef POPLAR_DEVICE_MANAGER_HPP
#define POPLAR_DEVICE_MANAGER_HPP

#include <poplar/Graph.hpp>

namespace poplar {

struct DeviceData; /* the stand-in's own: internal.hpp */

class POPLAR_API Device {
  public:
    Device()
    {
    }
    unsigned getId() const;
    bool attach() const;
    void detach() const;
    const Target &getTarget() const;
    static Device createCPUDevice();

    std::shared_ptr<DeviceData> data; /* the stand-in's own */
};

class POPLAR_API DeviceManager {
  public:
    static DeviceManager createDeviceManager();
    std::vector<Device> getDevices(TargetType type, unsigned requiredNumIPUs,
                                   const OptionFlags &options = {}) const;
};

} // namespace poplar

#endif
