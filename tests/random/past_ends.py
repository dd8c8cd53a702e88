"""Numbers that only elements past the ends of axes meet: whatever they are, no result may depend on them."""
from tree import Compute, Name, Number, Tile, call, compare

# Past what f16 holds, past what f32 holds once or twice multiplied, and what makes NaN of them.
FAR = (7e4, -7e4, 1e6, 1e20, -1e20, 3e38)


class PastEnds:
    """For a Builder whose `ends` is a random.Random, or None: none is drawn."""

    def meets_ends(self, x, axes):
        """Statements that leave a tile as it is where its elements exist."""
        if self.ends is None or self.ends.random() < 0.3:
            return
        long = [a for a in axes if a.length is not None and a.index != str(a.length)]
        if not long:
            return
        a = self.ends.choice(long)
        op, neutral, far = self.ends.choice((("Add", 0.0, None), ("Subtract", 0.0, None), ("Multiply", 1.0, None), ("Divide", 1.0, 0.0),
                                             ("Multiply", 1.0, 1e-30)))
        far = self.ends.choice(FAR) if far is None else far
        exists = compare("<", Name(a.index), Name(a.length))
        self.add(Compute(op, [Tile(x), call("select", exists, Number(neutral), Number(far))], x))
        if self.ends.random() < 0.3:                # its size where it exists: a choice, not a change
            bound = call("select", exists, Number(-3e38), Number(self.ends.choice(FAR)))
            self.add(Compute("Max", [Tile(x), bound], x))
