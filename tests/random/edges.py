"""Masks that say where loops begin and end: tests that hold together, distances, quotients that are bounded."""
from tree import Binary, Name, Number, call, compare


class Edges:
    """For a Builder whose `edges` is a random.Random, or None: none is drawn."""

    def with_edges(self, c, axes):
        """The condition, or one with edges beside it or in its place."""
        if self.edges is None or len(axes) != 2 or self.edges.random() < 0.2:
            return c
        q, kv = (Name(a.index) for a in (axes if self.edges.random() < 0.9 else axes[::-1]))
        edge = self.edge(q, kv)
        return Binary(self.edges.choice(("or", "or", "and")), c, edge) if self.edges.random() < 0.3 else edge

    def edge(self, q, kv):
        kind = self.edges.choice(("joined", "joined", "both", "near", "near", "clipped", "blocks", "rows"))
        if kind == "joined":
            is_upper = self.edges.random() < 0.7
            return self.junction([self.side(q, kv, is_upper) for _ in range(self.edges.choice((2, 2, 3)))])
        if kind == "both":                          # on both sides: a stretch in the middle
            return self.junction([self.side(q, kv, True), self.side(q, kv, False)])
        if kind == "near":
            near = compare(self.edges.choice((">", ">=", "<", "<=")), call("abs", q - kv), self.distance())
            return self.junction([near, self.side(q, kv, True)]) if self.edges.random() < 0.3 else near
        n = Number(self.edges.choice((3, 8, 16, 50)))
        if kind == "clipped":
            low, high = Number(self.edges.randint(0, 3)), Number(self.edges.randint(3, 9))
            return compare(">", call("abs", call("min", call("max", q / n, low), high) - kv / n), Number(self.edges.randint(0, 3)))
        if kind == "blocks":
            m = n if self.edges.random() < 0.7 else Number(self.edges.choice((4, 8, 64)))
            return compare(self.edges.choice(("!=", "!=", ">", "<=", "==")), kv / n, q / m)
        return self.junction([compare(self.edges.choice((">=", "<")), q, self.distance()), self.side(q, kv, True)])

    def junction(self, tests):
        joined = tests[0]
        for x in tests[1:]:
            joined = Binary("and" if self.edges.random() < 0.9 else "or", joined, x)
        return joined

    def side(self, q, kv, is_upper):
        """What takes later keys, or earlier ones."""
        op = self.edges.choice((">", ">=") if is_upper else ("<", "<="))
        kind = self.edges.choice(("diagonal", "shifted", "place", "block", "turned"))
        if kind == "diagonal":
            return compare(op, kv, q)
        if kind == "shifted":
            return compare(op, kv, q + self.distance())
        if kind == "place":
            return compare(op, kv, self.distance())
        if kind == "turned":
            return compare("<" if is_upper else ">", q - kv, self.distance())
        n = Number(self.edges.choice((4, 16, 32)))
        return compare(op, kv / n, q / n)

    def distance(self):
        return Number(self.edges.choice((0, 1, 5, 17, 40, 64, 100)))
