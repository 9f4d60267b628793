"""Read the body of a request within its limits, and split it into images and fields."""

import asyncio
from dataclasses import dataclass, field
from itertools import count

from fastapi import Request
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import Field, File, FormParser, parse_options_header

from mappable.service.limits import Limits, RefusedError, Reserve

IMAGES = ("image/jpeg", "image/png", "image/webp")
MULTIPART = "multipart/form-data"
MOST_PARTS = 10_000  # per body; parsing that many blocks other threads for about 0.2 s


@dataclass(frozen=True)
class SentImage:
    """The bytes of an image file, and the name that the client gave it."""

    name: str
    data: bytes


@dataclass(frozen=True)
class Form:
    """The images of a request, in order, and its other fields."""

    images: list[SentImage] = field(default_factory=list)
    fields: dict[str, bytes] = field(default_factory=dict)


def kind_of(request: Request, *supported: str) -> str:
    """The content type; raises if it is not supported."""
    given = request.headers.get("content-type", "")
    kind = parse_options_header(given)[0].decode("latin-1")
    kind = "image/jpeg" if kind == "image/jpg" else kind  # a common mistake
    if kind not in supported:
        what = repr(kind) if kind else "none"
        raise RefusedError(415, "content_type", f"the content type is {what}, expected {_listed(supported)}")
    return kind


async def read_body(request: Request, limits: Limits, reserve: Reserve) -> bytes:
    """The whole body; raises as soon as it is too long, and before reading if the header declares such a length."""
    declared = request.headers.get("content-length", "0")
    if declared.isdecimal() and int(declared) > limits.body:
        sentence = f"the body has {int(declared):,} bytes, more than the limit of {limits.body:,} bytes"
        raise RefusedError(413, "too_long", sentence)
    chunks, length = [], 0
    try:
        async with asyncio.timeout(limits.read_timeout):
            async for chunk in request.stream():
                length += len(chunk)
                if length > limits.body:
                    sentence = f"the body is longer than the limit of {limits.body:,} bytes"
                    raise RefusedError(413, "too_long", sentence)
                reserve(len(chunk))
                chunks.append(chunk)
    except TimeoutError:
        raise RefusedError(408, "slow_body", f"the body did not arrive within {limits.read_timeout:g} s") from None
    return b"".join(chunks)


def parse_form(body: bytes, content_type: str, known: tuple[str, ...] = ()) -> Form:
    """The files and fields of a multipart body; raises if a field is not `known`, or if there are too many parts."""
    form, ended, parts = Form(), [], count(1)

    def on_part() -> None:
        if next(parts) > MOST_PARTS:
            raise RefusedError(413, "too_many_parts", f"the body has more parts than the limit of {MOST_PARTS:,}")

    def on_file(file: File) -> None:
        on_part()
        file.file_object.seek(0)
        name = (file.file_name or b"").decode("utf-8", "replace")
        form.images.append(SentImage(name or f"image {len(form.images)}", file.file_object.read()))

    def on_field(one: Field) -> None:
        on_part()
        name = (one.field_name or b"").decode("utf-8", "replace")
        if name not in known:
            others = f", expected {_listed(known)}" if known else ""
            raise RefusedError(400, "field", f"unknown field {name!r}{others}; send images as parts with a file name")
        form.fields[name] = one.value or b""

    try:
        boundary = parse_options_header(content_type)[1].get(b"boundary")
        in_memory = {"MAX_MEMORY_FILE_SIZE": len(body) + 1}
        parser = FormParser(
            MULTIPART, on_field, on_file, on_end=lambda: ended.append(True), boundary=boundary, config=in_memory
        )
        parser.write(body)
        parser.finalize()
    except FormParserError:
        raise RefusedError(400, "multipart", f"the body is not {MULTIPART}, although its header says so") from None
    if not ended:
        raise RefusedError(400, "multipart", "the body ends before its last boundary")
    if not form.images:
        raise RefusedError(400, "no_image", "the body has no image; send images as parts with a file name")
    return form


def _listed(names: tuple[str, ...]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"
