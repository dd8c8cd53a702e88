"""What a registered function of attention tells of its calls."""
import collections


class Registered:
    """How many calls were taken, and why others were left to PyTorch."""

    def __init__(self, strict, on, gpu):
        self.strict, self.on, self.gpu = strict, on, gpu
        self.taken, self.left = 0, collections.Counter()

    def count_left(self, reason, whose):
        if self.strict:
            raise ValueError(f"flashtl does not take this call of {whose}: {reason}")
        self.left[reason] += 1
