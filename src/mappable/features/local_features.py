"""Local features by XFeat (Potje et al., CVPR 2024): key points of an image, each with a descriptor of 64 numbers."""

from dataclasses import dataclass
from functools import cache

import numpy as np
import torch
import torch.nn.functional as nnf
from torch import nn

from mappable.arrays import Floats32, Pixels
from mappable.features.weights import load_weights
from mappable.features.xfeat import CELL, COARSEST, XFeat

LEAST_SCORE = 0.05  # least probability of a key point within its cell; the authors' value
SUPPRESSED = 5  # pixels; a key point is the likeliest one in a square of this size
MOST_POINTS = 1024  # strongest key points that are kept
SAMPLES = 400  # affine maps that are tried per pair of images
TOLERANCE = 0.02  # largest error of a match that fits, as a share of the diagonal of the key points
LEAST_AREA = 0.01  # of the triangle of a sample, as a share of the squared diagonal, twice
FEWEST_MATCHES = 6


@dataclass(frozen=True)
class LocalFeatures:
    """Key points of an image: positions (n, 2) in pixels, x first, and descriptors (n, 64) of unit length."""

    points: Floats32
    descriptors: Floats32


@torch.inference_mode()
def describe_locally(image: Pixels) -> LocalFeatures:
    """The key points of an image (height, width, 3), strongest first. Fetches the weights on first use."""
    gray = torch.from_numpy(image.mean(2, dtype=np.float32))[None, None]
    height, width = (max(COARSEST, side // COARSEST * COARSEST) for side in gray.shape[2:])
    scale = np.array([gray.shape[3] / width, gray.shape[2] / height], dtype=np.float32)
    features, reliable, cells = _network()(nnf.interpolate(gray, (height, width), mode="bilinear"))
    likely = nnf.pixel_shuffle(cells.softmax(1)[:, :-1], CELL)
    peaks = (likely == nnf.max_pool2d(likely, SUPPRESSED, 1, SUPPRESSED // 2)) & (likely > LEAST_SCORE)
    points = peaks[0, 0].nonzero().flip(1) + 0.5  # x first
    grid = (2 * points / torch.tensor([width, height]) - 1)[None, None]
    strength = likely[0, 0][peaks[0, 0]] * nnf.grid_sample(reliable, grid, align_corners=False)[0, 0, 0]
    kept = strength.argsort(descending=True)[:MOST_POINTS]
    found = nnf.grid_sample(features, grid[:, :, kept], mode="bicubic", align_corners=False)[0, :, 0].T
    return LocalFeatures(points[kept].numpy() * scale, nnf.normalize(found, dim=1).numpy())


@cache
def _network() -> nn.Module:
    network = XFeat()
    network.load_state_dict(load_weights("xfeat"))
    return network.eval()


def count_inliers(first: LocalFeatures, second: LocalFeatures) -> int:
    """How many key points of two images match, and fit one affine map between the images.

    Two key points match if each is nearest to the other by descriptor. The best map through three matches is found by
    random sampling; the seed is fixed.
    """
    if not len(first.points) or not len(second.points):
        return 0
    alike = first.descriptors @ second.descriptors.T
    there, back = alike.argmax(1), alike.argmax(0)
    rows = np.flatnonzero(back[there] == np.arange(len(there)))
    if len(rows) < FEWEST_MATCHES:
        return 0
    a = np.column_stack([first.points[rows], np.ones(len(rows))])
    b = second.points[there[rows]]
    chosen = np.random.default_rng(0).integers(0, len(rows), (SAMPLES, 3))
    bases = a[chosen]
    good = np.abs(np.linalg.det(bases)) > LEAST_AREA * np.square(np.ptp(a[:, :2], axis=0)).sum()
    maps = np.linalg.solve(bases[good], b[chosen[good]])  # (s, 3, 2)
    off = np.square(np.einsum("nk,skd->snd", a, maps) - b).sum(2)
    tolerance = TOLERANCE * float(np.linalg.norm(np.ptp(a[:, :2], axis=0)))
    return int((off <= tolerance**2).sum(1).max(initial=0))
