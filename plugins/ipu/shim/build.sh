#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# build.sh: compiles libbp_ipu_shim.so where Poplar's SDK is. Run it after the SDK's enable.sh, which
# sets the compiler's search paths, with the output file as argument.
#
#     . /opt/poplar_sdk/poplar-*/enable.sh
#     sh plugins/ipu/shim/build.sh libbp_ipu_shim.so
set -e
here=$(dirname "$0")
${CXX:-g++} -std=c++17 -O2 -Wall -Wextra -fPIC -shared -fvisibility=hidden -Wl,-z,defs $CXXFLAGS \
    "$here"/shim.cc "$here"/lower.cc "$here"/lower_activation.cc "$here"/lower_erf.cc \
    "$here"/lower_image.cc "$here"/lower_move.cc "$here"/lower_norm.cc \
    "$here"/lower_update.cc -o "${1:-libbp_ipu_shim.so}" \
    $LDFLAGS ${POPLAR_LIBS:--lpoplar -lpoputil -lpopops -lpoplin -lpopnn}
