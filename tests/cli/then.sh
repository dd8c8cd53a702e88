# One kernel on arrays after arrays (--then): the results are those of a command for each.
cat > scaled.tl <<'P'
kernel scaled
Input  X f32 (row in row_len, d)
Input  factor f32
Output Y f32 (row in row_len, d)
Copy X from global to register and get Y
Compute Multiply Y, factor and get Y
Copy Y from register to global
P
export PYTHONPATH="$TESTS"
python3 -c '
import npy
for n in 3, 0, 70: npy.write(f"{n}.npy", (n, 16), [i % 9 - 4 for i in range(16 * n)])
npy.write("wide.npy", (3, 24), [1] * 72)'
cat > judge.py <<'P'
import sys
import npy
n, factor = int(sys.argv[1]), float(sys.argv[2])
print(n, "is right" if npy.read(sys.argv[3]) == ((n, 16), tuple(factor * (i % 9 - 4) for i in range(16 * n))) else "DIFFERS")
P
printf -- '--in X=0.npy\n  --out Y=to_0.npy  \n' > none.txt                         # factor stays
printf -- '\n--let factor=-0.5\n--in X=70.npy\n--out Y=to_70.npy' > more.txt
for on in "interpreter" "interpreter --gpu a100" "emulator --gpu a100"; do
    rm -f to_*.npy
    flashtl run scaled.tl --on $on --in X=3.npy --let factor=2 --out Y=to_3.npy --then none.txt --then more.txt
    echo "$on: $?"
    python3 judge.py 3 2 to_3.npy
    python3 judge.py 0 2 to_0.npy
    python3 judge.py 70 -0.5 to_70.npy
done
# The first that cannot be run ends it; what came before is written.
refused() {
    printf '%s\n' "$@" > then.txt
    rm -f to_*.npy
    flashtl run scaled.tl --on emulator --gpu a100 --in X=3.npy --let factor=2 --out Y=to_3.npy --then then.txt --then more.txt
    echo "-> $?, $(ls to_*.npy)"
}
refused '--in X=wide.npy' '--out Y=to_wide.npy'
refused '--in X=absent.npy' '--out Y=to_absent.npy'
refused '--out Y=to_none.npy'
refused '--in X=3.npy' '--in W=3.npy'
refused '--in X=3.npy' '--in X=3.npy'
refused '--gpu t4'
refused '--let factor=much'
refused '--let'
flashtl run scaled.tl --in X=3.npy --let factor=2 --out Y=to_3.npy --then no_such.txt; echo "-> $?"
