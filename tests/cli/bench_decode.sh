# Programs without a formula are verified before they are timed: with a driver that only pretends, nothing is.
export FLASHTL_CUDA=$FAKE_CUDA_LIBRARY FLASHTL_NVRTC=$FAKE_NVRTC_LIBRARY FLASHTL_CUDNN=/no/such/cudnn
flashtl bench --grid decode; echo "-> $?"
