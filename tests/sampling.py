"""Of long lists of kernels that are compiled and run, `make test` takes each n-th: FLASHTL_KERNELS=n in the environment.
Without it tests take all of their lists. Of each n that follow one another one is taken, in turn of each place, so that an inner list of as many
GPUs is gone through. What is cheap but under sanitizers goes by FLASHTL_SAMPLE instead, as the unit tests do
(tests/unit/sample.h); so do lists of kernels there. tools/test.sh adds up what was taken."""
import os


def sampled(cases, variable="FLASHTL_KERNELS"):
    cases = list(cases)
    every = max(1, int(os.environ.get("FLASHTL_SAMPLE") or os.environ.get(variable) or 1))
    taken = [case for at, case in enumerate(cases) if (at + at // every) % every == 0]
    if every > 1:
        print(f"sample: {len(taken)} of {len(cases)} cases", flush=True)
    return taken
