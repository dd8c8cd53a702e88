"""FlexAttention, compiled: PyTorch's attention whose scores a function may change."""
# Options of its kernel, the first that compile count: what it chooses itself, then blocks for which shared
# memory and registers suffice where its own choice fails (wide heads with a function of the scores).
KERNEL_OPTIONS = (None, {"BLOCK_M": 64, "BLOCK_N": 64, "num_stages": 2},
                  {"BLOCK_M": 64, "BLOCK_N": 32, "num_stages": 1})


def softcap_of(cap, tanh):
    """The function of a score that softcap is; None without one."""
    if not cap:
        return None

    def capped(score, b, h, i, j):
        return cap * tanh(score / cap)
    return capped


def reason_of(failure):
    """The line of an exception that says most: those of torch.compile begin with who raised it."""
    lines = [line.strip() for line in str(failure).splitlines()]
    telling = [line for line in lines if line and not line.endswith("raised:") and
               not line.startswith(("backend=", "Set TORCH", "You can suppress"))]
    return (telling or [repr(failure)])[0][:160]


def first_that_runs(makers):
    """The first of 'makers' whose call runs, that call having run; RuntimeError with each one's reason."""
    reasons = []
    for make in makers:
        try:
            call = make()
            call()
            return call
        except Exception as failure:
            reasons.append(reason_of(failure))
    raise RuntimeError("torch.compile makes no kernel of it: " + "; ".join(dict.fromkeys(reasons)))


def attention(p):
    """A peer of peers.py."""
    import torch
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention
    q, k, v = (t.transpose(1, 2) for t in (p.q, p.k, p.v))
    mask = None
    if p.causal:
        mask = create_block_mask(lambda b, h, i, j: i >= j, None, None, p.length, p.length)
    score_mod = softcap_of(p.cell.softcap, torch.tanh)

    def make(kernel_options):
        torch._dynamo.reset()  # each case is a program of its own: no fallback after a few recompilations
        compiled = torch.compile(flex_attention, dynamic=False)

        def call():
            return compiled(q, k, v, score_mod=score_mod, block_mask=mask, scale=p.scale,
                            enable_gqa=p.kv_heads != p.q_heads, kernel_options=kernel_options)
        return call
    # Where it cannot be compiled it has no figure: what runs uncompiled makes all scores in memory.
    torch._dynamo.config.suppress_errors = False
    call = first_that_runs([lambda o=options: make(o) for options in KERNEL_OPTIONS])
    return call, lambda out: out.transpose(1, 2)
