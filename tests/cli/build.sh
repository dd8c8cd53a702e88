# What `build` says and how it ends: where nothing compiles, and while it is at work. Compilers are scripts here.
export FLASHTL_NVRTC=
flashtl=$(command -v flashtl)
all=$PATH
flashtl sketch gqa --causal > gqa.tl
sed 's/GEMM Q, K.T/GEMM Q, K/' gqa.tl > wrong.tl
mkdir tools
for tool in sh rm sed cat ls sleep grep; do ln -s "$(command -v $tool)" tools/$tool; done
PATH=$PWD/tools
build() {
    echo "\$ flashtl build $*"
    $flashtl build "$@" --no-verify > output 2> said
    echo "-> $?"
    sed -e 's/"registers".*/.../' -e 's/^[^{ ]*  .*\(not compiled\|registers\).*/\1/' output
    grep -v ' GPUs* built, ' said
    test ! -d k || ls k
    rm -rf k
}
echo '# no compiler: all but the cubins, and status 3, unless no cubin was asked for'
build gqa.tl --gpu t4 --head-dim 64 -o k
build gqa.tl --gpu t4,a100 --head-dim 64 --json -o k
build gqa.tl --gpu t4 --head-dim 64 --no-compile -o k
build wrong.tl --gpu t4 --head-dim 64 -o k
echo '# a compiler: the same files and the cubin'
cat > tools/nvcc <<END
#!/bin/sh
test ! -f $PWD/slow || sleep 2.2
while [ \$# -gt 1 ]; do if [ "\$1" = -o ]; then echo code > "\$2"; fi; shift; done
echo 'ptxas info    : Used 42 registers, used 1 barriers' >&2
END
/bin/chmod 755 tools/nvcc
build gqa.tl --gpu t4 --head-dim 64 -o k
build gqa.tl --gpu t4 --head-dim 64 --no-compile -o k
echo '# progress: after two seconds, which the compiler takes for the first GPU'
: > slow
slowly() { $flashtl build gqa.tl --gpu t4,a100 --head-dim 64 --no-verify "$@"; }
slowly -o k1 2> said1 > /dev/null &
slowly --json -o k2 2> said2 > /dev/null &
PATH=$all python3 - "$flashtl" "$PATH" <<'P'
import os, pty, re, sys
os.environ["PATH"] = sys.argv[2]
shown, terminal = b"", os.dup(1)
def read(source):
    global shown
    part = os.read(source, 4096)
    shown += part
    return part
os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
pty.spawn([sys.argv[1], *"build gqa.tl --gpu t4,a100 --head-dim 64 --no-verify -o k3".split()], read)
os.dup2(terminal, 1)
text = shown.decode()
lines = re.findall(r"\r\x1b\[K([^\r\n]*)", text)
told = [line for line in lines if line.startswith("1 of 2 GPUs built, a100: ")]
print("on a terminal:", "how far it is" if told else repr(text))
last = text.rsplit("\r\x1b[K", 1)[1]
print("cleared before the result:", last.startswith("gqa_a100") and "built" not in last)
P
wait
grep -v '^flashtl: [01] of 2 GPUs built, [^:]*: [a-z]*\(, about [0-9]* s left\)\{0,1\}$' said1
test -s said1 && echo 'elsewhere a line now and then'
test -s said2 || echo 'none beside JSON'
