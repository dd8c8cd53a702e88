# No two kernels bear one name: files, symbols and headers of builds that differ in anything. What a compiler
# makes of them, and whether they are right, is no matter here.
fake() { FLASHTL_NVRTC=$FAKE_NVRTC_LIBRARY flashtl build "$@" --no-verify > /dev/null 2>&1; }
build() { fake "$@" --gpu a100 -o all || echo "failed: $*"; }
build --op gqa --head-dim 64
build --op gqa --head-dim 64 --causal
build --op gqa --head-dim 64 --dtype bf16
build --op gqa --head-dim 64:32
build --op gqa --head-dim 64 --window 32
build --op gqa --head-dim 64 --softcap 30.25
build --op gqa --head-dim 64 --alibi --lse
build --op gqa --head-dim 64 --let BN=32
build --op mqa --head-dim 64
flashtl sketch gqa > mine.tl
build mine.tl --head-dim 64
flashtl reason mine.tl --gpu a100 --head-dim 64 | sed 's/kernel [a-z]*/kernel other/' > 2nd.tl
build 2nd.tl
flashtl sketch gqa | build - --head-dim 64
fake --op gqa --head-dim 64 --gpu a100,rtx-3090 --name own -o all
fake --op gqa --head-dim 64 --gpu a100 --name Only_1 -o all
ls all | grep '\.h$'
for file in all/*.h; do
    name=$(basename "$file" .h)
    for ending in cu json h tl; do [ -f "all/$name.$ending" ] || echo "no $name.$ending"; done
    grep -q "^extern \"C\" __global__" "all/$name.cu" && grep -q "^$name(const" "all/$name.cu" || echo "the symbol is not $name"
    grep -q "\"entry\": \"$name\"" "all/$name.json" || echo "the plan's symbol is not $name"
    grep -q "${name}_ENTRY \"$name\"" "$file" || echo "the header's symbol is not $name"
done
sed -n 's/^\([A-Za-z_0-9]*\)(const __grid_constant__.*/\1/p' all/*.cu | sort | uniq -d
# A file of several kernels; names that cannot be.
cat > two.tl <<'T'
kernel first
Input X f32 (row in row_len, d)
Output Y f32 (row in row_len, d)
Copy X from global to register and get Y
Copy Y from register to global

kernel second
Input Y f32 (row in row_len, d)
Output Z f32 (row in row_len, d)
Copy Y from global to register and get Z
Copy Z from register to global
T
fake two.tl --gpu a100 --let d=64 -o pair; ls pair | grep -v -E 'cubin|ptx'
flashtl build --op gqa --head-dim 64 --gpu a100 --name 'a b' -o none; echo "-> $?"
flashtl build --op gqa --head-dim 64 --gpu a100 --name '' -o none; echo "-> $?"
flashtl build --op gqa --head-dim 64 --gpu a100 --name '../x' -o none; echo "-> $?"
