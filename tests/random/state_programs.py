"""Random programs that go through a sequence chunk by chunk, with a state: a matrix that a chunk's products take, and that they change."""
from spaces import Space
from tree import Compute, Copy, Let, Loop, Mask, Name, Number, Tensor, Tile, axis, call, compare

DECAYS = (1.0, 0.9, 0.5, 0.25)


class StatePrograms:
    """A part of the Builder. `states` is a stream of its own: programs without a state are the same with and without it."""

    def state_program(self):
        r = self.states
        self.parallel()
        chunk, length = self.fresh("cut").upper(), self.length(f"{self.fresh('row')}_len")
        self.declarations.insert(0, Let(chunk, Number(r.choice((16, 32, 32, 64, 64)))))
        rows, keys = (Space(self.fresh(kind), length, "plain") for kind in ("row", "walk"))
        d, e = (self.feature(r.choice((32, 64, 64, 128))) for _ in "de")
        columns = Space(e.name, e.length.name)
        bring = {"left": (rows, d), "right": (keys, d), "value": (keys, e)}
        q, k, v = (self.input(kind, self.some_parallels(), [s.axis, a], self.fill(0.5)) for kind, (s, a) in bring.items())
        state, out, s = self.fresh("sum"), self.fresh("sum"), self.fresh("score")
        self.begin_state(state, d, e)
        outer, self.body = self.body, []
        for x in (q, k, v):
            self.add(Copy(x, "global", "shared"))
        parts = [lambda: self.of_state(q, state, out, rows, chunk), lambda: self.of_chunk(q, k, s, rows, keys)]
        r.shuffle(parts)
        is_late = r.random() < 0.5
        for part in parts:
            part()
        if not is_late:
            self.next_state(k, v, state, keys, chunk)
        self.compute("GEMM", [Tile(s), Tile(v)], out, 3.0, accumulate=True)
        if is_late:
            self.next_state(k, v, state, keys, chunk)
        self.changes(out, [rows, columns], 0, 1, ("scale", "tanh", "abs", "relu"))
        self.store(out, [rows, columns])
        body, self.body = self.body, outer
        self.add(Loop(self.fresh("loop"), Name(length), chunk, body))
        if r.random() < 0.6:
            name = self.fresh("out")
            self.declarations.append(Tensor(name, "f32", list(self.parallels), [d, e], output=True))
            self.add(Copy(state, "register", "global", name))
            self.outputs += 1

    def begin_state(self, state, d, e):
        """From memory, or a number everywhere."""
        if self.states.random() < 0.5:
            before = self.input("value", self.some_parallels(), [d, e], ("normal", 1.0, 0.0), "f32")
            self.add(Copy(before, "global", "register", state))
            self.magnitude[state] = 1.0
        else:
            number = Number(self.states.choice((0, 0, 0.5)))
            self.compute("Fill", [number], state, 1.0, axes=(d.name, e.name))

    def of_state(self, q, state, out, rows, chunk):
        """What the chunks before say, less for what is far from them."""
        self.compute("GEMM", [Tile(q), Tile(state)], out, 3.0)
        if self.states.random() < 0.7:
            place = Name(rows.index) % Name(chunk)
            self.compute("Multiply", [Tile(out), call("exp", Number(-0.0625) * place)], out, 3.0)

    def of_chunk(self, q, k, s, rows, keys):
        self.compute("GEMM", [Tile(q), Tile(k, True)], s, 2.0)
        if self.states.random() < 0.7:
            far = call("abs", Name(rows.index) - Name(keys.index))
            self.compute("Multiply", [Tile(s), call("exp", Number(-0.03125) * far)], s, 2.0)
        if self.states.random() < 0.8:
            self.add(Mask(s, Number(0), compare(self.states.choice((">", ">=")), Name(keys.index), Name(rows.index))))

    def next_state(self, k, v, state, keys, chunk):
        """It decays, and what the chunk adds to it may be weighted by place."""
        weighted, decay = v, self.states.choice(DECAYS)
        if self.states.random() < 0.7:
            weighted = self.fresh("value")
            self.add(Copy(v, "global", "register", weighted))
            self.magnitude[weighted] = 0.5
            rest = Name(chunk) - Number(1) - Name(keys.index) % Name(chunk)
            self.compute("Multiply", [Tile(weighted), call("exp", Number(-0.0625) * rest)], weighted, 0.5)
        if decay != 1.0:
            self.compute("Multiply", [Tile(state), Number(decay)], state, 2.0)
        self.compute("GEMM", [Tile(k, True), Tile(weighted)], state, 3.0, accumulate=True)
