# A loop that no lengths take through all of its steps: that is said, and no word of copies.
cat > last.tl <<'P'
kernel last
Input  Q (b in batch; q in q_len, c in e)
Input  lens i32 (b in batch)
let start = max(0, lens[b] - 16)
let len = lens[b] - start
Input  K (b in batch; key in room, c in e)
let Last (b in batch; s in len, c in e) = K[b, start + s, c]
Output O (b in batch; q in q_len, c in e)
Copy Q from global to shared
for j = 0:len/BN
    Copy Last from global to shared
    Compute GEMM Q, Last.T and get S
    Compute Multiply S, S and get S
    Compute GEMM S, Last and accumulate O
end
Copy O from register to global
P
for gpu in t4 a100 h200; do
    flashtl reason last.tl --gpu $gpu --let e=16 --let BN=128 > /dev/null; echo "-> $?"
done
sed 's/- 16/- 300/' last.tl > longer.tl
flashtl reason longer.tl --gpu a100 --let e=16 --let BN=128 > /dev/null; echo "-> $?"
