"""Read what clients send: images, forms, and descriptors."""

import asyncio
import io
import re
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from fastapi import Request
from PIL import Image, UnidentifiedImageError
from pydantic import ValidationError
from starlette.datastructures import UploadFile

from mappable.arrays import Floats32, Pixels
from mappable.containers import npy_from_bytes, parse_json
from mappable.errors import BadImageError
from mappable.places.decoding import RawDecoding
from mappable.places.images import Fit, Size, decode_image
from mappable.service.limits import RefusedError
from mappable.service.responses import JSON, KnownPosition, adapter

IMAGES = ("image/jpeg", "image/png", "image/webp")
MULTIPART, NPY = "multipart/form-data", "application/x-npy"
# Bytes of memory per byte of JSON, and in addition per bracket, at most.
JSON_MEMORY, BRACKET_MEMORY = 16, 80
MOST_FIELDS = 100  # of a form, beside its images
FORMATS = ("JPEG", "PNG", "WEBP")
# Of files in FORMATS.
FIRST_BYTES = re.compile(rb"\xff\xd8\xff|\x89PNG\r\n\x1a\n|RIFF....WEBP", re.DOTALL)


@dataclass(frozen=True)
class SentImage:
    """The bytes of an image file, and the name that the client gave it."""

    name: str
    data: bytes


@dataclass(frozen=True)
class SentDescriptors:
    """Descriptors (n, D) of length one, the names of their images, and known positions."""

    names: list[str]
    descriptors: Floats32
    known: list[KnownPosition] = field(default_factory=list)


def kind_of(request: Request, supported: tuple[str, ...]) -> str:
    """The content type; raises if it is not supported."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    kind = "image/jpeg" if kind == "image/jpg" else kind  # a common mistake
    if kind not in supported:
        what = repr(kind) if kind else "none"
        raise RefusedError(
            415, "content_type", f"the content type is {what}, expected {_listed(supported)}"
        )
    return kind


async def read_form(
    request: Request, most: int, known: tuple[str, ...] = ()
) -> tuple[list[SentImage], dict[str, str]]:
    """The images and fields of a form; raises if a field is not `known`, or if there are more than
    `most` images.
    """
    body = await request.body()
    if not body.rstrip(b"\r\n -").strip() or not body.rstrip().endswith(b"--"):
        raise RefusedError(400, "multipart", "the body ends before its last boundary")
    if body.count(b"Content-Disposition") > most + MOST_FIELDS:
        raise RefusedError(
            413, "too_many_images", f"the request has more images than the limit of {most:,}"
        )
    images: list[SentImage] = []
    fields: dict[str, str] = {}
    async with request.form(
        max_files=most + MOST_FIELDS, max_fields=MOST_FIELDS, max_part_size=len(body)
    ) as form:
        for name, value in form.multi_items():
            if isinstance(value, UploadFile):
                images.append(
                    SentImage(value.filename or f"image {len(images)}", await value.read())
                )
            elif name in known:
                fields[name] = value
            else:
                others = f", expected {_listed(known)}" if known else ""
                sentence = f"unknown field {name!r}{others}; send images as parts with a file name"
                raise RefusedError(400, "field", sentence)
    if not images:
        raise RefusedError(
            400, "no_image", "the body has no image; send images as parts with a file name"
        )
    return images, fields


async def read_json(request: Request) -> Any:
    """The JSON of a body. It is parsed in a thread, and its memory counts before that."""
    body = await request.body()
    request.state.reserve(
        JSON_MEMORY * len(body) + BRACKET_MEMORY * (body.count(b"[") + body.count(b"{"))
    )
    try:
        return await asyncio.to_thread(parse_json, body, len(body))
    except ValueError as error:
        raise RefusedError(
            400, "json", f"the body is not JSON ({str(error).splitlines()[0][:200]})"
        ) from None


async def read_descriptors(request: Request, dimensions: int) -> SentDescriptors:
    """The descriptors of a body in JSON or in NumPy's format; raises if they cannot be used."""
    if kind_of(request, (JSON, NPY)) == NPY:
        body = await request.body()
        request.state.reserve(len(body))
        try:
            sent: Any = {"descriptors": await asyncio.to_thread(npy_from_bytes, body)}
        except ValueError as error:
            raise RefusedError(
                400, "descriptors", f"the body is not a .npy file of numbers ({error})"
            ) from None
    else:
        sent = await read_json(request)
    keys = ("descriptors", "images", "known")
    if not isinstance(sent, dict) or "descriptors" not in sent or not sent.keys() <= set(keys):
        raise RefusedError(
            422, "descriptors", f"the body must be an object with the keys {_listed(keys)}"
        )
    descriptors = await asyncio.to_thread(unit_vectors, sent["descriptors"], dimensions)
    names = sent.get("images", [str(row) for row in range(len(descriptors))])
    if (
        not isinstance(names, list)
        or len(names) != len(descriptors)
        or not all(_is_text(name) for name in names)
    ):
        raise RefusedError(
            422, "descriptors", f"images must be {len(descriptors):,} names in Unicode"
        )
    return SentDescriptors(names, descriptors, known_positions(sent.get("known", [])))


