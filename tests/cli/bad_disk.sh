# A full disk: one sentence and exit status 3, whatever prints.
full() {
    flashtl "$@" > /dev/full 2> words
    echo "$1 -> $?"
    grep -v '^this machine' words
}
full sketch gqa
full reason --op gqa --gpu t4 --head-dim 64
full gpus
full --version
full help
full grammar --format gbnf
full explain --op mha --gpu t4 --head-dim 64
full verify --op mha --shapes 1x1
# A file that may not grow is a failed write, not a death by signal.
(ulimit -f 1; flashtl reason --op gqa --gpu t4 --head-dim 64 > grown; echo "-> $?"
    flashtl reason --op gqa --gpu t4 --head-dim 64 -o grown.tl; echo "-> $?") 2>&1 | cat
ls grown*; rm -f grown
# Likewise results, records and the cache, whose loss is a warning.
rows=64
. "$TESTS/disk_inputs.inc"
(ulimit -f 1
    flashtl run --op mha --in Q=x.npy,K=x.npy,V=x.npy --let scale=1 --out O=o.npy; echo "-> $?"
    flashtl sketch --by exec:./model.sh --record record.jsonl 'grouped heads' > /dev/null; echo "-> $?"
    FLASHTL_CACHE=cache FLASHTL_CUDA=$FAKE_CUDA_LIBRARY FLASHTL_NVRTC=$FAKE_NVRTC_LIBRARY \
        flashtl run --op mha --gpu t4 --on gpu --in Q=x.npy,K=x.npy,V=x.npy --let scale=1
    echo "-> $?") 2>&1 | sed 's/[0-9a-f]\{32\}/HASH/; s/ ([0-9.]* s)//; s/in [0-9.]* s/in N s/' | cat
ls cache; rm -rf cache x.npy model.sh
# What is no plain file is written where it is; by links, so that a device is never at stake.
ln -s /dev/full disk
flashtl sketch gqa -o disk; echo "-> $?"
ln -s target link
: > target
flashtl sketch gqa -o link && test -L link && flashtl sketch gqa | cmp - target && echo "written through the link"
# Places that cannot be written.
flashtl sketch gqa -o /no/such/folder/gqa.tl; echo "-> $?"
echo file > file
flashtl build --op gqa --gpu t4 --head-dim 64 -o file/kernels; echo "-> $?"
mkdir taken.tl
flashtl sketch gqa -o taken.tl; echo "-> $?"
ls
