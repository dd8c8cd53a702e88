# Without a GPU: one sentence. With a driver that only pretends, the model's own kernel is wrong, and
# nothing is tuned. The database's text; wrong usage.
flashtl tune --op mha --head-dim 64; echo "-> $?"
flashtl tune; echo "-> $?"
flashtl tune --gpu h200; echo "-> $?"
flashtl tune --op mha --head-dim 64 --seconds 0; echo "-> $?"
flashtl tune --op mha --head-dim 64 --jobs many; echo "-> $?"
echo 'this is no database, however long one looks at it' > broken
flashtl tune --gpu h200 --database broken; echo "-> $?"
flashtl tune --gpu h200 --database no/such/folder/db; echo "-> $?"
flashtl tune --gpu a100,t4 --op mha --head-dim 64; echo "-> $?"
export FLASHTL_CUDA=$FAKE_CUDA_LIBRARY FLASHTL_NVRTC=$FAKE_NVRTC_LIBRARY
flashtl tune --op mha --causal --head-dim 64 --lengths 64 --seconds 5; echo "-> $?"
flashtl tune --op mha --head-dim 63 --lengths 64; echo "-> $?"
printf 'problem attention 0 f16 d=64 dv=64\n  pins BN=32\n  measured nothing\n' > my.tuned
flashtl explain --op mha --head-dim 64 --gpu a100 --measured my.tuned | grep -c tuning
flashtl explain --op mha --head-dim 64 --gpu a100 --measured none | grep -c tuning
flashtl explain --op mha --head-dim 64 --gpu a100 --measured missing; echo "-> $?"
