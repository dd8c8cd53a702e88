# Wrong usage: one sentence with the nearest word, exit status 2.
run() { echo "\$ flashtl $*"; flashtl "$@"; echo "-> $?"; }
run fnt
run frobnicate
run fmt --jsn x.tl
run reason --head 64
run emulate --plans
run fmt --in-place
run fmt a.tl b.tl
run fmt --json=yes
run sketch --window
run sketch attention more
run sketch --op mga
run sketch attention --with causl
run sketch attention --with causal=1
for window in 0 -1 1e99 x ''; do run sketch attention --window "$window"; done
run cache drop
run help fnt
run help --form ksh
run gpus t44
run grammar --format bnf
run fmt no-such-file.tl
flashtl translate --op mha; echo "-> $?"
flashtl sketch nothing_like_it; echo "-> $?"
flashtl help nothing; echo "-> $?"
