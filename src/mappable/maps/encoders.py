"""Open encoders from a file, a training run's folder, torch.hub, or a map's folder."""

from pathlib import Path

from mappable.errors import BadInputError
from mappable.features.files import encoder_file
from mappable.features.image_encoder import ImageEncoder
from mappable.features.opening import Backend, is_hub, open_file
from mappable.maps.folder import MAP
from mappable.maps.landmarks import Landmarks
from mappable.places.decoding import RawDecoding


def open_encoder(
    source: Path | str,
    device: str = "auto",
    backend: Backend | None = None,
    *,
    trust_code: bool = False,
) -> ImageEncoder:
    """Open the encoder of a file, a training run's folder, torch.hub, or a map's folder; see
    `open_file`.
    """
    return open_file(find_encoder(source), device, backend, trust_code=trust_code)


def find_encoder(source: Path | str) -> Path | str:
    """The file of an encoder: `source` itself, or the file in the folder of a training run or a
    map.

    The name of a torch.hub model is returned as it is.
    """
    if is_hub(source):
        return str(source)
    if not (Path(source) / MAP).is_file():
        return encoder_file(source)
    return _kept(Landmarks.open(source))


def decoding_of(source: Path | str) -> RawDecoding | None:
    """How the raw images of a map were decoded; None if `source` is not a map, because encoders do
    not record it.
    """
    return Landmarks.open(source).places.decoding if (Path(source) / MAP).is_file() else None


def encoder_of(
    landmarks: Landmarks,
    source: Path | str | None = None,
    device: str = "auto",
    backend: Backend | None = None,
    *,
    trust_code: bool = False,
) -> ImageEncoder:
    """The encoder in the map's folder, or the one of `source` (see `open_encoder`); raise if it is
    not the map's.
    """
    file = _kept(landmarks) if source is None else find_encoder(source)
    encoder = open_file(file, device, backend, trust_code=trust_code)
    if encoder.fingerprint != landmarks.encoder:
        raise BadInputError(
            f"{file}: is encoder {encoder.fingerprint}, but the map needs encoder"
            f" {landmarks.encoder}"
        )
    return encoder


def _kept(landmarks: Landmarks) -> Path:
    if landmarks.encoder_file is not None:
        return landmarks.encoder_file
    name = landmarks.encoder
    if landmarks.about is None:
        raise BadInputError(
            "the map has no encoder, because its descriptors were made outside Mappable, by"
            f" {name}. Give descriptors of the images: --descriptors FILE --fingerprint {name}"
        )
    raise BadInputError(
        f"the map has no copy of its encoder: give the file of encoder {name} (--encoder, or"
        " encoder=)"
    )
