# 8-bit floats: what is accepted for a GPU compiles and is right, all else is refused. Outputs of copies,
# products and row sums, from fragments, vectors and lines; whole and cut edges; values that saturate.
P_INPUTS='Input  X (r in rows, c in cols)'
sketch() { # name, type
    case $1 in
    plain) printf 'kernel plain\n%s\nOutput Y %s (r in rows, c in cols)\nCopy X from global to register\nCopy X from register to global and get Y\n' "$P_INPUTS" $2;;
    sums) printf 'kernel sums\n%s\nOutput Y %s (r in rows)\nfor j = 0:cols/BN\nCopy X from global to register\nCompute RowSum X and accumulate s\nend\nCopy s from register to global and get Y\n' "$P_INPUTS" $2;;
    product) printf 'kernel product\n%s\nInput Z (n in rows, c in cols)\nOutput Y %s (r in rows, n in rows)\nfor j = 0:cols/BN\nCopy X from global to shared\nCopy Z from global to shared\nCompute GEMM X, Z.T and accumulate S\nend\nCopy S from register to global and get Y\n' "$P_INPUTS" $2;;
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
import npy
for name, rows, columns in (("X", 37, 75), ("Z", 37, 75)):
    npy.write(name + ".npy", (rows, columns), [(7 * i % 640 - 320) / (8 if i % 5 else 0.5) for i in range(rows * columns)])
P
python3 make.py
try() { # file, options
    file=$1; shift
    inputs='--in X=X.npy'
    case $file in product.tl) inputs="$inputs --in Z=Z.npy";; esac
    if ! flashtl check $file "$@" 2> why; then echo "$file $*: $(head -n 1 why | sed 's/.*error: //')"; return; fi
    flashtl run $file "$@" --on interpreter $inputs --out Y=want.npy &&
        flashtl run $file "$@" --on emulator $inputs --out Y=got.npy &&
        cmp want.npy got.npy && echo "$file $*: right"
}
for type in e4m3 e5m2; do
    echo "$type:"
    for name in plain sums product loads; do
        sketch $name $type > $name.tl
        for gpu in t4 a100 l40s h200 b200; do try $name.tl --gpu $gpu; done
    done
    lines $type f32 > lines.tl; try lines.tl
    lines f32 f32 | sed "s/in register f32/in register $type/" > lines.tl; try lines.tl
    lines f32 f32 | sed "s/^role/Allocate T in shared $type (BM, BN)\nrole/" > lines.tl; try lines.tl
done
