#!/bin/sh
# Installs a build into an empty folder, moves that elsewhere, and uses it from there: by find_package, by pkg-config, shared and
# static, from C++; checks that the libraries show nothing but the API and need nothing but libc.
set -eu
build=$1
version=$2
sources=$(dirname "$(realpath "$0")")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
expected="kernel attention, $version"

cmake --install "$build" --prefix "$work/first" > "$work/log"
mkdir "$work/moved"
mv "$work/first" "$work/moved/root"
ln -s "$work/moved/root" "$work/root"
named=$(grep -rIl -e "$work/first" -e "$build" "$work/moved" || true)
test -z "$named" || { echo "names the folder that it was in: $named"; exit 1; }
cmake -S "$sources" -B "$work/client" -DCMAKE_PREFIX_PATH="$work/moved/root" > "$work/log"
cmake --build "$work/client" > "$work/log"
clients=0
for client in "$work/client"/client_*; do
    test "$("$client")" = "$expected" || { echo "$client fails"; exit 1; }
    clients=$((clients + 1))
done
test $clients = 3
needs() { readelf -d "$1" | sed -n 's/.*NEEDED.*\[\(.*\)\]/\1/p' | grep -v -E '^(libc|libm|ld-linux.*|libjansson)\.so' || true; }
for file in "$work/client/client_FTL__static" "$work/client/libplugin.so"; do
    test -z "$(needs "$file")" || { echo "$file needs $(needs "$file")"; exit 1; }
done

PKG_CONFIG_PATH=$(dirname "$(find "$work/moved" -name flashtl.pc)")
export PKG_CONFIG_PATH
libraries=$(pkg-config --variable=libdir flashtl)
case $libraries in "$work"/*) ;; *) echo "the library is looked for in $libraries"; exit 1 ;; esac
flags=$(pkg-config --cflags --libs flashtl)
cc "$sources/client.c" $flags -o "$work/client_pc"
library=$(find "$work/moved" -name 'libflashtl.so')
test "$(LD_LIBRARY_PATH=$(dirname "$library") "$work/client_pc")" = "$expected"
# The archive by pkg-config, with a function of the program's own that the library has, too.
echo 'int arena_init(void); int arena_init(void) { return 7; }' > "$work/own.c"
cc "$sources/client.c" "$work/own.c" $(pkg-config --static --cflags flashtl) "$(dirname "$library")/libflashtl.a" \
    $(pkg-config --static --libs flashtl | tr ' ' '\n' | grep -v -e -lflashtl -e '^-L') -o "$work/client_archive"
test "$("$work/client_archive")" = "$expected"
shown=$(nm -g --defined-only "$(dirname "$library")/libflashtl.a" | awk 'NF == 3 { print $3 }' | grep -v '^ftl_' || true)
test -z "$shown" || { echo "symbols of the archive that are not the API's: $shown"; exit 1; }
if test "$(uname)" = Linux; then
    nm -g --defined-only "$(dirname "$library")/libflashtl.a" | awk 'NF == 3 { print $3 }' | sort > "$work/static"
    nm -D --defined-only "$library" | awk '{ print $3 }' | sed -n 's/@.*//p' | grep '^ftl_' | sort > "$work/shared"
    diff "$work/static" "$work/shared" || { echo 'archive and shared library have different functions'; exit 1; }
fi

# The installed example, as somebody builds it who has nothing else.
cp -r "$work/moved/root/share/doc/flashtl/examples/c" "$work/example"
cmake -S "$work/example" -B "$work/example/build" -DCMAKE_PREFIX_PATH="$work/moved/root" > "$work/log"
cmake --build "$work/example/build" > "$work/log"
"$work/example/build/make_kernel" t4 2> "$work/said" | grep -q '__global__' || { cat "$work/said"; exit 1; }

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

# Every function bears that version, and there are no others.
foreign=$(nm -D --defined-only "$library" | awk '$2 != "A" { print $3 }' | grep -v "^ftl_.*@@FLASHTL_${version%.*}\$" || true)
test -z "$foreign" || { echo "symbols that are not the API's, or of another version: $foreign"; exit 1; }
test -z "$(needs "$library")" || { echo "the library needs: $(needs "$library")"; exit 1; }
strip -o "$work/stripped" "$library"
size=$(stat -c %s "$work/stripped")
test "$size" -le 3145728 || { echo "the library has $size bytes; at most 3 MiB"; exit 1; }
echo "installed library: $size bytes stripped"
