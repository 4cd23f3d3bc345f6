#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# sdk.sh: installs Backplane, unless it is installed already: in CI, on a bare Debian 12, as root. BACKPLANE_URL is an
# address, or a path from the top of this repository:
#   of a .tar.gz of an installed Backplane (bin, include, lib, share), which is unpacked in a moment;
#   of a .tar.gz of the source, or of a git repository, from which Backplane is built in some minutes.
# BACKPLANE_REF is the branch or tag of the git repository, if not its default branch.
set -eu
umask 022 # plugins that other users may write to are not loaded

prefix=${BACKPLANE_PREFIX:-/usr/local}
url=${BACKPLANE_URL:-@sdk@}
[ -n "$url" ] || [ ! -e ci/backplane.tar.gz ] || url=ci/backplane.tar.gz
if pkg-config --exists backplane 2>/dev/null; then
    echo "sdk.sh: uses Backplane $(pkg-config --modversion backplane), which is installed"
    exit 0
fi
if [ -z "$url" ]; then
    echo "sdk.sh: Backplane is not installed, and there is no ci/backplane.tar.gz. Commit this archive of an installed" \
        "Backplane, or set the variable BACKPLANE_URL in the settings of CI, to the address of such an archive, of" \
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
    # Plugins that belong to other users are not loaded.
    tar -xzf "$work/source.tar.gz" -C "$work/source" --no-same-owner --no-same-permissions
    ;;
*) git clone --quiet --depth 1 ${BACKPLANE_REF:+--branch "$BACKPLANE_REF"} "$url" "$work/source" ;;
esac
# An archive may have a folder around its files.
for top in "$work/source" "$work/source"/* "$work/source/usr/local"; do
    if [ -x "$top/bin/bp" ]; then
        mkdir -p "$prefix"
        cp -R "$top/." "$prefix"
    elif [ -x "$top/dev" ]; then
        "$top/dev" build # installs the packages that it needs
        meson install -C "$top/build" --no-rebuild --quiet
    else
        continue
    fi
    [ "$prefix" != /usr/local ] || ldconfig
    echo "sdk.sh: installed Backplane from $url"
    exit 0
done
echo "sdk.sh: $url: expected bin/bp of an installed Backplane, or dev of its source" >&2
exit 1
