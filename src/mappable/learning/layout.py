"""Which images a tuple holds, in order: anchor, positives, hard negatives, random negatives, other negative."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Layout:
    """How many images of each kind follow the anchor; in the paper 6 positives, 3 hard and 3 random negatives.

    With an other negative (quadruplets) it takes the place of the last random one, so that tuples of all losses are of
    equal length and their draws alike.

    >>> Layout(positives=6, hard=3, random=2, other=True).images
    13
    """

    positives: int
    hard: int
    random: int
    other: bool

    @property
    def negatives(self) -> int:
        """Negatives of the first hinge: the hard and the random ones, without the other one."""
        return self.hard + self.random

    @property
    def images(self) -> int:
        """Images in a tuple, the anchor included."""
        return 1 + self.positives + self.negatives + self.other
