#!/usr/bin/env python3
"""An operator that no library has, from some twenty lines of text: attention whose weights are sigmoids, with a bias for each head.

    custom_sketch.py                    what the text means, by the interpreter
    custom_sketch.py --on emulator      the kernel of an A100, by an emulator of it
    custom_sketch.py --on gpu           on a GPU

There is no softmax, so no row is ever divided by a sum; and its gradients are a sketch, too."""
import numpy as np

import flashtl
import plainly

SKETCH = """kernel sigmoid_attention
Input  Q (b in batch, head in heads; q in q_len, d)
Input  K (b in batch, head in heads; kv in kv_len, d)
Input  V (b in batch, head in heads; kv in kv_len, dv)
Input  bias f32 (head in heads)
Input  scale f32 where scale > 0
Output O (b in batch, head in heads; q in q_len, dv)

Copy Q from global to shared
for j = 0:kv_len/BN
    Copy K from global to shared
    Compute GEMM Q, K.T and get S
    Compute Multiply S, scale and get S
    Compute Add S, bias[head] and get S
    Compute Multiply S, -1.44269504 and get S
    Compute Exp2 S and get S
    Compute Add S, 1 and get S
    Compute Reciprocal S and get S
    Compute Mask S, 0 where kv > q + kv_len - q_len
    Copy V from global to shared
    Compute GEMM S, V and accumulate O
end
Copy O from register to global
"""


def by_numpy(q, k, v, bias, scale):
    score = q.astype(np.float64) @ k.astype(np.float64).swapaxes(2, 3) * scale + bias[:, None, None]
    return np.where(plainly.causal(q.shape[2], k.shape[2]), 1 / (1 + np.exp(-score)), 0) @ v.astype(np.float64)


def main():
    where = plainly.options(__doc__)
    random = np.random.default_rng(0)
    q, k, v = random.standard_normal((3, 2, 4, 70, 64)).astype(np.float16)
    bias = -np.log(70) + random.standard_normal(4).astype(np.float32)
    program = flashtl.compile(SKETCH, d=64, dv=64, **where)
    given = {"Q": q, "K": k, "V": v, "bias": bias.astype(np.float32), "scale": 0.125}
    plainly.near("weights that are sigmoids", program(**given).O, by_numpy(q, k, v, bias, 0.125))
    gradients = flashtl.derive(SKETCH, of=("Q",))
    print(f"{len(SKETCH.splitlines())} lines of sketch; {len(gradients.splitlines())} of it and its gradient to Q")


if __name__ == "__main__":
    main()
