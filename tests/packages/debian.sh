#!/bin/sh
# Builds the packages of debian/ from a copy of the tree, unpacks them and makes a kernel and a program with what is in them:
# debian.sh SOURCE WORK. Exit status 77: the tools are not here.
set -eu
source=$1 work=$2
[ -z "${FLASHTL_KERNELS:-}" ] || { echo 'skipped: the library is built once more for this; make test-all does'; exit 77; }
for tool in dpkg-buildpackage dh fakeroot pkg-config; do
    command -v $tool > /dev/null || { echo "skipped: $tool is not here"; exit 77; }
done
version=$(sed -n 's/^project(flashtl VERSION \([0-9.]*\).*/\1/p' "$source/CMakeLists.txt")
rm -rf "$work"
mkdir -p "$work/source" "$work/root"
cd "$source"
git ls-files -z 2> /dev/null | xargs -0 cp --parents -t "$work/source" || { echo 'skipped: this is no clone'; exit 77; }
cd "$work/source"
! command -v ccache > /dev/null || { CMAKE_C_COMPILER_LAUNCHER=ccache; export CMAKE_C_COMPILER_LAUNCHER; }
DEB_BUILD_OPTIONS="noopt noautodbgsym parallel=${JOBS:-2}" dpkg-buildpackage -b -us -uc > "$work/log" 2>&1 || {
    grep -q 'Unmet build dependencies' "$work/log" && { grep 'Unmet' "$work/log"; exit 77; }
    tail -40 "$work/log"
    exit 1
}
for package in flashtl libflashtl0.1 libflashtl-dev; do
    dpkg-deb -x "$work/${package}_${version}_"*.deb "$work/root"
    dpkg-deb -f "$work/${package}_${version}_"*.deb Depends
done
# What the packages hold is all that is installed, and each has its part.
test -x "$work/root/usr/bin/flashtl"
test -f "$work/root/usr/share/man/man1/flashtl.1.gz"
test -f "$work/root/usr/share/doc/libflashtl0.1/copyright"
dpkg-deb -f "$work/libflashtl0.1_${version}_"*.deb Depends | grep -q libjansson4
"$work/root/usr/bin/flashtl" sketch gqa | "$work/root/usr/bin/flashtl" check
pc=$(find "$work/root" -name flashtl.pc)
flags=$(PKG_CONFIG_PATH=$(dirname "$pc") pkg-config --cflags --libs flashtl)
cc "$source/tests/install/client.c" $flags -o "$work/client"
test "$(LD_LIBRARY_PATH=$(dirname "$(dirname "$pc")") "$work/client")" = "kernel attention, $version"
echo "packages: $(du -bc "$work"/*.deb | tail -1 | cut -f 1) bytes"
rm -rf "$work"
