# Without a GPU: one sentence. With a driver that only pretends: the table's form, and bad grids.
flashtl bench; echo "-> $?"
export FLASHTL_CUDA=$FAKE_CUDA_LIBRARY FLASHTL_NVRTC=$FAKE_NVRTC_LIBRARY
printf '# a small grid\nmine 1 64 4 2 64 causal\nmine 2 128 4 2 64 causal # longer\nother 1 64 4 4 64:32 full\n' > grid
flashtl bench --grid grid | sed 's/ [0-9][0-9]* |$/ N |/; s/ [0-9][0-9]* | / N | /'
flashtl bench --grid grid --json 2> /dev/null | sed 's/"tflops":[0-9.]*/"tflops":N/'
echo 'mine 0 64 4 2 64 causal' > grid
flashtl bench --grid grid; echo "-> $?"
flashtl bench --grid none; echo "-> $?"
flashtl bench --dtype f8; echo "-> $?"
