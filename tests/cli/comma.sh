# The command under a locale whose numbers have commas: every text byte for byte as without it.
library=$(dirname "$FAKE_CUDA_LIBRARY")/libcomma_locale.so
skip() { echo "$1" > ../skipped; exit 0; }
[ -f "$library" ] || skip 'a sanitizer cannot be preloaded before'
command -v localedef > /dev/null || skip 'there is no localedef'
mkdir locales
localedef -i de_DE -f UTF-8 "$PWD/locales/de_DE.UTF-8" 2> /dev/null
export LOCPATH="$PWD/locales"
LD_PRELOAD=$library true 2>&1 | grep -q . && skip 'localedef cannot make de_DE.UTF-8'

all() {
    flashtl sketch gqa --causal --softcap 30.25 > my.tl
    cat my.tl
    flashtl gpus
    flashtl gpus --json
    for gpu in t4 a100 h200; do
        flashtl reason my.tl --gpu $gpu --head-dim 64 > code.tl
        cat code.tl
        flashtl translate code.tl
        flashtl translate --plan code.tl
        flashtl explain my.tl --gpu $gpu --head-dim 64
        flashtl explain code.tl
    done
    for scale in 0.125 0.375 1,5; do
        flashtl run numbers.tl --in X=x.npy --let scale=$scale --out Y=y.npy
        python3 -c "import npy; print(npy.read('y.npy'))"
    done
    flashtl build my.tl --gpu t4,h200 --head-dim 64 -o kernels | sed 's/  [0-9]* ms//'
    cat kernels/*.json kernels/*.h kernels/*.cu
    flashtl verify my.tl --gpu a100 --head-dim 64 --on interpreter --shapes 5x7 --json |
        sed 's/"[a-z_]*\(ms\|seconds\)":[^,}]*//g'
    printf 'mine 1 64 4 2 64 causal\n' > grid
    flashtl bench --grid grid
    flashtl bench --grid grid --json
} 2>&1

export FLASHTL_CUDA=$FAKE_CUDA_LIBRARY FLASHTL_NVRTC=$FAKE_NVRTC_LIBRARY
cat > numbers.tl <<'END'
kernel numbers
Input X f32 (row in row_len, d)
Input scale f32 where scale < 0.25
Output Y f32 (row in row_len, d)
Copy X from global to register and get Y
Compute Multiply Y, scale and get Y
Copy Y from register to global
END
python3 -c "import npy; npy.write('x.npy', (2, 2), [1.0, 2.5, -3.0, 4.0])"
mkdir plain comma
cp numbers.tl x.npy plain
cp numbers.tl x.npy comma
(cd plain && all) > plain.txt
(export LD_PRELOAD="$library"; cd comma && all) > comma.txt
diff plain.txt comma.txt && echo "the same"
grep -q '[0-9]\.[0-9]*f' plain.txt && grep -q 0.3125 plain.txt && echo 'with numbers'
grep -c . plain.txt > ../lines; [ "$(cat ../lines)" -gt 1000 ] && echo 'and many lines'
