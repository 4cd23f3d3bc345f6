#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# build.sh: builds the plugin alone, against an installed Backplane: sh build.sh [flags for the compiler]
set -e
cd "$(dirname "$0")"
${CC:-cc} -std=c11 -D_GNU_SOURCE -O2 -g -Wall -Wextra -fPIC -fvisibility=hidden \
    $(pkg-config --cflags backplane 2>/dev/null) "$@" \
    -shared -Wl,-z,now,-z,defs,-z,nodelete -Wl,--version-script=plugin.map \
    -o bp_template.so ./*.c -lpthread -lm
