# With --json every line of standard output is an object, and every diagnostic one of standard error.
cat > lines.py <<'P'
import json, sys
for line in sys.stdin:
    value = json.loads(line)
    assert isinstance(value, dict), line
    print(" ", " ".join(value))
P
lines() {
    echo "\$ flashtl $*"
    flashtl "$@" --json > output 2> said < /dev/null
    echo "-> $?"
    python3 lines.py < output | sort | uniq -c
    if test -s said; then echo "said"; grep -v '^flashtl: ' said | python3 lines.py; fi
}
flashtl sketch gqa --causal > gqa.tl
flashtl reason gqa.tl --gpu t4 --head-dim 64 > code.tl
flashtl translate code.tl > gqa.cu
flashtl translate code.tl --plan > gqa.json
sed 's/GEMM Q, K.T/GEMM Q, K/' gqa.tl > wrong.tl
lines fmt gqa.tl
lines check gqa.tl
lines reason gqa.tl --gpu t4 --head-dim 64
lines explain gqa.tl --gpu t4 --head-dim 64
lines explain code.tl
lines translate code.tl
lines translate --plan code.tl
lines build code.tl --no-verify -o k
lines verify gqa.tl --head-dim 8 --shapes 1x1
lines gpus t4
lines evaluate --list --level hard
for verb in list size clear; do lines cache $verb --cache none; done
for command in check fmt "reason --gpu t4" "explain --gpu t4" "translate --gpu t4" "build --gpu t4 -o k" verify; do
    lines $command wrong.tl
done
echo '# the texts are those that are printed without it'
same() {
    flashtl "$@" > plain
    flashtl "$@" --json -o object.json
    python3 -c 'import json; print("".join(json.loads(line)["text"] for line in open("object.json")), end="")' | cmp - plain
    echo "$1 -> $?"
}
same fmt gqa.tl
same reason gqa.tl --gpu t4 --head-dim 64
same explain gqa.tl --gpu t4 --head-dim 64
same translate code.tl
