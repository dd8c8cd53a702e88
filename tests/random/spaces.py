"""Where tensors of random programs lie: places that a kernel walks or divides, and tensors along them."""
import tree as t
from tree import Let, Name, Number, Tensor, View, axis, call, compare, element


class Space:
    """Places that a kernel walks or divides: an index name, a length, and how tensors along it are stored."""

    def __init__(self, index, length, mode="plain", **more):
        self.index, self.length, self.mode = index, length, mode
        self.__dict__.update(more)

    @property
    def axis(self):
        return axis(self.index, self.length)


def space_of(a):
    return Space(a.name, a.length.name)


class Spaces:
    """A part of the Builder."""

    def space(self, kind, walked):
        index = self.fresh(kind)
        modes = {"plain": 70}
        if self.has_b:
            modes["ragged"] = 6
            if walked:
                modes |= {"used": 8, "paged": 6, "tail": 5}
        if not walked:
            modes["folded"] = 5
        if walked:
            modes |= {"shifted": 4, "gathered": 3, "reversed": 2, "strided": 1, "joined": 2}
        mode = self.weighted(modes)
        length = f"{index}_len"
        self.used.add(length)
        if mode == "plain":
            return Space(index, self.length(length), mode)
        if mode == "used":                          # a part of each sequence, as long as a table says
            room = self.length(f"{index}_room")
            table = self.input("table", [], [axis("b", "batch")], ("lengths", 0, Name(room)), "i32", flat=True)
            used = element(table, "b")
            if self.chance(0.3):                    # the table's number is bounded, or lessened
                used = self.r.choice((call("min", used, Number(self.r.choice((3, 64, 100)))), call("max", Number(0), used - Number(self.r.choice((1, 5, 30)))),
                                      call("min", used, Name(room) / Number(2))))
            self.declarations.append(Let(length, used))
            return Space(index, length, mode, room=room)
        if mode == "tail":                          # the last places of each sequence
            room, start = self.length(f"{index}_room"), f"{index}_start"
            self.used.add(start)
            table = self.input("table", [], [axis("b", "batch")], ("lengths", 0, Name(room)), "i32", flat=True)
            used = element(table, "b")
            self.declarations.append(Let(start, call("max", Number(0), used - Number(self.r.choice((1, 16, 40, 100))))))
            self.declarations.append(Let(length, used - Name(start)))
            return Space(index, length, mode, room=room, start=start)
        if mode == "folded":                        # rows are pairs of a place and a head
            places, heads = self.length(f"{index}_places"), f"{index}_folds"
            self.lengths[heads] = ("pick", [1, 2, 3, 8])
            self.used.add(heads)
            self.declarations.append(Let(length, Name(places) * Name(heads)))
            return Space(index, length, mode, room=places, folds=heads)
        if mode == "ragged":                        # sequences one after the other
            tokens = self.length(f"{index}_tokens")
            if "starts" not in self.used:
                self.used.add("starts")
                self.lengths["starts"] = ("plus", "batch", 1)
                self.lengths["batch"] = ("pick", [n for n in self.lengths["batch"][1] if n])    # all rows are somebody's
                self.declarations.append(Let("batch", Name("starts") - Number(1)))
            table = self.input("table", [], [axis(self.fresh("walk"), "starts")], ("starts", Name(tokens)), "i32", flat=True)
            self.declarations.append(Let(length, element(table, Name("b") + Number(1)) - element(table, "b")))
            return Space(index, length, mode, room=tokens, table=table)
        if mode == "paged":
            page_len = self.r.choice((16, 32, 64, 7))
            self.lengths[f"{index}_page"] = ("fixed", page_len)
            self.used |= {f"{index}_page", f"{index}_pages", f"{index}_most"}
            self.lengths[f"{index}_pages"] = ("pick", [1, 2, 5, 9])
            self.lengths[f"{index}_most"] = ("pick", [1, 2, 4] if page_len > 20 else [2, 5, 9])
            table = self.input("table", [], [axis("b", "batch"), axis(self.fresh("walk"), f"{index}_most")],
                               ("below", Name(f"{index}_pages")), "i32", flat=True)
            used = self.input("table", [], [axis("b", "batch")], ("lengths", 0, Name(f"{index}_most") * page_len), "i32", flat=True)
            self.declarations.append(Let(length, element(used, "b")))
            return Space(index, length, mode, table=table)
        if mode == "gathered":
            room = self.length(f"{index}_room")
            self.lengths[room] = ("pick", [n for n in self.lengths[room][1] if n])
            self.length(length)
            batch = [axis("b", "batch")] if self.has_b and self.chance(0.5) else []
            table = self.input("table", batch, [axis(index, length)], ("below", Name(room)), "i32", flat=True)
            return Space(index, length, mode, room=room, table=table, by_b=bool(batch))
        if mode == "shifted":
            shift = self.r.choice((1, 3, 16, 50))
            room = self.length(f"{index}_room")
            self.lengths[room] = ("pick", [n + shift for n in self.lengths[room][1]])
            self.declarations.append(Let(length, Name(room) - Number(shift)))
            return Space(index, length, mode, room=room, shift=shift)
        if mode == "strided":
            room = self.length(f"{index}_room")
            self.declarations.append(Let(length, call("floor", Name(room) / Number(2))))
            return Space(index, length, mode, room=room)
        return Space(index, self.length(length), mode)

    def along(self, space, kind, matrix, batch, fill, type=None):
        """A tensor whose axis `space.index` is stored as the space says; `matrix` are the axes of the tile."""
        if space.mode == "plain":
            known = [k for k, a in enumerate(matrix) if self.lengths.get(t.show(a.length), "?")[0] == "fixed" and self.width(a) % 8 == 0]
            if known and self.chance(0.05):
                return self.part(kind, batch, matrix, fill, type, self.r.choice(known))
            return self.input(kind, batch, matrix, fill, type)
        base = self.fresh(kind)
        others = [a for a in matrix if a.name != space.index]
        i = Name(space.index)
        place = matrix.index(next(a for a in matrix if a.name == space.index))

        def put(x, rest):
            return rest[:place] + [x] + rest[place:]
        rest = [Name(a.name) for a in others]
        where = None
        if space.mode == "folded":
            stored, fold = axis(self.fresh("walk"), space.room), axis(self.fresh("walk"), space.folds)
            heads, before = list(batch) + [stored], [self.index_of(a) for a in batch] + [i / Name(space.folds)]
            whole, inside = put(fold, others), put(i % Name(space.folds), rest)
        elif space.mode in ("reversed", "joined"):
            stored = axis(self.fresh("walk"), space.length)
            inside = put(Name(space.length) - Number(1) - i if space.mode == "reversed" else i - Number(1), rest)
            where = compare(">=", i, Number(1)) if space.mode == "joined" else None
            heads, before = list(batch), [self.index_of(a) for a in batch]
            whole = put(stored, others)
        elif space.mode == "paged":
            heads = [a for a in batch if a.name != "b"]
            page = self.fresh("walk")
            slot = axis(self.fresh("walk"), f"{space.index}_page")
            whole = put(slot, others)
            page_of = element(space.table, "b", i / Name(f"{space.index}_page"))
            inside = put(i % Name(f"{space.index}_page"), rest)
            before = [self.index_of(a) for a in heads] + [page_of]
            heads = heads + [axis(page, f"{space.index}_pages")]
        else:
            stored = axis(self.fresh("walk"), space.room)
            whole = put(stored, others)
            heads, before = list(batch), [self.index_of(a) for a in batch]
            if space.mode == "ragged":
                heads = [a for a in batch if a.name != "b"]
                before = [self.index_of(a) for a in heads]
                inside = put(element(space.table, "b") + i, rest)
            elif space.mode == "used":
                inside = put(i, rest)
            elif space.mode == "tail":
                inside = put(Name(space.start) + i, rest)
            elif space.mode == "shifted":
                inside = put(i + Number(space.shift), rest)
            elif space.mode == "strided":
                inside = put(i * Number(2), rest)
            else:
                inside = put(element(space.table, *(["b", i] if space.by_b else [i])), rest)
        self.declarations.append(Tensor(base, type, heads, whole, fill=fill))
        name = self.fresh(kind)
        batch_of_view = [a for a in self.parallels_of(batch, space)]
        self.declarations.append(View(name, batch_of_view, list(matrix), base, before + inside, where, 0.0))
        return name

    def part(self, kind, batch, matrix, fill, type, k):
        """A part of a wider tensor: along axis k its elements begin at a number."""
        a, base = matrix[k], self.fresh(kind)
        start = self.r.choice((0, 8, 64, self.width(a)))
        wide = self.fresh("feature")
        self.lengths[wide] = ("fixed", self.width(a) + start + self.r.choice((0, 0, 8)))
        whole = [axis(x.name if i != k else self.fresh("place"), x.length if i != k else wide) for i, x in enumerate(matrix)]
        where = compare(">=", Name(wide), a.length + Number(start))
        for length in (a.length.name, wide):        # both are known from the text
            if not any(d.name == length for d in self.declarations):
                self.declarations.append(Let(length, Number(self.lengths[length][1])))
            self.pins.pop(length, None)
        if self.chance(0.6):
            where = None
        self.declarations.append(Tensor(base, type, list(batch), whole, fill=fill, where=where))
        name = self.fresh(kind)
        inside = [Name(x.name) + Number(start) if i == k and start else Name(x.name) for i, x in enumerate(matrix)]
        self.declarations.append(View(name, list(batch), list(matrix), base, [x.index for x in batch] + inside))
        return name

    def index_of(self, a):
        """What stands in a view for an axis before the matrix: its index, which may be head/group."""
        return a.index

    def parallels_of(self, batch, space):
        names = [t.show(a.index) for a in batch]
        if space.mode in ("ragged", "paged", "used", "tail") and "b" not in names:
            batch = [axis("b", "batch")] + list(batch)
        if space.mode == "gathered" and space.by_b and "b" not in names:
            batch = [axis("b", "batch")] + list(batch)
        return batch
