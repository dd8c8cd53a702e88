# Texts that are not ours, in all that is said: no control character reaches the terminal.
esc=$(printf '\033[31m'); c1=$(printf '\302\233')
flashtl sketch gqa > gqa.tl
flashtl reason gqa.tl --gpu t4 --head-dim 64 > code.tl
flashtl translate code.tl > gqa.cu
flashtl translate code.tl --plan > gqa.json
said() {
    flashtl "$@" > output 2>&1
    echo "$1 -> $?"
    python3 - <<'P'
for line in open("output", encoding="utf-8", errors="surrogateescape", newline="\n"):
    hidden = [c for c in line[:-1] if ord(c) < 32 or 127 <= ord(c) < 160 or 0xd800 <= ord(c) < 0xe000]
    print("  " + ("HIDDEN " + ascii(line) if hidden else line[:150].rstrip("\n")))
P
}
echo '# names of files, options and values'
cp gqa.tl "a${esc}b.tl"
sed 's/K.T/K/' gqa.tl > "w${c1}31m.tl"
said check "none${esc}.tl"
said check "w${c1}31m.tl"
said check --json "w${c1}31m.tl"
said reason "a${esc}b.tl" --gpu "t${esc}4"
said reason "a${esc}b.tl" --gpu t4 --head-dim 64 --let "B${esc}N=3"
said fmt gqa.tl "--${esc}"
said "${esc}"
said sketch "${esc}"
said emulate gqa.cu --plan gqa.json --let "${esc}=3"
said run gqa.tl --in "Q${esc}=none.npy" --out O=o.npy
echo '# names and words in a file'
printf 'kernel a\nInput X f16 (i in n; d)\nCopy \033[2J\302\233X from global to shared\n' > escape.tl
printf 'kernel a // \033[2J\nInput X f16 (i in n; d)\n' > comment.tl
printf 'kernel a // \302\233\nInput X f16 (i in n; d)\n' > c1.tl
printf 'kernel a // 1 \342\202\254, gr\303\266\303\237er\nInput X f16 (i in n; d)\n' > utf8.tl
for file in escape comment c1; do said check $file.tl; done
said fmt utf8.tl
flashtl gpus t4 | sed "s/^title.*/title = T4 ${esc}/" > t4.gpu
flashtl gpus t4 | sed "s/^sms .*/sms = ${esc}/" > sms.gpu
said gpus ./t4.gpu --json
said check gqa.tl --gpu ./sms.gpu
sed "s/\"name\":\"scale\"/\"name\":\"$(printf '\\u001b')[31m\"/" gqa.json > names.json
said emulate gqa.cu --plan names.json --let other=3
mkdir cache && printf 'nothing \033[2J' > "cache/0123456789abcdef0123456789abcdef"
said cache --cache cache
