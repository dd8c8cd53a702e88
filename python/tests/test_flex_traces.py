"""Python functions are traced once, and again as soon as anything that they find is not what it was: never is a sketch a stale one."""
import functools
import types
import unittest.mock

import numpy as np

import flashtl
from flashtl import _flex
from helpers import Case, random


def capped(limit):
    def score(score, b, h, q, kv):
        return limit * np.tanh(score / limit)
    return score


SHIFT = 3
SETTINGS = {"shift": 3}
HOLDER = types.SimpleNamespace(shift=3)


def by_global(score, b, h, q, kv):
    return score + SHIFT * kv


def by_entry(score, b, h, q, kv):
    return score + SETTINGS["shift"] * kv


def by_attribute(score, b, h, q, kv):
    return score + HOLDER.shift * kv


def helper(kv):
    return kv * SHIFT


def by_helper(score, b, h, q, kv):
    return score + helper(kv)


class Traces(Case):
    """A function is traced again as soon as anything that it finds is not what it was."""

    def traces_of(self, run):
        made, original = [], flashtl._flex.traced

        def traced(*arguments):
            made.append(arguments)
            return original(*arguments)
        with unittest.mock.patch.object(_flex, "traced", traced):
            run()
        return len(made)

    def test_once(self):
        by = functools.partial(lambda by, score, b, h, q, kv: score + by * kv, 2)
        for make in (lambda: capped(20.0), lambda: by_global, lambda: by_helper, lambda: by):
            first = flashtl.sketch_of(make())
            self.assertEqual(self.traces_of(lambda: self.assertEqual(flashtl.sketch_of(make()), first)), 0)
        self.assertEqual(self.traces_of(lambda: flashtl.sketch_of(capped(20.0), return_lse=True)), 1)

    def test_captured_numbers(self):
        limits = 20.0, 21.0, 20, 1e-3, np.float32(20), np.float32(3)
        fresh = [str(_flex.traced(capped(limit), None, False, None, True, False)[0]) for limit in limits]
        for _ in range(2):
            self.assertEqual([str(flashtl.sketch_of(capped(limit))) for limit in limits], fresh)

    def test_everything_that_may_change(self):
        global SHIFT
        for change, function in ((lambda x: globals().update(SHIFT=x), by_global), (lambda x: globals().update(SHIFT=x), by_helper),
                                 (lambda x: SETTINGS.update(shift=x), by_entry), (lambda x: setattr(HOLDER, "shift", x), by_attribute)):
            texts = []
            for value in (3, 5, 3):
                change(value)
                texts.append(str(flashtl.sketch_of(function)))
            self.assertNotEqual(texts[0], texts[1], function.__name__)
            self.assertEqual(texts[0], texts[2])
            change(3)
        original, globals()["helper"] = helper, lambda kv: kv * 7
        try:
            self.assertIn("7", str(flashtl.sketch_of(by_helper)))
        finally:
            globals()["helper"] = original

    def test_arrays_are_those_of_the_call(self):
        def biased(table):
            return lambda score, b, h, q, kv: score + table[h, q]
        one, other = random(4, 9, dtype=np.float32), random(4, 9, seed=2, dtype=np.float32)
        flashtl.sketch_of(biased(one))
        found = []
        self.assertEqual(self.traces_of(lambda: found.append(flashtl.sketch_of(biased(other)))), 0)
        self.assertIs(*found[0].inputs.values(), other)
        wide = other.astype(np.float64)
        first = flashtl.sketch_of(biased(wide))
        wide[0, 0] = 7  # an array that is converted is converted anew
        second = flashtl.sketch_of(biased(wide))
        self.assertEqual([next(iter(made.inputs.values()))[0, 0] for made in (first, second)], [other[0, 0], 7])

    def test_arrays_that_are_one(self):
        def biased(a, b):
            return lambda score, *places: score + a[places[1]] * b[places[2]]
        one, other = random(9, dtype=np.float32), random(9, seed=2, dtype=np.float32)
        self.assertEqual(len(flashtl.sketch_of(biased(one, other)).inputs), 2)
        self.assertEqual(len({id(array) for array in flashtl.sketch_of(biased(one, one)).inputs.values()}), 1)
        self.assertEqual([id(array) for array in flashtl.sketch_of(biased(one, other)).inputs.values()], [id(one), id(other)])

    def test_bounds_of_tables(self):
        """What a table's elements are decides conditions of the launch, so that they are looked at in every call."""
        place, values = np.array([1, 2, 3, 0], np.int32), random(4, dtype=np.float32)

        def looked_up(score, b, h, q, kv):
            return score + values[place[h]]
        flashtl.sketch_of(looked_up)
        for at, value, count in ((0, 2, 0), (2, 9, 1), (2, 8, 1), (2, 9, 0)):  # the first is among the others' bounds
            place[at] = value
            self.assertEqual(self.traces_of(lambda: flashtl.sketch_of(looked_up)), count, value)

    def test_what_is_not_compared(self):
        """Functions that may give another result each time."""
        drawn = np.random.default_rng(0)

        def noisy(score, b, h, q, kv):
            return score + float(np.random.rand()) * kv

        def counted(score, b, h, q, kv):
            return score + drawn.random() * kv
        for function in (noisy, counted, by_attribute):
            self.assertEqual(self.traces_of(lambda: (flashtl.sketch_of(function), flashtl.sketch_of(function))), 2, function.__name__)
