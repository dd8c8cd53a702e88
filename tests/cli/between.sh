# Kernels in turn: what one errs by, the next takes with its Inputs.
strip() { sed -e 's/ *[0-9.e+-]* ms$//' -e 's/; [0-9.]* s$//'; }
chain() {
    cat <<P
kernel first
Input  A (m in m_len, k in k_len)
Input  B (n in n_len, k in k_len)
Output H (m in m_len, n in n_len)
for i = 0:k_len/BK
    Copy A from global to shared
    Copy B from global to shared
    Compute GEMM A, B.T and accumulate H
end
Copy H from register to global
kernel second
Input  H (m in m_len, n in n_len)
Output T f16 (m in m_len, n in n_len)
Output D f32 (m in m_len, n in n_len)
Copy H from global to register and get S
Compute Multiply S, S and get E
Compute $1 S, $2 and get S
Compute Tanh S and get S
Copy S from register to global and get T
Compute Subtract E, $3 and get E
Copy E from register to global and get D
P
}
chain Max 0 3.0 > right.tl
for shapes in 33x70x65 1x1x1 128x300x64; do
    flashtl verify right.tl --gpu a100 --dtype bf16 --shapes $shapes | strip | tail -n 1 | cut -d' ' -f1-8
    flashtl verify right.tl --gpu a100 --shapes $shapes | strip | tail -n 1 | cut -d' ' -f1-8
done
echo "a chain that means something else:"
for other in 'Max 0.25 3.0' 'Min 0 3.0' 'Multiply 1.05 3.0' 'Max 0 3.5'; do
    chain $other > other.tl
    flashtl reason other.tl --gpu a100 --dtype bf16 -o other.code.tl 2> /dev/null
    flashtl verify other.code.tl --against right.tl --on interpreter --shapes 33x70x65 > report; echo "$other -> $?"
    grep -o '^      [TD]: ' report | sort | uniq -c
done
