"""What is random to a run's code: the same on each replay, and not the same after a reset."""

from __future__ import annotations

import random  # noqa: TID251 - seeded by the run id

_SEED_BITS = 128


class Randomness:
    __slots__ = ("_generators", "_own", "_seed")

    def __init__(self) -> None:
        self._seed = ""
        self._own: random.Random | None = None  # made when it is asked for: few runs do
        self._generators: list[random.Random] = []

    def begin(self, seed: str) -> None:
        """`seed`: the id of the run whose start the run's is, unless a reset has set one."""
        self._seed = self._seed or seed

    def begin_anew(self, run_id: str) -> None:
        """After a reset: what was random up to here is the first run's and must be so again, what
        comes is this run's own (a key that it makes must not be one that the other has used)."""
        self._seed = run_id
        if self._own is None:
            return
        self._own.seed(run_id)
        for generator in self._generators:
            generator.seed(self._own.getrandbits(_SEED_BITS))

    def own(self) -> random.Random:
        if self._own is None:
            self._own = random.Random(self._seed)
        return self._own

    def another(self) -> random.Random:
        """A generator whose seed is a number of the run's own."""
        generator = random.Random(self.own().getrandbits(_SEED_BITS))
        self._generators.append(generator)
        return generator
