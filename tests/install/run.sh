#!/bin/sh
# Installs a build into an empty folder and uses it from there: by find_package, by pkg-config, from
# C++; checks that the library shows nothing but its API and needs nothing but libc.
set -eu
build=$1
version=$2
sources=$(dirname "$(realpath "$0")")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
expected="kernel attention, $version"

cmake --install "$build" --prefix "$work/root" > "$work/log"
cmake -S "$sources" -B "$work/client" -DCMAKE_PREFIX_PATH="$work/root" > "$work/log"
cmake --build "$work/client" > "$work/log"
test "$("$work/client/client")" = "$expected"

PKG_CONFIG_PATH=$(dirname "$(find "$work/root" -name flashtl.pc)")
export PKG_CONFIG_PATH
libraries=$(pkg-config --variable=libdir flashtl)
case $libraries in /*) ;; *) echo "libdir is not absolute: $libraries"; exit 1 ;; esac
# The prefix in the file is that of the configured build; the installed copy stands elsewhere.
flags=$(pkg-config --define-variable=prefix="$work/root" --cflags --libs flashtl)
cc "$sources/client.c" $flags -o "$work/client_pc"
library=$(find "$work/root" -name 'libflashtl.so')
test "$(LD_LIBRARY_PATH=$(dirname "$library") "$work/client_pc")" = "$expected"

c++ -x c++ -fsyntax-only -Wall -Wextra -Werror "$sources/client.c" -I "$work/root/include"
for standard in c++11 c++17 c++20; do
    c++ -std=$standard -fsyntax-only -Wall -Wextra -Wpedantic -Werror "$sources/client.cpp" -I "$work/root/include"
done
c++ -std=c++17 "$sources/client.cpp" $flags -o "$work/client_cpp"
LD_LIBRARY_PATH=$(dirname "$library") "$work/client_cpp" || { echo "the program in C++ fails"; exit 1; }
for header in "$work/root"/include/flashtl/*.h; do
    echo "#include <flashtl/$(basename "$header")>" |
        cc -std=c11 -Wall -Wextra -Wpedantic -Werror -fsyntax-only -I "$work/root/include" -x c -
done

# The interface may change with each minor version, and the library's name says so.
soname=$(readelf -d "$library" | sed -n 's/.*SONAME.*\[\(.*\)\]/\1/p')
test "$soname" = "libflashtl.so.${version%.*}" || { echo "the library is called $soname"; exit 1; }
for file in LICENSE README.md docs/language.md examples/retention.tl; do
    test -e "$work/root/share/doc/flashtl/$file" || { echo "$file is not installed"; exit 1; }
done

foreign=$(nm -D --defined-only "$library" | awk '{print $3}' | grep -v '^ftl_' || true)
test -z "$foreign" || { echo "symbols that are not the API's: $foreign"; exit 1; }
needs=$(readelf -d "$library" | sed -n 's/.*NEEDED.*\[\(.*\)\]/\1/p' | grep -v -E '^(libc|libm|ld-linux.*|libjansson)\.so' || true)
test -z "$needs" || { echo "the library needs: $needs"; exit 1; }
strip -o "$work/stripped" "$library"
size=$(stat -c %s "$work/stripped")
test "$size" -le 2883584 || { echo "the library has $size bytes; at most 2.75 MiB"; exit 1; }
echo "installed library: $size bytes stripped"
