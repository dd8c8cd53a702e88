# One page for a browser, and what it is made from: every statement is there, linked both ways.
page="python3 $TESTS/view_page.py"
flashtl view --op mha --causal --head-dim 64 --gpu h200 --no-compile -o kernel.html && flashtl view --op mha --causal --head-dim 64 --gpu h200 --no-compile --json > kernel.json
$page kernel.html kernel.json sketch code cuda
# Several kernels; types of inputs; pins; the page on standard output.
for what in "--op decode --head-dim 128 --gpu a100" "--op gqa --head-dim 128 --gpu t4 --type K=e4m3 --let BN=32" "--op row_softmax --gpu l40s"; do
    flashtl view $what --no-compile > kernel.html && flashtl view $what --no-compile --json -o kernel.json
    echo "$what: $($page kernel.html kernel.json sketch code cuda)"
done
# The texts are those of the other commands.
flashtl sketch gqa --causal | sed '3s,$, // </script><!-- & "quoted",' > my.tl
flashtl view my.tl --gpu a100 --head-dim 64 --no-compile > kernel.html && flashtl view my.tl --gpu a100 --head-dim 64 --no-compile --json > kernel.json
$page kernel.html kernel.json sketch code cuda
flashtl reason my.tl --gpu a100 --head-dim 64 > my.code && flashtl translate my.code > my.cu
python3 -c "
import json
told = json.load(open('kernel.json'))
assert told['sketch'] == open('my.tl').read() and told['code'] == open('my.code').read() and told['kernels'][0]['cuda'] == open('my.cu').read()"
# TL Code has no sketch and no decisions.
flashtl view my.code --no-compile > code.html && flashtl view my.code --no-compile --json > code.json
$page code.html code.json code cuda
# What is wrong.
flashtl view; echo "-> $?"
flashtl view --op mha --head-dim 64 --no-compile; echo "-> $?"
flashtl view --op mha --head-dim 64 --gpu a100,h200; echo "-> $?"
flashtl view --op mha --head-dim 64 --gpu a100 --print-after tile; echo "-> $?"
flashtl view nothing.tl --gpu a100 --head-dim 64; echo "-> $?"
flashtl view --op mha --head-dim 64 --gpu a100 --no-compile -o no/such/folder.html; echo "-> $?"
echo "kernel k" > bad.tl && echo "Copy Q from global to shared" >> bad.tl
flashtl view bad.tl --gpu a100 --no-compile; echo "-> $?"
# Without a compiler: a page all the same, and why there is no PTX.
flashtl=$(command -v flashtl)
env -i PATH=/nowhere HOME="$HOME" FLASHTL_NVRTC=/no/such/libnvrtc.so "$flashtl" view my.tl --gpu a100 --head-dim 64 -o bare.html 2> said; echo "-> $?"
grep -c "there is no PTX" said bare.html
