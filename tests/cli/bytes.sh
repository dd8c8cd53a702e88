# 8-bit numbers: what is accepted for a GPU compiles and is right, all else is refused. Outputs of copies,
# products and row sums, from fragments, vectors and lines; operands of products, which widen on their way;
# whole and cut edges; values that saturate, the smallest, NaN.
. "$TESTS/sampling.inc"
P_INPUTS='Input  X (r in rows, c in cols)'
sketch() { # name, type
    case $1 in
    plain) printf 'kernel plain\n%s\nOutput Y %s (r in rows, c in cols)\nCopy X from global to register\nCopy X from register to global and get Y\n' "$P_INPUTS" $2;;
    sums) printf 'kernel sums\n%s\nOutput Y %s (r in rows)\nfor j = 0:cols/BN\nCopy X from global to register\nCompute RowSum X and accumulate s\nend\nCopy s from register to global and get Y\n' "$P_INPUTS" $2;;
    product) printf 'kernel product\n%s\nInput Z (n in rows, c in cols)\nOutput Y %s (r in rows, n in rows)\nfor j = 0:cols/BN\nCopy X from global to shared\nCopy Z from global to shared\nCompute GEMM X, Z.T and accumulate S\nend\nCopy S from register to global and get Y\n' "$P_INPUTS" $2;;
    operands) printf 'kernel operands\nInput X %s (r in rows, c in cols)\nInput Z %s (n in rows, c in cols)\nOutput Y f32 (r in rows, n in rows)\nfor j = 0:cols/BN\nCopy X from global to shared\nCopy Z from global to shared\nCompute GEMM X, Z.T and accumulate S\nend\nCopy S from register to global and get Y\n' $2 $2;;
    values) printf 'kernel values\nInput X f16 (r in rows, c)\nInput Z %s (c, n)\nOutput Y f32 (r in rows, n)\nCopy X from global to shared\nCopy Z from global to shared\nCompute GEMM X, Z and get S\nCopy S from register to global and get Y\n' $2;;
    loads) printf 'kernel loads\nInput X %s (r in rows, c in cols)\nOutput Y f16 (r in rows, c in cols)\nCopy X from global to register\nCopy X from register to global and get Y\n' $2;;
    esac
}
lines() {
    cat <<P
kernel lines for l40s
let BM = 32, BN = 64
Input  X f32 (r in rows, c in cols)
Output Y $1 (r in rows, c in cols)
grid i in rows/BM, j in cols/BN
role move with 2 warps
    Allocate X in register $2 (BM, BN) as lines
    Copy X (BM, BN) in coordinate [L = i, L = j] from global to register
    Copy X (BM, BN) in coordinate [L = i, L = j] from register to global and get Y
end
P
}
cat > make.py <<'P'
import math
import npy
for name, rows, columns in (("X", 37, 75), ("Z", 37, 75)):
    npy.write(name + ".npy", (rows, columns), [(7 * i % 640 - 320) / (8 if i % 5 else 0.5) for i in range(rows * columns)])
# Row by row the unit matrix gives every code of a type as it is.
npy.write("unit.npy", (16, 16), [float(i % 17 == 0) for i in range(256)])
for name, bits in (("e4m3", 3), ("e5m2", 2)):
    codes, bias = [], 7 if bits == 3 else 15
    for code in range(256):
        exponent, fraction = (code & 127) >> bits, code & (1 << bits) - 1
        size = (fraction + (1 << bits if exponent else 0)) * 2.0 ** (max(exponent, 1) - bias - bits)
        is_special = code & 127 == 127 if bits == 3 else exponent == 31
        codes.append(0.0 if is_special or not size else -size if code & 128 else size)
    npy.write(name + ".npy", (16, 16), codes)
    npy.write(name + "_nan.npy", (16, 16), [math.nan if i == 37 else code for i, code in enumerate(codes)])
npy.write("i8.npy", (16, 16), list(range(-128, 128)), "i1")
P
python3 make.py
try() { # file, options
    file=$1; shift
    inputs='--in X=X.npy'
    case $file in
    product.tl) inputs="$inputs --in Z=Z.npy";;
    values.tl) inputs="--in X=unit.npy --in Z=$type.npy";;
    esac
    if ! flashtl check $file "$@" 2> why || ! flashtl run $file "$@" --on emulator $inputs --out Y=got.npy 2> why; then
        echo "$file $*: $(head -n 1 why | sed 's/.*error: //')"; return; fi
    flashtl run $file "$@" --on interpreter $inputs --out Y=want.npy &&
        cmp want.npy got.npy && echo "$file $*: right"
}
for type in e4m3 e5m2 i8; do
    echo "$type:"
    for name in plain sums product loads; do
        sketch $name $type > $name.tl
        for gpu in t4 a100 l40s h200 b200; do takes "$name.tl --gpu $gpu:" && try $name.tl --gpu $gpu; done
    done
    for gpu in t4 a100 l40s h200; do
        if takes "operands.tl --gpu $gpu:" "gqa, cache of $type, $gpu:"; then
            sketch operands $type > operands.tl
            flashtl verify operands.tl --gpu $gpu --case 0..5 > out 2>&1 && echo "operands.tl --gpu $gpu: right" || tail -n 3 out
            flashtl verify --op gqa --head-dim 64 --type K=$type,V=$type --gpu $gpu --shapes 49x231 > out 2>&1 && echo "gqa, cache of $type, $gpu: right" || tail -n 3 out
        fi
        sketch values $type > values.tl; try values.tl --gpu $gpu
    done
    python3 -c "import npy; print('every code is what it says' if npy.read('$type.npy') == npy.read('got.npy') else 'codes differ')"
    [ $type = i8 ] || flashtl run values.tl --gpu t4 --in X=unit.npy --in Z=${type}_nan.npy --out Y=got.npy
    [ $type = i8 ] || python3 -c "import npy; print('NaN in columns', sorted({i % 16 for i, x in enumerate(npy.read('got.npy')[1]) if x != x}))"
    lines $type f32 > lines.tl; try lines.tl
    lines f32 f32 | sed "s/in register f32/in register $type/" > lines.tl; try lines.tl
    lines f32 f32 | sed "s/Input  X f32/Input  X $type/; s/in register f32/in register $type/" > lines.tl; try lines.tl
    lines f32 f32 | sed "s/for l40s/for a100/; s/^role/Allocate T in shared $type (BM, BN)\nrole/" > lines.tl; try lines.tl
done
flashtl reason --op gqa --head-dim 72 --type K=e4m3 --gpu a100
flashtl reason --op gqa --type K=e4m4 --gpu a100
flashtl reason --op gqa --type Kk=e4m3 --gpu a100
flashtl reason --op gqa --type K --gpu a100
flashtl reason --op gqa --lse --type lse=f16 --gpu a100
flashtl reason --op gqa --head-dim 64 --type K=e4m3 --let warpgroups=2 --gpu h200
flashtl build --op gqa --head-dim 64 --type K=e4m3,V=e5m2 --gpu t4 --no-compile --no-verify && ls *.cu
