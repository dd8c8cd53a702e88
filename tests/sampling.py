"""Of long lists of kernels that are compiled and run, `make test` takes each n-th: FLASHTL_KERNELS=n in the environment.
Without it tests take all of their lists. What is cheap but under sanitizers goes by FLASHTL_SAMPLE instead, as the unit tests do
(tests/unit/sample.h). tools/test.sh adds up what was taken."""
import os


def sampled(cases, variable="FLASHTL_KERNELS"):
    cases = list(cases)
    every = max(1, int(os.environ.get(variable) or 1))
    taken = cases[::every]
    if every > 1:
        print(f"sample: {len(taken)} of {len(cases)} cases", flush=True)
    return taken
