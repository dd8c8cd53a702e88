# Sketches that no shipped operator resembles, on the emulator: each once came out wrong or was refused.
results() {
    sed -e 's/; worst.*$//' | tail -1
}
attention() { # START IN_LOOP AFTER
    cat <<TL
kernel k
let BN = 64
Input  Q (b in batch; q in q_len, d)
Input  K (b in batch; kv in kv_len, d)
Input  V (b in batch; kv in kv_len, dv)
Input  bias f32 (b in batch; kv in kv_len)
Output O (b in batch; q in q_len, dv)
Output W f32 (b in batch; q in q_len)
$1
Copy Q from global to shared
for j = 0:kv_len/BN
    Copy K from global to shared
    Copy bias from global to register
    Compute GEMM Q, K.T and get S
    Compute Multiply S, 0.125 and get S
    Compute Add S, bias and get S
$2
    Copy V from global to shared
    Compute GEMM S, V and accumulate O
end
$3
Copy O from register to global
Copy W from register to global
TL
}
proved() { # FILE
    for gpu in a100 h200; do
        flashtl verify "$1" --gpu $gpu --on emulator --let d=32 --let dv=32 --shapes 70x203 | results
    done
}
# Two indices a tile: a unit of four numbers is published, and read, whole.
attention 'Compute Fill 0 and get W' '    Compute Softmax S' '' > indices.tl
proved indices.tl
# A value of rows that the next tile's beginning overwrites, as it is and worked on.
attention 'Compute Fill 1 and get W' '    Compute RowSum S and accumulate W' '' > value.tl
proved value.tl
attention 'Compute Fill 1 and get W' '    Compute Multiply S, S and get S
    Compute RowSum S and accumulate W' 'Compute Log W and get W' > worked.tl
proved worked.tl
# The denominator of the online form is seen in the loop: the maximum moves with every block.
attention 'Compute Fill 0 and get W
Compute Fill -1e30 and get m
Compute Fill 0 and get l
Compute Fill 0 and get O' '    Compute Cast m and get m_old
    Compute RowMax S and accumulate m
    Compute Subtract m_old, m and get alpha
    Compute Multiply alpha, 1.44269504 and get alpha
    Compute Exp2 alpha and get alpha
    Compute Multiply m, -1.44269504 and get shift
    Compute MultiplyAdd S, 1.44269504, shift and get S
    Compute Exp2 S and get S
    Compute Multiply l, alpha and get l
    Compute RowSum S and accumulate l
    Compute Multiply O, alpha and get O
    Compute Max W, l and get W' 'Compute Reciprocal l and get l
Compute Multiply O, l and get O' > seen.tl
proved seen.tl
# Masked elements that functions make finite.
attention 'Compute Fill 0 and get W' '    Compute Mask S where kv > q
    Compute Tanh S and get S
    Compute Add S, 0.25 and get S
    Compute Max S, 0 and get S
    Compute Min S, 1 and get S
    Compute RowSum S and accumulate W' '' > masked.tl
proved masked.tl
# The names of a Softmax in its own loop, and an Allocate, are no part of a sketch.
attention 'Compute Fill 0 and get W' '    Compute Softmax S with m and l
    Compute Max W, l and get W' '' > early.tl
flashtl check early.tl; echo "-> $?"
attention 'Compute Fill 0 and get W
Allocate K in shared f16 (BN, d) stages 3' '    Compute Softmax S' '' > placed.tl
flashtl reason placed.tl --gpu a100 --head-dim 32; echo "-> $?"
# Weights below f16's smallest number are lost where they are multiplied: that is no fault of a kernel.
attention 'Compute Fill 0 and get W' '    Compute Add S, 0.13*(kv - q) and get S
    Compute Softmax S
    Compute Mask S, 0 where kv > q' '' > tiny.tl
flashtl verify tiny.tl --gpu a100 --on emulator --let d=32 --let dv=32 --shapes 70x203 --case 0 | results
