"""flashtl.append on NumPy's arrays: rows in their places, rotated as written down here, everything else untouched."""
import itertools

import numpy as np

import flashtl
from helpers import Case, random


def rotated(rows, cosine, sine, interleaved):
    """(token, heads, d) by a row of angles for each token."""
    rows, half = rows.astype(np.float64), cosine.shape[1]
    first, second = (slice(0, 2 * half, 2), slice(1, 2 * half, 2)) if interleaved else (slice(0, half), slice(half, 2 * half))
    a, b, c, s = rows[..., first], rows[..., second], cosine[:, None], sine[:, None]
    found = rows.copy()
    found[..., first], found[..., second] = a * c - b * s, b * c + a * s
    return found


class Append(Case):
    q, k, v = random(5, 4, 16), random(5, 2, 16, seed=2), random(5, 2, 24, seed=3)
    slots, places = np.array([7, 0, 11, 3, 4], np.int32), np.array([2, 0, 9, 1, 1], np.int32)

    def pools(self):
        return random(3, 4, 2, 16, seed=4), random(3, 4, 2, 24, seed=5)

    def angles(self, half):
        turns = np.arange(10)[:, None] * 0.7 ** np.arange(half)
        return np.cos(turns).astype(np.float32), np.sin(turns).astype(np.float32)

    def expect(self, pools, before, keys):
        for pool, old, rows in zip(pools, before, (keys, self.v.astype(np.float64))):
            wanted = old.astype(np.float64).reshape(12, 2, -1)
            wanted[self.slots] = rows
            self.close(pool.reshape(12, 2, -1), wanted, 2e-3)
            rest = np.setdiff1d(np.arange(12), self.slots)
            np.testing.assert_array_equal(pool.reshape(12, 2, -1)[rest], old.reshape(12, 2, -1)[rest])

    def test_plain(self):
        pools, before = self.pools(), self.pools()
        self.assertIsNone(flashtl.append(self.k, self.v, *pools, self.slots))
        self.expect(pools, before, self.k)

    def test_rotated(self):
        for half, interleaved in itertools.product((8, 3), (False, True)):
            pools, before, (cosine, sine) = self.pools(), self.pools(), self.angles(half)
            q = flashtl.append(self.k, self.v, *pools, self.slots, q=self.q, cosine=cosine, sine=sine, places=self.places,
                               interleaved=interleaved)
            turns = cosine[self.places], sine[self.places], interleaved
            self.close(q, rotated(self.q, *turns), 2e-3)
            self.expect(pools, before, rotated(self.k, *turns))

    def test_emulator(self):
        k, v, q = random(5, 2, 64), random(5, 2, 64, seed=2), random(5, 4, 64, seed=3)
        cosine, sine = self.angles(32)
        found = []
        for on, gpu in ((None, None), ("emulator", "a100")):
            pools, out = [random(3, 4, 2, 64, seed=n) for n in (4, 5)], np.zeros_like(q)
            self.assertIs(flashtl.append(k, v, *pools, self.slots, q=q, cosine=cosine, sine=sine, places=self.places, out=out, on=on,
                                         gpu=gpu), out)
            found.append([*pools, out])
        for one, other in zip(*found):
            self.close(one, other.astype(np.float64), 2e-3)

    def test_refused(self):
        cosine, sine = self.angles(8)

        def says(kind, text, slots=self.slots, k=self.k, v=self.v, pools=None, **named):
            self.says(kind, text, flashtl.append, k, v, *(pools or self.pools()), slots, **named)

        turns = {"cosine": cosine, "sine": sine, "places": self.places}
        says(ValueError, "'slots' names slots from 0 to 11; found 12", slots=np.array([7, 0, 12, 3, 4], np.int32))
        says(ValueError, "'slots' names slots from 0 to 11; found -1", slots=np.array([7, 0, -1, 3, 4], np.int32))
        says(ValueError, "two entries of 'slots' are equal", slots=np.array([7, 0, 7, 3, 4], np.int32))
        says(ValueError, "'slots' is int32 of the shape (5,)", slots=self.slots[:3])
        says(ValueError, "5 tokens do not go into 1 pages of 4", pools=[x[:1] for x in self.pools()])
        says(ValueError, "'v_pages' has pages of rows like those of 'v'", pools=(self.pools()[0], self.pools()[0]))
        says(ValueError, "'k' and 'v' differ in more than d", v=self.v[:4])
        says(TypeError, "'cosine' is missing", q=self.q)
        says(TypeError, "'places' is missing", cosine=cosine, sine=sine)
        says(ValueError, "'cosine' has the shape (places, half), of at most 8 columns", **{**turns, "cosine": np.zeros((10, 9), np.float32)})
        says(ValueError, "'sine' is float32 of the shape (10, 8)", **{**turns, "sine": sine[:9]})
        says(ValueError, "'places' names rows from 0 to 9; found 10", **{**turns, "places": self.places + 1})
        says(ValueError, "'q' has as many tokens", q=self.q[:4], **turns)
        says(ValueError, "'out' is of the type and shape of 'q'", q=self.q, out=self.q[:4].copy(), **turns)
        says(ValueError, "share memory", q=self.q, out=self.q, **turns)
        pool = random(3, 4, 2, 16, seed=4)
        says(ValueError, "share memory", v=self.k, pools=(pool, pool))
