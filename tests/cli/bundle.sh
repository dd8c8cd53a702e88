# What `build --bundle` writes, and what it refuses: tests/bundle has its file in a program. The compiler is a script here.
export FLASHTL_NVRTC=
flashtl=$(command -v flashtl)
mkdir tools
for tool in sh rm sed cat ls sleep grep; do ln -s "$(command -v $tool)" tools/$tool; done
build() {
    echo "\$ flashtl build $*"
    PATH=$PWD/tools $flashtl build --head-dim 64 --no-verify "$@" > output 2> said
    echo "-> $?"
    sed -e 's/^[^{ ]*  .*\(not compiled\|registers\).*/\1/' -e 's/"registers".*/.../' output
    cat said
    test ! -d k || ls k
    rm -rf k
}
echo '# what it needs'
build --op gqa --bundle -o k
build --op gqa --gpu t4 --bundle --no-compile -o k
build --op gqa --gpu t4 --bundle --name 2nd -o k
build --op gqa --gpu t4 --bundle --name a.b -o k
echo '# no compiler: no bundle'
build --op gqa --gpu t4,h200 --bundle -o k
cat > tools/nvcc <<'END'
#!/bin/sh
while [ $# -gt 1 ]; do if [ "$1" = -o ]; then echo code > "$2"; fi; shift; done
echo 'ptxas info    : Used 42 registers, used 1 barriers' >&2
END
chmod 755 tools/nvcc
echo '# a compiler: the file of C and its header, beside those of each GPU, whose names differ'
build --op gqa --causal --gpu t4,h200 --bundle -o k
build --op gqa --gpu t4 --bundle --name mine --json -o k
echo '# kernels that take different arguments'
build --op gqa --dtype e4m3 --gpu l40s,h200 --bundle -o k
build --op gqa --dtype e4m3 --gpu h200,l40s --bundle -o k
echo '# two kernels, the second of which reads what the first wrote along other axes'
build --op gqa --dtype e4m3 --gpu h200 --bundle -o k
