#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# sdk.sh: builds Backplane from its source and installs it, unless it is installed already: in CI, on a bare Debian 12,
# as root. BACKPLANE_URL is the address of a git repository, or of a .tar.gz of the source.
set -eu
umask 022 # plugins that other users may write to are not loaded

url=${BACKPLANE_URL:-@sdk@}
if pkg-config --exists backplane 2>/dev/null; then
    echo "sdk.sh: uses Backplane $(pkg-config --modversion backplane), which is installed"
    exit 0
fi
if [ -z "$url" ]; then
    echo "sdk.sh: Backplane is not installed. Set the variable BACKPLANE_URL in the settings of CI, to the address of" \
        "Backplane's git repository or of a .tar.gz of its source" >&2
    exit 1
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/source"
case $url in
*.tar.gz | *.tgz)
    case $url in
    *://*) curl -fsSL -o "$work/source.tar.gz" "$url" ;;
    *) cp "$url" "$work/source.tar.gz" ;;
    esac
    tar -xzf "$work/source.tar.gz" -C "$work/source" --strip-components=1
    ;;
*) git clone --quiet --depth 1 "$url" "$work/source" ;;
esac
"$work/source/dev" build # installs the packages that it needs
meson install -C "$work/source/build" --no-rebuild --quiet
ldconfig
