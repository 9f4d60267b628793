"""Trees of coordinate frames, as ROS records them: the pose of one frame in another."""

from dataclasses import dataclass, field

import numpy as np
from scipy.spatial.transform import Rotation

from mappable.arrays import Floats
from mappable.readers.toolkit import TOLERANCE

STEADY_M, STEADY_RAD = 1e-3, 1e-3  # a link that moves by more than this is a joint


@dataclass
class TransformTree:
    """Links from child to parent, each with a rotation (x, y, z, w) and a translation in metres; joints are marked."""

    links: dict[str, tuple[str, Floats, Floats]] = field(default_factory=dict)
    joints: set[str] = field(default_factory=set)

    def add(self, parent: str, child: str, translation: Floats, quaternion: Floats) -> None:
        """Add a link. If it was added before, and has moved since, it is a joint. A link that is no pose is skipped."""
        parent, child = parent.lstrip("/"), child.lstrip("/")
        length = np.linalg.norm(quaternion)
        if not np.isfinite(translation).all() or not abs(length - 1) < TOLERANCE:
            return
        before = self.links.setdefault(child, (parent, translation, quaternion / length))
        turned = 2 * np.arccos(min(1.0, abs(float(before[2] @ quaternion / length))))
        moved = np.linalg.norm(before[1] - translation) > STEADY_M or turned > STEADY_RAD
        if before[0] != parent or moved:
            self.joints.add(child)

    def pose(self, child: str, parent: str) -> tuple[Rotation, Floats] | None:
        """The rotation and translation that map coordinates of `child` to those of `parent`.

        It is None if the tree does not join the two, or if a joint lies between them.
        """
        up, down = self._to_root(child.lstrip("/")), self._to_root(parent.lstrip("/"))
        common = next((name for name in up if name in down), None)
        if common is None or self._has_joint(up, common) or self._has_joint(down, common):
            return None
        (turn, shift), (back_turn, back_shift) = up[common], down[common]
        inverse = back_turn.inv()
        return inverse * turn, inverse.apply(shift - back_shift)

    def _to_root(self, name: str) -> dict[str, tuple[Rotation, Floats]]:
        """The frames from `name` to the root of its tree, each with the pose of `name` in it."""
        turn, shift = Rotation.identity(), np.zeros(3)
        found = {name: (turn, shift)}
        while name in self.links and self.links[name][0] not in found:
            name, translation, quaternion = self.links[name]
            link = Rotation.from_quat(quaternion)
            turn, shift = link * turn, link.apply(shift) + translation
            found[name] = turn, shift
        return found

    def _has_joint(self, chain: dict[str, tuple[Rotation, Floats]], end: str) -> bool:
        names = list(chain)
        return any(name in self.joints for name in names[: names.index(end)])
