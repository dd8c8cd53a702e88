# A disk that fills up: a file system of 16 KiB, which needs the right to mount one.
if [ -z "${IN_NAMESPACE:-}" ]; then
    unshare -rm sh -c 'mount -t tmpfs -o size=16k tmpfs "$1"' sh . 2> /dev/null ||
        { echo "a file system cannot be mounted here" > ../skipped; exit; }
    IN_NAMESPACE=1 exec unshare -rm sh "$0"
fi
mkdir disk
mount -t tmpfs -o size=16k tmpfs disk
flashtl sketch gqa > disk/before.tl; echo "-> $?"
head -c 100000 /dev/zero > disk/filler 2> /dev/null
flashtl sketch gqa > disk/printed.tl; echo "-> $?"
flashtl sketch gqa -o disk/before.tl; echo "-> $?"
flashtl sketch gqa | cmp - disk/before.tl && echo "what was there before is whole"
flashtl fmt --in-place disk/before.tl; echo "-> $?"
flashtl build --op gqa --gpu t4 --head-dim 64 -o disk; echo "-> $?"
flashtl build --op gqa --gpu t4 --head-dim 64 -o disk/kernels; echo "-> $?"
# Results, and the record of a model's run.
rows=4
. "$TESTS/disk_inputs.inc"
flashtl run --op mha --in Q=x.npy,K=x.npy,V=x.npy --let scale=1 --out O=disk/o.npy; echo "-> $?"
flashtl reason --op gqa --gpu t4 --head-dim 64 | flashtl translate -o disk/k.cu; echo "-> $?"
flashtl sketch --by exec:./model.sh --record disk/record.jsonl 'grouped heads' > sketched; echo "-> $?"
wc -c < sketched
# A cache there is a warning, and the kernel runs.
FLASHTL_CACHE=disk/cache FLASHTL_CUDA=$FAKE_CUDA_LIBRARY FLASHTL_NVRTC=$FAKE_NVRTC_LIBRARY \
    flashtl run --op mha --gpu t4 --on gpu --in Q=x.npy,K=x.npy,V=x.npy --let scale=1 2> words
echo "-> $?"
sed 's/[0-9a-f]\{32\}/HASH/' words
rm disk/filler
flashtl sketch gqa -o disk/before.tl; echo "-> $?"
ls disk
