// Attention as one writes it by hand first: a thread for each query, keys and values in shared memory by
// blocks, sums in f32, no tensor cores. A yardstick for paper.py; nothing else uses it.
#include <cuda_fp16.h>

enum { QUERIES = 64, KEYS = 32 };

template <int D>
__global__ void attention(const __half *q, const __half *k, const __half *v, __half *o, int length, int q_heads,
                          int kv_heads, float scale, int causal) {
    __shared__ __half keys[KEYS][D], values[KEYS][D];
    const int head = blockIdx.y, batch = blockIdx.z, row = blockIdx.x * QUERIES + threadIdx.x;
    const int kv_head = head / (q_heads / kv_heads);
    const long long own = (((long long)batch * length + row) * q_heads + head) * D;
    float query[D], sum[D], most = -1e30f, weight = 0;
    for (int i = 0; i < D; i++) {
        query[i] = row < length ? __half2float(q[own + i]) * scale : 0;
        sum[i] = 0;
    }
    const int end = causal ? min(length, (blockIdx.x + 1) * QUERIES) : length;
    for (int first = 0; first < end; first += KEYS) {
        __syncthreads();
        for (int i = threadIdx.x; i < KEYS * D; i += QUERIES) {
            const int key = first + i / D;
            const long long at = (((long long)batch * length + key) * kv_heads + kv_head) * D + i % D;
            keys[i / D][i % D] = key < length ? k[at] : __half(0);
            values[i / D][i % D] = key < length ? v[at] : __half(0);
        }
        __syncthreads();
        for (int j = 0; j < KEYS && first + j < end; j++) {
            if (causal && first + j > row) break;
            float score = 0;
            for (int i = 0; i < D; i++) score += query[i] * __half2float(keys[j][i]);
            const float now = fmaxf(most, score), old = __expf(most - now), part = __expf(score - now);
            for (int i = 0; i < D; i++) sum[i] = sum[i] * old + part * __half2float(values[j][i]);
            weight = weight * old + part, most = now;
        }
    }
    for (int i = 0; i < D && row < length; i++) o[own + i] = __float2half(sum[i] / weight);
}

extern "C" int vanilla(const void *q, const void *k, const void *v, void *o, int batch, int length, int q_heads,
                       int kv_heads, int d, float scale, int causal, void *stream) {
    const dim3 grid((length + QUERIES - 1) / QUERIES, q_heads, batch);
    auto run = d == 64 ? attention<64> : d == 128 ? attention<128> : nullptr;
    if (!run) return 1;
    run<<<grid, QUERIES, 0, (cudaStream_t)stream>>>((const __half *)q, (const __half *)k, (const __half *)v, (__half *)o,
                                                    length, q_heads, kv_heads, scale, causal);
    return (int)cudaGetLastError();
}
