# An index that `min` bounds by a number demands an axis that is long enough, at the launch and of what verify draws.
strip() { sed -e 's/ *[0-9.e+-]* ms$//' -e 's/; [0-9.]* s$//'; }
cat > far.tl <<'P'
kernel far
Input  A (m in m_len, k in k_len)
Input  B (n in n_len, k in k_len)
Input  w f32 (i in far)
Output C (m in m_len, n in n_len)
for i = 0:k_len/BK
    Copy A from global to shared
    Copy B from global to shared
    Compute GEMM A, B.T and accumulate C
end
Compute Multiply C, w[max(0, min(abs(m - n) + 1, 2 + 3))] and get C
Copy C from register to global
P
for gpu in t4 h200; do
    flashtl verify far.tl --gpu $gpu | strip | tail -n 1 | cut -d' ' -f1-8
    flashtl reason far.tl --gpu $gpu | flashtl translate --plan | grep -o '"far > [0-9]*"'
done
flashtl verify far.tl --gpu t4 --let far=5 > report 2>&1; echo "-> $?"
sed 's/min(abs(m - n) + 1, 2 + 3)/min(abs(m - n), far - 1)/; s/^Input  w f32 (i in far)/& where far > 0/' far.tl > whole.tl
flashtl verify whole.tl --gpu t4 | strip | tail -n 1 | cut -d' ' -f1-8
flashtl reason whole.tl --gpu t4 | flashtl translate --plan | grep -c '"far > [1-9]'
