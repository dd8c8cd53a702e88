# Three texts, two steps, in a pipe; the same bytes in one process or three, twice.
flashtl sketch gqa --causal | flashtl reason --gpu t4 --head-dim 64 | flashtl translate > piped.cu
flashtl reason --op gqa --causal --gpu t4 --head-dim 64 -o code.tl && flashtl translate code.tl > filed.cu
cmp piped.cu filed.cu && test -s piped.cu && echo same
flashtl fmt code.tl | cmp - code.tl
flashtl check code.tl && echo complete
flashtl translate --plan code.tl | grep -o '"entry":"[a-z_0-9]*"'
# A line edited by hand changes the kernel; a wrong edit is refused.
sed 's/ reversed//' code.tl | flashtl translate | cmp -s - piped.cu || echo different
sed '/Release V_shared/d' code.tl | flashtl translate 2>&1 > /dev/null | sed -n '1s/^[^ ]* //p'
# Half way, and with a decision taken.
flashtl reason --op mha --gpu l40s --head-dim 64 --print-after online | grep -q 'RowMax' && echo online
flashtl reason --op mha --gpu l40s --head-dim 64 --let BN=32 | grep -o 'BN = 32'
flashtl explain --op mha --gpu l40s --head-dim 64 | sed -n '/tile sizes (tile)/,$p' | grep -o 'BM = [0-9]*' | sed 's/[0-9]*$/N/'
flashtl explain code.tl | sed -n 's/[0-9][0-9]*/N/gp' | head -2
flashtl build --op mha --head-dim 64 --gpu t4,a100 --dtype f16 -o out > /dev/null 2>&1
ls out | grep -v -E 'cubin|ptx'
