# A model is named or asked for; what it says is judged; a step alone works in a pipe.
flashtl think 'causal attention' --gpu t4; echo "-> $?"
flashtl think --gpu t4 --sketch-by exec:cat; echo "-> $?"
flashtl think 'a' 'b' --gpu t4 --sketch-by exec:cat; echo "-> $?"
flashtl think 'causal attention' --sketch-by exec:cat; echo "-> $?"
flashtl think 'causal attention' --gpu t4 --sketch-by gpt; echo "-> $?"
flashtl think 'causal attention' --gpu t4 --sketch-by http://localhost/v1; echo "-> $?"
flashtl think 'causal attention' --gpu t4 --sketch-by http://me:secret@localhost/v1#x; echo "-> $?"
flashtl think 'causal attention' --gpu t4 --sketch-by 'exec:echo no sketch for you >&2; exit 3' 2> told; echo "-> $?"
sed 's/[0-9]* tokens/N tokens/' told
flashtl think 'causal attention' --gpu t4 --sketch-by replay:none.jsonl; echo "-> $?"
echo '{"event":' > broken.jsonl
flashtl think 'causal attention' --gpu t4 --sketch-by replay:broken.jsonl; echo "-> $?"
flashtl think 'causal attention' --gpu t4 --sketch-by exec:cat --max-cost 1; echo "-> $?"
flashtl think 'causal attention' --gpu t4 --sketch-by exec:cat --price 1; echo "-> $?"
flashtl think 'causal attention' --gpu t4 --sketch-by exec:cat --answers 0; echo "-> $?"
flashtl think 'causal attention' --gpu t4 --sketch-by exec:cat --timeout x; echo "-> $?"
flashtl think 'causal attention' --gpu t4 --sketch-by exec:cat --send-grammar bnf; echo "-> $?"
flashtl think 'causal attention' --gpu t4 --sketch-by exec:cat --on moon; echo "-> $?"
flashtl think 'causal attention' --gpu t4 --sketch-by exec:cat --on gpu; echo "-> $?"
flashtl sketch --by "exec:cat $TESTS/../think/answers/good_sketch.md" 'causal attention' 2> told > mine.tl; echo "-> $?"
sed 's/in [0-9.]* s/in TIME/; s/([0-9.]* s)/(TIME)/; s/[0-9]* tokens/N tokens/; s/asking .*, about/asking, about/' told
flashtl check mine.tl && echo 'the sketch is right'
flashtl sketch --by exec:cat 2>&1; echo "-> $?"
# The built-in agent's kernel stays where a model has nothing better.
flashtl reason mine.tl --gpu t4 --head-dim 64 > code.tl
flashtl think --sketch mine.tl --gpu t4 --head-dim 64 --on interpreter --reason-by 'exec:echo "\`\`\`tl"; cat code.tl; echo "\`\`\`"' -o k > said 2> told; echo "-> $?"
head -1 said
grep -c 'candidate 0, by the built-in agent' told
ls k | sed 's/think-.*jsonl/RECORD/'
head -1 k/*.tl | grep -v '^$' | cut -c 1-60
# Where there is no CUDA compiler, the result says what was not judged.
FLASHTL_NVRTC=/no/such/nvrtc flashtl think --sketch mine.tl --gpu t4 --head-dim 64 --reason-by 'exec:true' --answers 1 -o k 2> told | grep -v '^- \|tokens'
flashtl reason mine.tl --gpu t4 --head-dim 64 --by 'exec:sed -n "/XX/p"' --answers 1 2>&1 | sed 's/in [0-9.]* s/in TIME/; s/[0-9]* tokens/N tokens/'
# Without a folder of its own nothing that is there is written over, however often it runs.
mkdir here; cd here
for i in 1 2 3; do
    flashtl think --sketch ../mine.tl --gpu t4 --head-dim 64 --on interpreter --reason-by 'exec:true' --answers 1 2> /dev/null | sed -n '1s/:.*//p'
    ls > ../now; cksum $(cat ../now) > ../sums
    [ -f ../before ] && while read -r line; do grep -qxF "$line" ../sums || echo "changed: $line"; done < ../before
    cp ../sums ../before
done
ls | sed 's/think-[0-9a-f]*/RECORD/'
