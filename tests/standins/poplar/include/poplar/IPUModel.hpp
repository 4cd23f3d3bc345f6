/* SPDX-License-Identifier: Apache-2.0 */
/* IPUModel.hpp: a device that runs on the host. */
#ifndef POPLAR_IPU_MODEL_HPP
#define POPLAR_IPU_MODEL_HPP

#include <poplar/DeviceManager.hpp>

namespace poplar {

struct POPLAR_API IPUModel {
    explicit IPUModel(const char *version = "ipu2");
    unsigned numIPUs = 1, tilesPerIPU;
    bool compileIPUCode = true;
    Device createDevice(const OptionFlags &options = {}) const;
};

} // namespace poplar

#endif
