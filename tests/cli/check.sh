# The paper's two failures, each named with its fix; the same as JSON; a good program says nothing.
flashtl sketch attention --causal > good.tl
flashtl check good.tl && echo good
sed 's/K\.T/K/' good.tl > no_transposition.tl
flashtl check no_transposition.tl; echo "-> $?"
flashtl check --json no_transposition.tl 2>&1 | cut -c 1-60
sed 's/Copy V/Copy W/' good.tl | flashtl check
echo "-> $?"
cp "$TESTS/../golden/tl/attention_a100.tl" code.tl
flashtl check code.tl && echo good
sed '/Reshape P from/d' code.tl | flashtl check
echo "-> $?"
sed '/Wait K_shared/d' code.tl | flashtl check 2>&1 | head -3
sed 's/for a100/for a1000/' code.tl | flashtl check
echo "-> $?"
# What the translator has no form for is no good either.
sed 's/\(Allocate K in shared.*swizzled\) 128/\1 512/' code.tl | flashtl check
echo "-> $?"
