#!/bin/sh
# Installs what building needs where it is missing (Debian and its relatives): setup.sh [--tests]
# At a terminal it asks before it does; FLASHTL_SETUP=yes answers for you, FLASHTL_SETUP=no only says what is missing.
set -eu
packages=
need() { # PACKAGE COMMAND...: the package when one of the commands is missing
    package=$1
    shift
    for command; do
        command -v "$command" > /dev/null 2>&1 && continue
        packages="$packages $package"
        return
    done
}
need_file() { # PACKAGE FILE...: the package when none of the files is there
    package=$1
    shift
    for file; do
        for found in $file; do
            if [ -e "$found" ]; then return; fi
        done
    done
    packages="$packages $package"
}
# Wanted, but not everywhere to be had: what needs them says that it was skipped, or is left out.
optional=
want() { # PACKAGE COMMAND...: the package when none of the commands is there
    package=$1
    shift
    for command; do
        if command -v "$command" > /dev/null 2>&1; then return; fi
    done
    optional="$optional $package"
}
want_file() { # PACKAGE FILE...: the package when none of the files is there
    wanted=$packages
    need_file "$@"
    [ "$packages" = "$wanted" ] || optional="$optional $1"
    packages=$wanted
}
need cmake cmake
need ninja-build ninja
need gcc gcc
need_file libc6-dev '/usr/include/stdio.h'
need python3 python3
need_file libjansson-dev '/usr/include/jansson.h' '/usr/local/include/jansson.h'
need_file libxxhash-dev '/usr/include/xxhash.h' '/usr/local/include/xxhash.h'
# What compiles kernels where neither NVRTC nor nvcc is there.
if ! command -v nvcc > /dev/null 2>&1 && ! /sbin/ldconfig -p 2> /dev/null | grep -q 'libnvrtc\.so' && [ ! -d /usr/local/cuda ]; then
    want clang clang
fi
want_file libsqlite3-dev '/usr/include/sqlite3.h' '/usr/local/include/sqlite3.h'
if [ "${1:-}" = --tests ]; then
    need clang clang
    need clang-format clang-format
    need clang-tidy clang-tidy
    need_file libcmocka-dev '/usr/include/cmocka.h' '/usr/local/include/cmocka.h'
    need pkg-config pkg-config
    need mandoc mandoc
    need_file libcurl4 '/usr/lib/*/libcurl.so.4' '/usr/lib/libcurl.so.4' '/usr/local/lib/libcurl.so.4'
    want chromium-headless-shell chromium-headless-shell chromium chromium-browser google-chrome
fi
[ -n "$packages$optional" ] || exit 0
if ! command -v apt-get > /dev/null 2>&1; then
    [ -n "$packages" ] || exit 0
    echo "setup: please install the equivalents of these Debian packages:$packages" >&2
    exit 1
fi
refuse() {
    [ -n "$packages" ] || exit 0
    echo "setup: missing packages; please run: sudo apt-get install$packages$optional" >&2
    exit 1
}
answer=${FLASHTL_SETUP:-}
if [ -z "$answer" ] && [ -t 0 ] && [ -t 2 ]; then
    printf 'setup: install%s by apt-get? [Y/n] ' "$packages$optional" >&2
    read -r answer
fi
case $answer in [nN]*) refuse ;; esac
as_root=
if [ "$(id -u)" != 0 ]; then
    command -v sudo > /dev/null 2>&1 && sudo -n true 2> /dev/null || refuse
    as_root=sudo
fi
echo "setup: installing$packages$optional" >&2
$as_root apt-get update -qq
install() { $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" > /dev/null; }
[ -z "$packages" ] || install $packages
for package in $optional; do
    install "$package" 2> /dev/null || echo "setup: $package is not to be had here; what needs it is skipped" >&2
done
