# Maxima and sums that are given out: of whole rows, minus infinity and 0 where a row saw nothing, in
# every form that a softmax takes (one walk, guarded or not; two walks; scaled before or after; m and
# l changed before the results are read), and the largest and the mean of rows without a softmax. Queries before the first key see nothing; 5x0 has no key.
. "$TESTS/sampling.inc"
head='Input Q (q in q_len, d)\nInput K (kv in kv_len, d)\n'
values='Input V (kv in kv_len, dv)\nOutput O (q in q_len, dv)\n'
scale='Input scale f32 where scale > 0\n'
m='Output m f32 (q in q_len)\n'
l='Output l f32 (q in q_len)\n'
lse='Output lse f32 (q in q_len)\n'
loop='Copy Q from global to shared\nfor j = 0:kv_len/BN\nCopy K from global to shared\nCompute GEMM Q, K.T and get S\n'
scaled='Compute Multiply S, scale and get S\n'
masked='Compute Mask S where kv > q + kv_len - q_len\n'
softmax='Compute Softmax S with m and l\n'
sums='Copy V from global to shared\nCompute GEMM S, V and accumulate O\nend\nCopy O from register to global\n'
out_m='Copy m from register to global\n'
out_l='Copy l from register to global\n'
out_lse='Compute Log l and get t\nCompute Add t, m and get t\nCopy t from register to global and get lse\n'
program() { name=$1; shift; printf "kernel $name\n$*" | sed 's/^ //' > $name.tl; }
program online "$head$values$scale$m$l$loop$scaled$masked$softmax$sums$out_m$out_l"
program unscaled "$head$values$m$l$loop$masked$softmax$sums$out_m$out_l"
program doubled "$head$values$scale$m$loop$scaled$masked$softmax$sums"'Compute Multiply m, 2 and get m\n'"$out_m"
program only_m_and_l "$head$scale$m$l$loop$scaled$masked$softmax"'end\n'"$out_m$out_l"
program stored "$head$scale"'Output P (q in q_len, kv in kv_len)\n'"$m$l$loop$scaled$masked$softmax"'Copy S from register to global and get P\nend\n'"$out_m$out_l"
program log_sum "$head$values$scale$lse$loop$scaled$masked$softmax$sums$out_lse"
program log_sum_and_m "$head$values$scale$lse$m$loop$scaled$masked$softmax$sums$out_lse$out_m"
sums_first='Copy V from global to shared\nCompute GEMM S, V and accumulate O\nend\n'
program changed "$head$values$scale$lse$loop$scaled$masked$softmax$sums_first"'Compute Log l and get l\nCompute Add l, m and get l\nCopy l from register to global and get lse\nCopy O from register to global\n'
program tripled "$head$values$l$loop$masked$softmax$sums_first"'Compute Multiply l, 3 and get l\nCompute Multiply O, l and get O\nCopy l from register to global\nCopy O from register to global\n'
program whole 'Input X (r in rows, c in cols)\nOutput P (r in rows, c in cols)\nOutput m f32 (r in rows)\nOutput l f32 (r in rows)\nlet cols = 64\nCopy X from global to register\nCompute Mask X where c > r - 3\nCompute Softmax X with m and l\nCopy X from register to global and get P\n'"$out_m$out_l"
program largest "$head$m$loop$masked"'Compute RowMax S and accumulate m\nend\n'"$out_m"
program mean "$head$m$loop"'Compute RowSum S and accumulate m\nend\nCompute Divide m, kv_len and get m\n'"$out_m"
for name in online unscaled doubled only_m_and_l stored log_sum log_sum_and_m changed tripled whole largest mean; do
    for gpu in t4 a100 h200; do
        takes "$name $gpu:" || continue
        flashtl verify $name.tl --gpu $gpu --dtype f16 --head-dim 64 --on emulator $([ $name = whole ] || echo --shapes 70x30,5x0,33x265) > report 2>&1
        echo "$name $gpu: status $?, $(grep -c '^pass' report) passed, $(grep -c '^FAIL' report) failed"
    done
done