def unit_vectors(values: Any, dimensions: int) -> Floats32:
    """Descriptors (n, D) from numbers, scaled to length one; raises if they cannot be used."""
    try:
        numbers = np.asarray(values)
    except (ValueError, OverflowError):
        numbers = np.empty(0, dtype=object)
    if (
        numbers.dtype.kind not in "fiu"
        or numbers.ndim != 2
        or numbers.shape[1] != dimensions
        or not len(numbers)
    ):
        shape = (
            f"of shape {numbers.shape}"
            if numbers.dtype.kind in "fiu"
            else "not an array of numbers"
        )
        raise RefusedError(
            422, "descriptors", f"descriptors are {shape}, expected (n, {dimensions}) as in the map"
        )
    # A number that is too large becomes infinite, which is refused.
    with np.errstate(over="ignore"):
        descriptors = numbers.astype(np.float32)
        lengths = np.linalg.norm(descriptors, axis=1, keepdims=True)
    wrong = np.flatnonzero(~(np.isfinite(lengths) & (lengths > 0)))
    if len(wrong):
        raise RefusedError(
            422, "descriptors", f"descriptor {wrong[0]} is zero, or has NaN or infinite numbers"
        )
    scaled: Floats32 = descriptors / lengths
    return scaled


def known_positions(values: Any) -> list[KnownPosition]:
    """Known positions from JSON (as text or parsed); raises if they cannot be used."""
    check = adapter(list[KnownPosition])
    try:
        known: list[KnownPosition] = (
            check.validate_json(values)
            if isinstance(values, str)
            else check.validate_python(values)
        )
    except ValidationError as error:
        raise RefusedError(422, "known", f"field known: {sentence_of(error.errors()[0])}") from None
    return known


def decode(
    image: SentImage, *, size: Size, fit: Fit, decoding: RawDecoding | None, most_pixels: int
) -> Pixels | RefusedError:
    """The image (height, width, 3), or why it cannot be used; the header decides whether it has too
    many pixels.
    """
    try:
        _check_header(image.data, image.name, most_pixels)
        return decode_image(image.data, size, fit, decoding, image.name)
    except RefusedError as refusal:
        return refusal
    except BadImageError as error:
        return RefusedError(422, "damaged_image", str(error))


def sentence_of(error: Any) -> str:
    """What pydantic says about an option or a field, in one sentence."""
    where = " ".join(str(part) for part in error["loc"] if part not in ("query", "body"))
    return f"{where}: {error['msg'].lower()}" if where else error["msg"].lower()


def _check_header(data: bytes, name: str, most_pixels: int) -> None:
    if not data:
        raise RefusedError(422, "empty_image", f"{name}: empty (0 bytes)")
    try:
        with Image.open(io.BytesIO(data), formats=FORMATS) as image:
            width, height = image.size
            # MPO is a JPEG with a second picture, which is not a frame.
            single = image.format in ("JPEG", "MPO")
            frames = 1 if single else getattr(image, "n_frames", 1)
    except Image.DecompressionBombError:
        raise RefusedError(
            413, "too_many_pixels", f"{name}: more than {most_pixels:,} pixels"
        ) from None
    except UnidentifiedImageError:
        if FIRST_BYTES.match(data):
            raise RefusedError(
                422, "damaged_image", f"{name}: truncated or damaged after its first bytes"
            ) from None
        raise RefusedError(422, "not_an_image", f"{name}: not a JPEG, PNG or WebP image") from None
    except Exception:  # decoders promise no closed set of errors
        raise RefusedError(
            422, "damaged_image", f"{name}: its header is truncated or damaged"
        ) from None
    if width * height > most_pixels:
        sentence = f"{name}: {width}x{height} pixels, more than the limit of {most_pixels:,}"
        raise RefusedError(413, "too_many_pixels", sentence)
    if frames > 1:
        sentence = f"{name}: animated, with {frames} frames; send each frame as its own image"
        raise RefusedError(422, "animated_image", sentence)


def _is_text(name: Any) -> bool:
    """Whether a name is text that can be sent back; half of a character cannot."""
    try:
        return isinstance(name, str) and bool(name.encode() or True)
    except UnicodeEncodeError:
        return False


def _listed(names: tuple[str, ...]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"
