"""Score a model on protocols; evaluate a map."""

import hashlib
import json
import platform
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import numpy as np
import torch

from mappable.errors import BadInputError
from mappable.evaluation.away import away_place
from mappable.evaluation.failures import reason_of
from mappable.evaluation.protocol import Protocol
from mappable.evaluation.protocols import MAP_PROTOCOLS, protocols_named
from mappable.evaluation.protocols.home_and_away import NAME as HOME_AND_AWAY
from mappable.evaluation.protocols.timing import hardware
from mappable.evaluation.result import Result, empty_result
from mappable.evaluation.scoring import Descriptors, NotApplicableError, Scoring
from mappable.evaluation.setup import Setup, setup_of
from mappable.features.about import version_of_mappable
from mappable.features.foreign.filed import FiledDescriptors
from mappable.localization.map import Map
from mappable.maps.landmarks import Landmarks
from mappable.places.joining import concatenate, in_frames
from mappable.places.pixels import ImageFiles, Images
from mappable.places.table import Places
from mappable.progress import progress_bar


def measure(scoring: Scoring, result: Result, protocols: Sequence[Protocol[Any]]) -> Result:
    """`result` with the results of the protocols added.

    A protocol that raises is recorded in `failed`, and the others still run.
    """
    scored, skipped, failed = dict(result.scored), dict(result.skipped), dict[str, str]()
    with progress_bar(f"scoring {result.title}", len(protocols)) as advance:
        for protocol in protocols:
            advance(0, protocol.name)
            try:
                scored[protocol.name] = protocol.run(scoring)
            except NotApplicableError as error:
                skipped[protocol.name] = str(error)
            # Any error: the training and the other protocols must not be lost.
            except Exception as error:
                failed[protocol.name] = reason_of(error)
            advance(1)
    return replace(result, scored=scored, skipped=skipped, failed=failed)


def run_facts(device: torch.device, command: str) -> dict[str, Any]:
    """Hardware, date, command and versions that produced a result."""
    return {
        "hardware": hardware(device),
        "date": datetime.now(UTC).date().isoformat(),
        "command": command,
        "versions": {
            "mappable": version_of_mappable(),
            "python": platform.python_version(),
            "torch": torch.__version__,
            "numpy": np.__version__,
        },
    }


def evaluate_map(
    opened: Map,
    queries: Places,
    *,
    name: str = "queries",
    positive_radius: float | None = None,
    negative_radius: float | None = None,
    protocols: Sequence[str] | None = None,
    command: str = "",
    away: Sequence[str] = (),
) -> tuple[Result, Setup, Images]:
    """Measure how well a map locates images whose positions are known; radii default to those of
    the encoder.

    `protocols` defaults to the protocols that are meant for maps (`Protocol.of_a_map`). `away` are
    folders of other sets, see `away_place`: the protocol home-and-away then runs on them too.
    Returns the result, and the setup and the images that a report needs.
    """
    landmarks, encoder = opened.landmarks, opened.encoder
    queries = queries.decoded_as(landmarks.places.decoding)
    positive = encoder.about.positive_radius if positive_radius is None else positive_radius
    negative = encoder.about.negative_radius if negative_radius is None else negative_radius
    if positive is None or negative is None:
        raise BadInputError(
            "the encoder does not record its radii; give --positive-radius and --negative-radius"
        )
    others = tuple(away_place(one, radius=positive, unit=landmarks.unit) for one in away)
    setup = _setup_of_map(landmarks, queries, name, positive, negative)
    images = ImageFiles(setup.places, encoder.about.size, encoder.about.fit)
    described = encoder.embed(queries)
    known = landmarks.store.take(np.arange(len(landmarks)))
    descriptors = Descriptors(
        np.arange(len(setup.places)), np.concatenate([known, described]), encoder.fingerprint
    )
    scoring = Scoring(
        setup,
        descriptors,
        encoder.about,
        None if isinstance(encoder, FiledDescriptors) else lambda: (encoder, images),
        opened.calibration,
        away=others,
        own_images=False,
    )
    started = empty_result(
        setup,
        row=name,
        title=name,
        seed=encoder.about.seed,
        encoder=encoder.fingerprint,
        settings=dict(encoder.about.settings),
    )
    wanted = list(MAP_PROTOCOLS if protocols is None else protocols)
    wanted += [HOME_AND_AWAY] if others else []
    started = replace(started, ran=run_facts(encoder.device, command), map=_digests(landmarks))
    result = measure(scoring, started, protocols_named(wanted))
    return result, setup, images


def _digests(landmarks: Landmarks) -> dict[str, str]:
    """Digests of the landmarks and of the calibration of a map; the latter is "" without a
    calibration.
    """
    places, calibration = landmarks.places, landmarks.calibration
    chosen = hashlib.sha256("\0".join(places.place_id).encode() + places.positions.tobytes())
    parts = {"landmarks": chosen.hexdigest()[:16], "calibration": ""}
    if calibration is not None:
        fitted = json.dumps(calibration.to_json(), sort_keys=True)
        parts["calibration"] = hashlib.sha256(fitted.encode()).hexdigest()[:16]
    return parts


def _setup_of_map(
    landmarks: Landmarks, queries: Places, name: str, positive: float, negative: float
) -> Setup:
    """A setup of all landmarks and all queries. Queries keep their ids; landmarks get a prefix, so
    ids stay unique.
    """
    if not len(queries):
        raise BadInputError(f"{name}: no queries")
    frames = sorted(set(queries.frame))
    if frames != [landmarks.frame.name]:
        listed = ", ".join(frames)
        raise BadInputError(
            f"{name}: frame of the queries is {listed}, expected {landmarks.frame.name} as in"
            " the map"
        )
    if queries.unit != landmarks.unit:
        raise BadInputError(
            f"{name}: unit of the queries is {queries.unit}, expected {landmarks.unit} as in"
            " the map"
        )
    both = sorted(set(landmarks.places.files) & set(queries.files))
    if both:
        raise BadInputError(
            f"{name}: {both[0]} is a landmark of the map; evaluate with images that are not"
            " landmarks"
        )
    ids = [f"landmark {place_id}" for place_id in landmarks.places.place_id]
    known = landmarks.places.replace(split="", role="reference", place_id=ids)
    asked = in_frames(queries, landmarks.places.frames).replace(split="", role="query")
    return setup_of(
        name,
        concatenate([known, asked]),
        positive_radius=positive,
        negative_radius=negative,
        gallery_landmarks=len(known),
        matrices=None,
    )
