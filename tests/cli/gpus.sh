# Listing needs no GPU; a description of one's own works by path; a bad one is told line by line.
flashtl gpus 2>&1 | cut -c 1-50
flashtl gpus l40s > my.gpu
sed -i -e 's/^sms .*/sms = 0/' -e '/^l2 /d' -e 's/^clock .*/clock = fast/' my.gpu
flashtl gpus ./my.gpu
FAKE_CUDA='capability=86' FLASHTL_CUDA=$FAKE_CUDA_LIBRARY flashtl gpus > /dev/null
FAKE_CUDA='init_result=100' FLASHTL_CUDA=$FAKE_CUDA_LIBRARY flashtl gpus > /dev/null
