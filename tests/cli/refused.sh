# What check refuses, run and verify refuse in the same words, and with the same status: nothing is computed.
python3 - <<'P'
import npy
npy.write("X.npy", (4, 4), [1.0] * 16, "f4")
for name in "QKV":
    npy.write(name + ".npy", (1, 2, 4, 64), [0.5] * 512, "f2")
P
refused() {
    program=$1
    shift
    for form in "" --json; do
        flashtl check $form "$program" 2> check.err; echo "check -> $?"
        flashtl run $form "$program" "$@" 2> run.err; echo "run -> $?"
        flashtl verify $form "$program" 2> verify.err; echo "verify -> $?"
        cmp check.err run.err && cmp check.err verify.err && [ -s check.err ] && echo alike
    done
    sed -n 's/.*"id":"\([A-Z_]*\)","severity":"error".*/\1/p' run.err
    [ -e out.npy ] && echo "written"
}
# A sketch: an 8-bit whole number for minus infinity.
cat > infinite.tl <<'TL'
kernel infinite
Input  X f32 (row in rows, column in columns)
Output Y i8 (row in rows, column in columns)
Copy X from global to register and get T
Compute Mask T where column > row
Copy T from register to global and get Y
TL
refused infinite.tl --in X=X.npy --out Y=out.npy
# TL Code: a tile that nobody waits for.
sed '/Wait K_shared/d' "$TESTS/../golden/tl/attention_a100.tl" > code.tl
refused code.tl --in Q=Q.npy,K=K.npy,V=V.npy --let scale=0.25 --out O=out.npy
# What is right for one size of a block alone is right where that is given.
cat > rounds.tl <<'TL'
kernel rounds
Input  X f32 (row in rows, column in columns)
Output Y f32 (row in rows, column in columns)
Copy X from global to register and get T
for i = 0:columns/BN
    Compute Add T, 1 and get T
end
Copy T from register to global and get Y
TL
refused rounds.tl --in X=X.npy --out Y=out.npy
flashtl run rounds.tl --in X=X.npy --let BN=2 --out Y=out.npy; echo "-> $?"
python3 -c 'import npy; print(npy.read("out.npy")[1][0])'
flashtl verify rounds.tl --let BN=2 --shapes 4x4 | grep -c pass
