"""What studies/live/following.py compares the localizer with, and how it counts."""

from typing import Any

import numpy as np
from mappable.maps.deviations import erring_axes
from scipy.stats import chi2

from mappable.arrays import Bools, Floats, Floats32, evenly
from mappable.features.descriptors import Described
from mappable.localization.map import Map
from mappable.maps.store import squared_between

ELLIPSE = 0.95  # probability that an ellipse should hold the true position
SOON = 10  # images within which a camera should be found again
MATCHED = 10  # images that are matched together, as SeqSLAM does
SPEEDS = (0.5, 0.75, 1.0, 1.33, 2.0)  # of the query relative to the map, that are tried
Found = dict[str, Any]


def single(opened: Map, seen: Floats32) -> Found:
    """Single images."""
    found = opened.locate_all(seen)
    return {
        "position": np.array([one.coordinates for one in found]),
        "trusted": np.array([one.confident for one in found]),
    }


def whole(opened: Map, seen: Floats32, starts: Bools) -> Found:
    """Whole drives; each piece is one drive."""
    parts = [opened.locate_drive(one) for one in np.split(seen, np.flatnonzero(starts)[1:])]
    found = [one for part in parts for one in part]
    return {
        "position": np.array([one.coordinates for one in found]),
        "trusted": np.array([one.confident for one in found]),
    }


def matched(described: Described, landmarks: int, seen: Floats32) -> Found:
    """Matching of short sequences: the last images against stretches of the map's longest visit, at
    several speeds.

    The map has as many images as the others have landmarks, all from that visit.
    """
    training = np.flatnonzero(described.places.split == "train")
    visit = training[max(described.places[training].sequences().values(), key=len)]
    order = visit[evenly(len(visit), landmarks)]
    squared = squared_between(seen, described.descriptors[order])
    squared = (squared - squared.mean(1, keepdims=True)) / squared.std(1, keepdims=True)
    at, count = described.places.positions[order], len(order)
    usual = count / max(1, len(seen))
    best = np.empty(len(seen), dtype=np.int64)
    for n in range(len(seen)):
        back = np.arange(min(MATCHED, n + 1))
        scores = np.full(count, np.inf)
        for speed in SPEEDS:
            for way in (-1, 1):
                column = np.arange(count)[:, None] + np.round(way * speed * usual * back).astype(
                    int
                )
                inside = (column >= 0) & (column < count)
                cost = np.where(inside, squared[n - back, np.clip(column, 0, count - 1)], 0.0).mean(
                    1
                )
                scores = np.minimum(scores, cost)
        best[n] = int(scores.argmin())
    return {"position": at[best], "trusted": np.ones(len(seen), dtype=bool)}


def filtered(opened: Map, seen: Floats32) -> Found:
    """A Kalman filter with constant velocity on the positions of nearest landmarks; it trusts
    itself after 3 images.
    """
    measured = opened.landmarks.places.positions[opened.landmarks.store.nearest(seen, 1)[0][:, 0]][
        :, :2
    ]
    noise = max(opened.calibration.plain_deviation, 1e-6) ** 2
    step = np.linalg.norm(np.diff(measured, axis=0), axis=1)
    pull = float(np.mean(step)) ** 2 / 4
    move = np.block([[np.eye(2), np.eye(2)], [np.zeros((2, 2)), np.eye(2)]])
    state, spread = np.concatenate([measured[0], np.zeros(2)]), np.diag([noise, noise, pull, pull])
    path, trusted = [measured[0]], [False]
    for one in measured[1:]:
        state, spread = move @ state, move @ spread @ move.T + np.diag([0, 0, pull, pull])
        gain = spread[:, :2] @ np.linalg.inv(spread[:2, :2] + noise * np.eye(2))
        state, spread = state + gain @ (one - state[:2]), spread - gain @ spread[:2]
        path.append(state[:2].copy())
        trusted.append(len(path) > 3)
    return {"position": np.array(path), "trusted": np.array(trusted)}


def judge(
    found: Found, truth: Floats, yaw: Floats, starts: Bools, within: tuple[float, float]
) -> Found:
    """Count what was found, trusted and wrong; how soon; and whether covariances hold."""
    off = found["position"] - truth[:, : found["position"].shape[1]]
    error, trusted = np.linalg.norm(off, axis=1), found["trusted"]
    right = trusted & (error <= within[1])
    first = [
        int(np.argmax(one)) if one.any() else len(one)
        for one in np.split(right, np.flatnonzero(starts)[1:])
    ]
    facts = {
        "images": len(error),
        "found": int((error <= within[0]).sum()),
        "median": float(np.median(error)),
        "trusted": int(trusted.sum()),
        "wrong": int((trusted & (error > within[1])).sum()),
        "pieces": len(first),
        "soon": int(sum(one < SOON for one in first)),
        "first": [int(one) for one in first],
    }
    if "covariance" in found and right.any():
        some = erring_axes(off)
        own, covariance = off[:, some], found["covariance"][:, some][:, :, some]
        squared = np.einsum("ni,nij,nj->n", own, np.linalg.inv(covariance), own)[right]
        facts |= {
            "nees": float(squared.mean() / own.shape[1]),
            "held": int((squared < chi2.ppf(ELLIPSE, own.shape[1])).sum()),
            "judged": len(squared),
        }
        facts["milliseconds"] = found["milliseconds"]
        turned = np.abs((found["heading"] - yaw + np.pi) % (2 * np.pi) - np.pi)[right]
        if np.isfinite(turned).all():
            facts |= {
                "heading": float(np.median(turned)),
                "heading 90 %": float(np.quantile(turned, 0.9)),
            }
            facts["heading held"] = int((turned <= found["deviation"][right]).sum())
    return facts
