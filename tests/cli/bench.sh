# Without a GPU: one sentence. With a driver that only pretends, kernels compute nothing: no figure is
# given. Bad grids and options.
flashtl bench; echo "-> $?"
export FLASHTL_CUDA=$FAKE_CUDA_LIBRARY FLASHTL_NVRTC=$FAKE_NVRTC_LIBRARY FLASHTL_CUDNN=/no/such/cudnn
printf '# a small grid\nmine 1 64 4 2 64 causal\nmine 2 128 4 2 64 causal # longer\nother 1 64 4 4 64:32 full\n' > grid
flashtl bench --grid grid; echo "-> $?"
flashtl bench --grid grid --json 2> /dev/null | sed 's/"error_[a-z]*":[^,]*/E/g'
flashtl bench --grid grid --against cudnn; echo "-> $?"
flashtl bench --op gqa --causal --head-dim 64 --window 32 --heads 8:2 --batch 1 --lengths 64,96
echo "-> $?"
flashtl bench --op gemm_bias_gelu --lengths 128; echo "-> $?"
flashtl bench --op mha --head-dim 64 --heads 2 --batch 1 --lengths 64,96 --scores normal,peaked:2,rising,sink
echo "-> $?"
flashtl bench --op mha --head-dim 64 --heads 2 --batch 1 --lengths 64 --scores sink --json 2> /dev/null |
    sed 's/"error_[a-z]*":[^,]*/E/g'
flashtl bench --op gemm_bias_gelu --lengths 128 --scores sink; echo "-> $?"
flashtl bench --scores peaked:0; echo "-> $?"
flashtl bench --grid paper --scores normal,peaked:2,peaked:3,peaked:4,peaked:8,rising,sink,sink:3; echo "-> $?"
echo 'mine 0 64 4 2 64 causal' > grid
flashtl bench --grid grid; echo "-> $?"
flashtl bench --grid none; echo "-> $?"
flashtl bench --dtype f8; echo "-> $?"
flashtl bench --causal; echo "-> $?"
flashtl bench --op mha --grid paper; echo "-> $?"
flashtl bench --op mha --head-dim 64 --against fa2; echo "-> $?"
flashtl bench --op mha --head-dim 64 --heads 6:4; echo "-> $?"
flashtl bench --op mha --head-dim 64 --lengths 64,0; echo "-> $?"
flashtl bench --op mha; echo "-> $?"
