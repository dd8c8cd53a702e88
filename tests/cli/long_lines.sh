# No line of CUDA is longer than 120 characters, however deep elements of tables are in one another, whatever the types.
for program in "block_sparse --head-dim 128 --gpu a100" "attention --dtype e4m3 --head-dim 128 --gpu a100" \
    "gemm_bias_gelu --gpu h200"; do
    flashtl reason --op $program -o code.tl && flashtl translate code.tl -o code.cu
    echo "${program%% *}: $(awk 'length > 120' code.cu | wc -l) long lines"
done
