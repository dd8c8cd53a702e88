# Arithmetic on what a product of a warpgroup adds to, or takes as its left operand, stays before the
# fence: on the emulator, which sees accesses between fence and product, with all forms of the loop.
cat > weighted.tl <<'P'
kernel weighted
Input  Q (q in q_len, d)
Input  K (kv in kv_len, d)
Input  V (kv in kv_len, e)
Input  w (kv in kv_len)
Output O (q in q_len, e)
Copy Q from global to shared
for j = 0:kv_len/BN
    Copy K from global to shared
    Compute GEMM Q, K.T and get S
    Compute Softmax S
    Compute Multiply S, w[kv] and get S
    Copy V from global to shared
    Compute GEMM S, V and accumulate O
end
Copy O from register to global
P
cat > two.tl <<'P'
kernel two
Input  Q (q in q_len, d)
Input  K (kv in kv_len, d)
Input  V (kv in kv_len, x in e)
Input  w (kv in kv_len)
Input  K1 (n in n_len, d)
Input  V1 (n in n_len, y in e1)
Input  M f32 (q in q_len, n in n_len)
Output Y (q in q_len, x in e)
Output Z (q in q_len, y in e1)
Copy Q from global to register
Compute Multiply Q, Q and get U
Compute RowSum U and get t
Compute Add t, 0.1 and get t
Compute Rsqrt t and get t
Compute Multiply Q, t and get X
for j = 0:kv_len/BN
    Copy K from global to shared
    Compute GEMM X, K.T and get S
    Compute Softmax S
    Compute Multiply S, w[kv] and get S
    Copy V from global to shared
    Compute GEMM S, V and accumulate A
end
for i = 0:n_len/BN
    Copy K1 from global to shared
    Compute GEMM X, K1.T and get T
    Copy M from global to register
    Compute Multiply T, M and get T
    Copy V1 from global to shared
    Compute GEMM T, V1 and accumulate C
end
Copy A from register to global and get Y
Copy C from register to global and get Z
P
judge() { # name, options
    flashtl verify $1.tl --gpu h200 --on emulator --dtype f16 --let d=64 --shapes 70x260,1x1 $2 > report 2>&1
    echo "$1 $2: status $?, $(grep -c '^pass' report) passed, $(grep -c fence report) fences missing"
}
for overlap in '' '--let overlap=0'; do
    for guard in '' '--let guard=0'; do
        for e in 16 128; do judge weighted "--let e=$e $overlap $guard"; done
    done
    judge two "--let e=64 --let e1=64 $overlap"
done
