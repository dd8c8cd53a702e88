"""Makes the arrays of a small attention (make) or judges results against plain Python (judge FILE...)."""
import math
import random
import struct
import sys

import npy

B, H, HK, Q, K, D = 1, 2, 1, 5, 7, 16


def half(x):
    return struct.unpack("<e", struct.pack("<e", x))[0]


def make():
    random.seed(1)
    q = [half(random.gauss(0, 1)) for _ in range(B * H * Q * D)]
    k = [half(random.gauss(0, 1)) for _ in range(B * HK * K * D)]
    v = [half(random.gauss(0, 1)) for _ in range(B * HK * K * D)]
    npy.write("q.npy", (B, H, Q, D), q, "f2")
    fortran = [k[((b * HK + h) * K + r) * D + c]
               for c in range(D) for r in range(K) for h in range(HK) for b in range(B)]
    npy.write("k.npy", (B, HK, K, D), fortran, "f4", True)
    npy.write("v.npy", (B, HK, K, D), v, "f8")


def key(k, row, column):
    return k[(column * K + row) * HK * B]


def judge(paths):
    q, k, v = (npy.read(name + ".npy")[1] for name in "qkv")
    for path in paths:
        shape, o = npy.read(path)
        worst = 0
        for h in range(H):
            for i in range(Q):
                scores = [sum(q[(h * Q + i) * D + c] * key(k, r, c) for c in range(D)) * 0.25
                          for r in range(i + K - Q + 1)]
                top = max(scores)
                weights = [math.exp(s - top) for s in scores]
                for c in range(D):
                    want = sum(w * v[r * D + c] for r, w in enumerate(weights)) / sum(weights)
                    worst = max(worst, abs(want - o[(h * Q + i) * D + c]))
        print(path, shape, "agrees" if worst < 2e-3 else f"differs by {worst}")


make() if sys.argv[1] == "make" else judge(sys.argv[2:])
