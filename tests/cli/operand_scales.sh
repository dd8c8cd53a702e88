# Scales of operands of 8 bits that a sketch applies before their product: where they go, and which cannot.
product() { # what scales B, what adds up
    printf 'kernel product\nlet d = 64\nInput A %s (m in m_len, k in k_len)\nInput B %s (n in n_len, k in k_len)\nInput f f32 (n in n_len)\nInput g f32 (k in k_len)\nInput h f32\nOutput C f32 (m in m_len, n in n_len)\nfor j = 0:k_len/BK\nCopy A from global to shared\nCopy B from global to register\n%s\nCompute GEMM A, B.T and accumulate C\nend\nCopy C from register to global\n' $2 $2 "$1"
}
# Past the loop: the same in all of its rounds. By another sum's side, or a tile of factors: after each product.
for factor in 'Compute Multiply B, f[n] and get B' 'Compute Divide B, h and get B' 'Copy f from global to register
Compute Multiply B, f and get B'; do
    product "$factor" i8 | flashtl reason - --gpu a100 --print-after bind | sed -n '/^for/,$p'
done
# Along the axis that the product contracts there is no such factor, nor is a sum one, nor what changes B for others, too.
for factor in 'Compute Multiply B, g[k] and get B' 'Compute Add B, h and get B' 'Compute Multiply B, f[n] and get B
Compute RowSum B and accumulate s'; do
    product "$factor" i8 | flashtl reason - --gpu a100 2>&1 | head -n 1
done
# 16 bits stay where they are: an operation for each element of the operand, once.
product 'Compute Multiply B, f[n] and get B' f16 | flashtl reason - --gpu a100 --print-after bind | grep -c 'Multiply B'
# On interpreter and emulator.
for gpu in t4 l40s h200; do
    product 'Compute Multiply B, f[n] and get B
Compute Divide B, 3 and get B' i8 | flashtl verify - --gpu $gpu --on emulator | tail -n 1 | sed 's/;.*//'
done
