# A word that a command does not know is answered with the nearest three that it does: an option of every command, and a
# pin of those that take one, in a sketch and in TL Code.
commands=$(flashtl help | sed -n 's/^  \([a-z]*\)  .*/\1/p')
for command in $commands; do
    flashtl "$command" --jsonn > out 2> said
    echo "$command $? $(cat said out)"
done
for command in reason explain build verify "run --let scale=1"; do
    flashtl $command --op mha --gpu t4 --head-dim 64 --let nosuch=1 > out 2> said && echo "$command took it"
    echo "$command: $(grep -o "'nosuch'; .*" said || cat said)"
done
flashtl reason --op mha --gpu t4 --head-dim 64 > code.tl
flashtl explain code.tl --let q_lem=3
flashtl reason --op mha --gpu t4 --head-dim 64 --let warp=4
flashtl sketch mga
flashtl sketch xyzzy
