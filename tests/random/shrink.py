"""Makes a failing program smaller, as long as it fails in the same way."""
import copy

import tree as t

TRIES = 120


def names_in(e):
    if isinstance(e, t.Name):
        yield e.name
    elif isinstance(e, t.Element):
        yield e.tensor
        for i in e.indices:
            yield from names_in(i)
    elif isinstance(e, t.Unary):
        yield from names_in(e.a)
    elif isinstance(e, t.Binary):
        yield from names_in(e.a)
        yield from names_in(e.b)
    elif isinstance(e, t.Call):
        for i in e.arguments:
            yield from names_in(i)


def used(kernel):
    names = set()

    def axes(d):
        for a in d.axes:
            names.update(names_in(a.index))
            names.update(names_in(a.length))
    for s in t.statements(kernel.body):
        if isinstance(s, t.Loop):
            names.update(names_in(s.length))
        elif isinstance(s, t.Copy):
            names.update((s.source, s.target))
        elif isinstance(s, t.Compute):
            for o in s.operands:
                names.update([o.name] if isinstance(o, t.Tile) else names_in(o))
        elif isinstance(s, t.Mask):
            names.update(names_in(s.where))
            names.update(names_in(s.value) if s.value is not None else ())
    for d in reversed(kernel.declarations):
        if d.name not in names:
            continue
        if isinstance(d, t.Let):
            names.update(names_in(d.value))
        else:
            axes(d)
            if isinstance(d, t.View):
                names.add(d.base)
                for i in d.indices:
                    names.update(names_in(i))
                names.update(names_in(d.where) if d.where is not None else ())
    return names


def clean(program):
    """Declarations that nothing uses go, loops without a body, and kernels without a statement."""
    def without_empty(body):
        return [s for s in body if not isinstance(s, t.Loop) or without_empty(s.body)]
    for kernel in program.kernels:
        kernel.body = without_empty(kernel.body)
        for _ in range(3):
            names = used(kernel)
            kernel.declarations = [d for d in kernel.declarations if d.name in names]
    program.kernels = [k for k in program.kernels if k.body]
    text = program.text()
    program.pins = {k: v for k, v in program.pins.items() if k in text or k not in program.lengths}
    return program


def places(body, path=()):
    for i, s in enumerate(body):
        yield path + (i,)
        if isinstance(s, t.Loop):
            yield from places(s.body, path + (i,))


def at(body, path):
    for i in path[:-1]:
        body = body[i].body
    return body, path[-1]


def smaller(program):
    """Programs with one thing less."""
    for k in range(len(program.kernels) if len(program.kernels) > 1 else 0):
        p = copy.deepcopy(program)
        del p.kernels[k]
        yield clean(p)
    for k, kernel in enumerate(program.kernels):
        for path in sorted(places(kernel.body), key=lambda p: (len(p), [-i for i in p])):
            p = copy.deepcopy(program)
            body, i = at(p.kernels[k].body, path)
            del body[i]
            yield clean(p)
        for path in places(kernel.body):
            body, i = at(kernel.body, path)
            s = body[i]
            if isinstance(s, t.Mask) and isinstance(s.where, t.Binary) and s.where.op in ("and", "or"):
                for side in "ab":
                    p = copy.deepcopy(program)
                    body, i = at(p.kernels[k].body, path)
                    body[i].where = getattr(body[i].where, side)
                    yield clean(p)
    for name in list(program.pins):
        if name not in program.lengths:
            p = copy.deepcopy(program)
            del p.pins[name]
            yield p
    for name, spec in program.lengths.items():
        if spec[0] == "pick" and len(spec[1]) > 1 and any(n > 0 for n in spec[1]):
            p = copy.deepcopy(program)
            p.lengths[name] = ("pick", sorted(n for n in spec[1] if n > 0)[:1])
            yield p


def shrink(tester, program, gpu, machines, outcome):
    """The smallest program found, and how it fails."""
    machines = [m for m in machines if m in (outcome.machine, "interpreter")] if outcome.machine in ("emulator", "gpu") else list(machines)
    first = outcome.detail.split(" ")[0]
    cases = [outcome.case] if outcome.case is not None else [1, 2]
    tries = 0
    progress = True
    while progress and tries < TRIES:
        progress = False
        for p in smaller(program):
            tries += 1
            if tries >= TRIES:
                break
            try:
                o = tester.program(p, [gpu], machines, cases)[gpu]
            except Exception:                       # the smaller one means nothing
                continue
            if o.kind == outcome.kind and (o.kind == "wrong" or o.detail.split(" ")[0] == first):
                program, outcome, progress = p, o, True
                break
    return program, outcome
