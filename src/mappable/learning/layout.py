"""The order of images in a tuple: anchor, positives, hard negatives, random negatives, other negative."""

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
    all_pairs: bool = False  # of anchor and positives, whose distances in the world the geometric term wants

    @property
    def negatives(self) -> int:
        """Negatives of the first hinge: the hard and the random ones, without the other one."""
        return self.hard + self.random

    @property
    def pairs(self) -> int:
        """Pairs whose distances in the world are known: anchor with each positive, then positives with each other."""
        return self.positives * (self.positives + 1) // 2 if self.all_pairs else self.positives

    @property
    def images(self) -> int:
        """Images in a tuple, the anchor included."""
        return 1 + self.positives + self.negatives + self.other
