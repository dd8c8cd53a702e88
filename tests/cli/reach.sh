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
# An index of an axis, or of its blocks, demands an axis that has all of them; what stands under a condition does not.
blocks() { # index
    printf 'kernel scaled\nInput  X f32 (r in rows, c in cols)\nInput  s f32 (x in blocks)\nOutput Y f32 (r in rows, c in cols)\nCopy X from global to register\nCompute Multiply X, %s and get X\nCopy X from register to global and get Y\n' "$1"
}
for index in 's[c/32]' 's[c]' 's[2*c + 3]' 's[min(c, 5)]' 'select(c < 7, s[c], 1)' 's[c % 4]'; do
    blocks "$index" > scaled.tl
    echo "$index: $(flashtl reason scaled.tl --gpu t4 | flashtl translate --plan | grep -o '"blocks > [^"]*"')"
done
blocks 's[c/32]' > scaled.tl
flashtl verify scaled.tl --gpu t4 | strip | tail -n 1 | cut -d' ' -f1-8
cat > few.py <<'E'
import npy
npy.write("X.npy", (2, 65), [1.0] * 130)
npy.write("two.npy", (2,), [1.0, 2.0])
npy.write("three.npy", (3,), [1.0, 2.0, 3.0])
E
python3 few.py
for scales in two three; do
    flashtl run scaled.tl --gpu t4 --on emulator --in X=X.npy --in s=$scales.npy --out Y=Y.npy; echo "$scales: $?"
done
# A mask of blocks is read likewise.
blocks 1 | sed 's/f32 (x in blocks)/i32 (x in blocks)/; s/^Compute.*/Compute Mask X, 0 where s[c\/64] == 0/' | flashtl reason - --gpu t4 | flashtl translate --plan | grep -o '"blocks > [^"]*"'
