# A sketch, its TL Code, and what a wrong edit does to it.
strip() { sed -e 's/ *[0-9.e+-]* ms$//' -e 's/; [0-9.]* s$//'; }
flashtl verify --op mha --causal --shapes 1x1,113x203,5x0 | strip | tail -1
flashtl verify --op mha --causal --gpu t4 --head-dim 16 --on interpreter --shapes 113x203 | strip | tail -1
flashtl reason --op mha --causal --gpu t4 --head-dim 16 -o code.tl
flashtl verify code.tl --on interpreter --shapes 70x3 > /dev/null; echo "-> $?"
flashtl verify --op mha --shapes nonsense; echo "-> $?"
flashtl verify --op mha --case x; echo "-> $?"
# Which cases there are, some of them, and those that would take too long.
flashtl verify --op mha --causal --shapes 1x1,3x5 --list
flashtl verify --op mha --causal --shapes 1x1,3x5 --list --case 0..1,3 --json | wc -l
flashtl verify --op mha --causal --shapes 1x1,3x5 --case 0..1,3 | strip | tail -1
flashtl verify --op mha --causal --shapes 1x1 --case 900; echo "-> $?"
flashtl verify --op mha --seconds 0; echo "-> $?"
flashtl verify --op mha --gpu t4 --head-dim 16 --on gpu; echo "-> $?"
flashtl verify --op mha --on emulator; echo "-> $?"
# Cases that are drawn come after those of a list; each can be run alone.
flashtl verify --op mha --causal --shapes 1x1 --more 12 --list | grep -c drawn
flashtl verify --op mha --causal --head-dim 16 --shapes none --more 4 | strip | tail -1
flashtl verify --op mha --causal --shapes none --more 12 --list --case 11 --json | wc -l
flashtl verify --op mha --shapes none; echo "-> $?"
flashtl verify --op mha --more -1; echo "-> $?"
# A mask that is off by one is found, and its repro finds it again.
sed 's/where kv > q + offset/where kv > q + offset - 1/' code.tl > wrong.tl
flashtl sketch mha --causal > right.tl
flashtl verify code.tl --against right.tl --on interpreter --shapes 113x203 > report; echo "-> $?"
flashtl verify wrong.tl --against right.tl --on interpreter --shapes 113x203 > report; echo "-> $?"
repro=$(sed -n 's/.*\(flashtl verify .*\)/\1/p' report | head -1)
echo "$repro" | sed 's/--case [0-9]*/--case N/'
sh -c "$repro" > again; echo "-> $?"
# Lengths that are fixed hold for a sketch, too.
flashtl verify --op mha --head-dim 40:16 --shapes 3x5 | strip | cut -d, -f 1-8
# Two kernels in turn, with pages and ragged lengths that are made up.
flashtl verify "$TESTS/../golden/tl/paged_decode.tl" --on interpreter --case 0,5,10 | strip | tail -1
# A sum over nothing is 0, also where it is an operand, but not the first one, of what replaces it.
cat > cube.tl <<'TL'
kernel cube
Input  A (m in m_len, k in k_len)
Input  B (n in n_len, k in k_len)
Output C (m in m_len, n in n_len)

for i = 0:k_len/BK
    Copy A from global to shared
    Copy B from global to shared
    Compute GEMM A, B.T and accumulate C
end
Compute Multiply C, C and get E
Compute MultiplyAdd E, C, C and get C
Copy C from register to global
TL
flashtl verify cube.tl --gpu a100 --on interpreter --shapes 7x0x9 | strip | tail -1
# No program passes of which no element was compared; lengths that are fixed leave cases with elements.
flashtl verify --op mha --causal --gpu t4 --head-dim 16 --let kv_len=100 --on interpreter | grep -c 'relative rms'
flashtl verify --op mha --causal --gpu t4 --head-dim 16 --let batch=0 --on interpreter > /dev/null; echo "-> $?"
cat > sums.tl <<'TL'
kernel sums
Input  K (b in batch, head in heads; t in len, d)
Input  V (b in batch, head in heads; t in len, dv)
Output H f32 (b in batch, head in heads; d, dv)
for j = 0:len/BK
    Copy K from global to shared
    Copy V from global to shared
    Compute GEMM K.T, V and accumulate H
end
Copy H from register to global
TL
flashtl verify sums.tl --gpu a100 --head-dim 64 --on interpreter | strip | tail -1 | cut -d';' -f 1
# Numbers beyond what 8 bits hold are stored as their largest: that is right.
cat > large.tl <<'TL'
kernel large
Input  X (m in m_len, n in n_len)
Output Y e4m3 (m in m_len, n in n_len)
Copy X from global to register and get T
Compute Multiply T, 700 and get T
Copy T from register to global and get Y
TL
flashtl verify large.tl --gpu l40s --on interpreter --shapes 40x70 | strip | tail -1 | cut -d';' -f 1
# Where what a right kernel holds on the way overflows, nothing can be compared: that is no success.
cat > steep.tl <<'TL'
kernel steep
Input  A (m in rows, k)
Input  B (n in columns, k)
Output C (m in rows, n in columns)
Copy A from global to shared
Copy B from global to shared
Compute GEMM A, B.T and get S
Compute Multiply S, S and get S
Compute Add S, 99 and get S
Compute Exp S
Copy S from register to global and get C
TL
flashtl verify steep.tl --let k=16 --gpu a100 --on interpreter --shapes decisive > steep.out; echo "-> $?"
grep -c 'elements of C were compared' steep.out
flashtl verify steep.tl --let k=16 --gpu a100 --on interpreter --json 2> /dev/null | grep -o '"open":"C"'
flashtl verify steep.tl --let k=16 --gpu a100 --on interpreter --shapes 7x9 --json | grep -o '"compared":.*,"open":[0-9]*,'
flashtl build steep.tl --let k=16 --gpu a100 -o steep > /dev/null; echo "-> $?"
# What is built is verified before it is given out: a program that leaves elements out passes `check`.
sed 's|m_block in m_len/BM|m_block in min(1, m_len/BM)|; s|let blocks = 1|let blocks = ceil(k_len/BK)|' \
    "$TESTS/../think/judged/linear_silu_one_block.code.tl" > first.tl
flashtl check first.tl; echo "-> $?"
flashtl build first.tl -o built; echo "-> $?"
ls built | wc -l
flashtl build first.tl -o built --no-verify > /dev/null 2>&1; ls built/*.cu
echo "weights that are off by the rounding of their maximum:"
flashtl verify "$TESTS/../exec/judged/shares_of_far_rows.tl" --gpu a100 --on emulator --case 12 | cut -d' ' -f1-6
echo "products of nothing:"
cat > nothing.tl <<'P'
kernel nothing
Input  A (m in m_len, k in k_len)
Input  B (n in n_len, k in k_len)
Output r f32 (m in m_len)
for j = 0:n_len/BN
    Copy A from global to shared
    Copy B from global to shared
    Compute GEMM A, B.T and get S
    Compute RowSum S and accumulate r
end
Copy r from register to global
P
flashtl verify nothing.tl | tail -n 1 | cut -d' ' -f1-8
