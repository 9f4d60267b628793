"""The terms of every loss in plain loops over Python floats, to compare the fast code with."""

import math
from collections.abc import Sequence

from mappable.learning.losses.loss import Loss

Vector = Sequence[float]


def squared_distance(first: Vector, second: Vector) -> float:
    return math.fsum((a - b) ** 2 for a, b in zip(first, second, strict=True))


def loss_terms(loss: Loss, images: Sequence[Vector], squared_metres: Vector) -> dict[str, float]:
    """The `Terms` of one anchor, by name. Only the options of `loss` are used.

    `images` holds the descriptors of the anchor, the positives, the negatives and, for quadruplets,
    the other negative. `squared_metres` holds squared distances from the anchor to its positives.
    """
    anchor, positives, rest = (
        images[0],
        images[1 : 1 + loss.positives],
        images[1 + loss.positives :],
    )
    has_quadruplets, is_lazy = "quadruplet" in loss.name, "lazy" in loss.name
    negatives = rest[:-1] if has_quadruplets else rest
    near = [squared_distance(anchor, one) for one in positives]
    far = [squared_distance(anchor, one) for one in negatives]
    scale, radius, delta = loss.feature_scale_squared, loss.positive_radius, loss.huber_delta
    sizes, costs = [], []
    for feature, geometric in zip(near, squared_metres, strict=True):
        residual = feature / scale - geometric / radius**2
        size = abs(residual)
        bent = residual**2 / 2 if size <= delta else delta * (size - delta / 2)
        sizes.append(size)
        costs.append(bent if "huber" in loss.name else residual**2)
    first, second = [max(0.0, loss.margin + min(near) - one) for one in far], []
    for one in negatives if has_quadruplets else []:
        apart = squared_distance(one, rest[-1])
        second.append(max(0.0, loss.second_margin + min(near) - apart))
    visual = geometric_term = 0.0
    if far:
        visual = max(first) if is_lazy else sum(first)
        visual += max(second, default=0.0) if is_lazy else sum(second)
    if "distance" in loss.name or "huber" in loss.name:
        geometric_term = sum(costs) / len(costs)
    hinges = first + second
    return {
        "total": visual + (loss.geometric_weight if far else 1) * geometric_term,
        "visual": visual,
        "geometric": geometric_term,
        "active": sum(hinge > 0 for hinge in hinges) / max(1, len(hinges)),
        "best": min(near),
        "negative": sum(far) / max(1, len(far)),
        "residual": sum(sizes) / len(sizes),
    }
