"""Rigid transforms, and trees of coordinate frames as ROS records them: the pose of one frame in another."""

from dataclasses import dataclass, field

import numpy as np
from scipy.spatial.transform import Rotation

from mappable.arrays import Floats

STEADY_M, STEADY_RAD = 1e-3, 1e-3  # a link that moves by more than this is a joint


@dataclass(frozen=True)
class Transform:
    """One or several transforms `x -> turn x + shift`; as a pose: from the coordinates of a body to
    those around it.
    """

    turn: Rotation
    shift: Floats

    def __matmul__(self, inner: "Transform") -> "Transform":
        """First `inner`, then this transform."""
        return Transform(self.turn * inner.turn, self.turn.apply(inner.shift) + self.shift)

    def seen_from(self, other: "Transform") -> "Transform":
        """This pose in the coordinates of the body of another pose."""
        back = other.turn.inv()
        return Transform(back * self.turn, back.apply(self.shift - other.shift))


@dataclass
class TransformTree:
    """Links from child to parent, each with the pose of the child; links that move are joints."""

    links: dict[str, tuple[str, Transform]] = field(default_factory=dict)
    joints: set[str] = field(default_factory=set)

    def add(self, parent: str, child: str, pose: Transform) -> None:
        """Add a link. A link that is added again with another pose becomes a joint."""
        first_parent, first = self.links.setdefault(child, (parent, pose))
        step = pose.seen_from(first)
        if (
            parent != first_parent
            or np.linalg.norm(step.shift) > STEADY_M
            or step.turn.magnitude() > STEADY_RAD
        ):
            self.joints.add(child)

    def pose(self, child: str, parent: str) -> Transform | None:
        """The pose of `child` in `parent`; None if the tree does not join the two, or if a joint
        lies between them.
        """
        up, down = self._to_root(child), self._to_root(parent)
        common = next((name for name in up if name in down), None)
        between = (
            {name for chain in (up, down) for name in list(chain)[: list(chain).index(common)]}
            if common
            else {""}
        )
        if common is None or between & self.joints:
            return None
        return up[common].seen_from(down[common])

    def _to_root(self, name: str) -> dict[str, Transform]:
        """The frames from `name` to the root of its tree, each with the pose of `name` in it."""
        chain = {name: Transform(Rotation.identity(), np.zeros(3))}
        while name in self.links and self.links[name][0] not in chain:
            parent, link = self.links[name]
            chain[parent] = link @ chain[name]
            name = parent
        return chain
