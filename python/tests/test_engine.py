"""examples/engine.py on NumPy's arrays: an engine's loop, each of its results compared with attention written down plainly."""
import importlib.util

import numpy as np

import flashtl
from helpers import SOURCE, Case

spec = importlib.util.spec_from_file_location("engine", SOURCE / "examples/engine.py")
engine = importlib.util.module_from_spec(spec)
spec.loader.exec_module(engine)


def same(array):
    return array


class Engine(Case):
    def test_requests(self):
        for requests in ([(5, 3), (20, 4), (1, 6), (30, 2), (12, 1)], [(1, 1)], [(24, 2), (8, 8), (8, 8), (9, 1)]):
            worst, steps = engine.serve(same, same, requests)
            self.assertLess(worst, 5e-3)
            self.assertGreaterEqual(steps, 2)

    def test_what_it_compares_would_be_found(self):
        """A table that names another sequence's page."""
        right = engine.Engine.table

        def wrong(self, names):
            table = right(self, names).copy()
            table[-1, 0] = (table[-1, 0] + 1) % engine.PAGES
            return table

        engine.Engine.table = wrong
        try:
            worst, _ = engine.serve(same, same, [(9, 2), (9, 2)])
        finally:
            engine.Engine.table = right
        self.assertGreater(worst, 0.05)

    def test_more_than_the_cache_holds(self):
        """The engine runs out of pages; the call itself would be refused, too."""
        def rows(count):
            return [np.zeros((count, heads, engine.D), np.float16) for heads in (engine.HEADS, engine.KV_HEADS, engine.KV_HEADS)]

        one = engine.Engine(same)
        one.free = one.free[:1]
        self.assertRaises(IndexError, one.step, {"a": rows(engine.PAGE + 1)})
        count = engine.PAGE * engine.PAGES + 1
        self.says(ValueError, "do not go into", flashtl.append, *rows(count)[1:], *one.pools, np.zeros(count, np.int32))
