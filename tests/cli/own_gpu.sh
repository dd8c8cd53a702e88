# A card that is not in the list: a description of one's own goes through every step.
flashtl gpus rtx-3090 | sed -e 's/^title .*/title = NVIDIA RTX A6000/' -e 's/^aliases .*/aliases = A6000/' \
    -e 's/^sms .*/sms = 84/' -e 's/^memory .*/memory = 768 GB_per_s/' -e 's/^memory_size .*/memory_size = 48 GB/' \
    -e 's/^clock .*/clock = 1800 MHz/' > a6000.gpu
flashtl gpus ./a6000.gpu > /dev/null && echo read
flashtl sketch gqa --causal | flashtl reason --gpu ./a6000.gpu --head-dim 32 > code.tl && grep '^kernel' code.tl
flashtl check --gpu ./a6000.gpu code.tl && flashtl translate --gpu ./a6000.gpu code.tl | grep -c '__global__'
flashtl translate code.tl > output; echo "-> $?"
flashtl verify --op gqa --causal --gpu ./a6000.gpu --head-dim 32 --on emulator --shapes 5x3 |
    sed -e 's/ *[0-9.e+-]* ms$//' -e 's/; [0-9.]* s$//' | tail -1
# It is compiled for that card, and two cards of one name are not built into the same files.
FLASHTL_NVRTC=$FAKE_NVRTC_LIBRARY flashtl build --op gqa --gpu ./a6000.gpu --head-dim 32 --no-verify -o k; echo "-> $?"
ls k
grep -o '"target": "[a-z_0-9]*"' k/*.json
mkdir other; cp a6000.gpu other/
flashtl build --op gqa --gpu ./a6000.gpu,other/a6000.gpu --head-dim 32 -o k; echo "-> $?"
# Without a figure, or with one that cannot be, it is refused by line.
grep -v '^sms' a6000.gpu > without.gpu
flashtl reason --op gqa --gpu ./without.gpu --head-dim 32; echo "-> $?"
sed 's/^block_shared .*/block_shared = 99999999999 bytes/' a6000.gpu > absurd.gpu
flashtl reason --op gqa --gpu ./absurd.gpu --head-dim 32; echo "-> $?"
