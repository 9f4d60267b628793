"""torch.hub models: find the code, pin it to a commit, ask for consent, and load the model."""

import hashlib
import json
import re
import sys
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import Tensor, nn

from mappable.errors import BadInputError, shown
from mappable.features.devices import find_device
from mappable.features.fetching import fetch, sha256_of
from mappable.features.foreign.description import Description, check_description
from mappable.features.foreign.encoder import ForeignEncoder
from mappable.features.weights import cache_folder
from mappable.files import write_atomically, writing

PREFIX = "hub:"
GITHUB = "https://github.com"
MAX_CODE = 2**30  # bytes of a repository on disk
REPOSITORY = re.compile(
    r"(?P<repository>[\w.-]+/[\w.-]+)@(?P<commit>[0-9a-f]{40}):(?P<entry>[A-Za-z_]\w*)", re.ASCII
)
FOLDER = re.compile(r"(?P<folder>[~./].*|[A-Za-z]:[\\/].*):(?P<entry>[A-Za-z_]\w*)", re.ASCII)
# Folders whose files are not used, and do not count in the hash of a folder.
IGNORED = {"__pycache__", ".git"}

# Keys of consents in this process, in case that the cache cannot be written.
_trusted: set[str] = set()
_imported: set[str] = set()  # modules that hub code imported


@dataclass(frozen=True)
class Source:
    """Hub code: a repository on GitHub or a folder, `code` that pins it, and the function that
    makes the model.
    """

    repository: str
    folder: Path | None
    code: str  # commit, or hash of a folder's files
    entry: str

    @property
    def text(self) -> str:
        """The source without the prefix; it names the code exactly, except that a folder can
        change.
        """
        where = f"{self.repository}@{self.code}" if self.folder is None else str(self.folder)
        return f"{where}:{self.entry}"


def open_hub(text: str, device: str, *, trust_code: bool) -> ForeignEncoder:
    """Open the encoder hub:OWNER/REPO@COMMIT:ENTRY or hub:FOLDER:ENTRY, with default settings."""
    return open_described(
        check_description({"hub": text.removeprefix(PREFIX)}, text), device, trust_code=trust_code
    )


def open_described(
    description: Description, device: str, *, below: Path | None = None, trust_code: bool
) -> ForeignEncoder:
    """Open the hub model of a description, after consent. A relative folder is below `below`."""
    source = find_source(description, below or Path())
    require_consent(source, description.arguments, trust=trust_code)
    folder = source.folder or _downloaded(source)
    name, chosen = f"{PREFIX}{source.text}", find_device(device)
    model = _load(folder, source.entry, description.arguments, name)
    with _foreign_errors(name, f"cannot be used on {chosen}"):
        model = model.to(chosen).eval().requires_grad_(False)
        weights = _digest_of(model)

    def network(images: Tensor) -> Any:
        with _foreign_errors(name, "fails on images"):
            output = model(images)
        return _part(output, description.output, name)

    pinned = description.model_copy(update={"hub": source.text, "code": source.code})

    def copy() -> tuple[str, bytes]:
        return (
            ".yaml",
            f"{json.dumps(pinned.model_dump(mode='json', exclude_none=True), indent=2)}\n".encode(),
        )

    return ForeignEncoder(
        name,
        description,
        network,
        title=name,
        entry=source.entry,
        code=source.code,
        weights=weights,
        weight_bytes=sum(tensor.nbytes for tensor in [*model.parameters(), *model.buffers()]),
        copy=copy,
        device=chosen,
        inputs=chosen,
        precisions=("float32", "bfloat16"),
    )


def find_source(description: Description, below: Path) -> Source:
    """Find the code of a description: its exact commit, or the hash of its folder. This runs none
    of it.
    """
    text = description.hub or ""
    if found := FOLDER.fullmatch(text):
        folder = (below / Path(found["folder"]).expanduser()).resolve()
        if not (folder / "hubconf.py").is_file():
            raise BadInputError(
                f"{PREFIX}{text}: {folder} has no hubconf.py, which lists the models of torch.hub"
            )
        source = Source("", folder, digest_of_code(folder), found["entry"])
        if description.code not in ("", source.code):
            problem = (
                f"the code in {folder} has the hash {source.code[:16]}, expected"
                f" {shown(description.code[:16])}"
            )
            raise BadInputError(
                f"{PREFIX}{text}: {problem}; restore the earlier code, or build the map again"
            )
        return source
    if found := REPOSITORY.fullmatch(text):
        return Source(found["repository"], None, found["commit"], found["entry"])
    forms = "hub:OWNER/REPO@COMMIT:ENTRY with a commit of 40 digits, or hub:/FOLDER:ENTRY"
    raise BadInputError(f"{shown(PREFIX + text)}: not a torch.hub model; expected {forms}")


def require_consent(source: Source, arguments: Mapping[str, Any], *, trust: bool) -> None:
    """Raise unless the user allows this code to run. Consent is remembered for the same code, entry
    and arguments.
    """
    facts = [source.repository, source.code, source.entry, dict(arguments)]
    key = hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()
    file = cache_folder() / "trusted-code" / key
    if key in _trusted or file.is_file():
        return
    where = (
        f"{source.repository} at commit {source.code}"
        if source.folder is None
        else f"the folder {str(source.folder)!r}"
    )
    given = ", ".join(f"{name}={value!r}" for name, value in arguments.items())
    what = f"{source.entry}({given}) of {where}"
    if not trust:
        raise BadInputError(
            f"{PREFIX}{source.text}: runs foreign code, {what}, which can do whatever you can; read"
            " it, then allow it with --trust-code"
        )
    _trusted.add(key)
    try:
        write_atomically(file, lambda stream: stream.write(f"{what}\n".encode()))
    except BadInputError as error:
        print(f"note: your consent is not remembered: {error}", file=sys.stderr)


def digest_of_code(folder: Path) -> str:
    """Hash of all files in a folder, by path and content, except compiled Python and git's own
    files.
    """
    digest = hashlib.sha256()
    for file in sorted(folder.rglob("*")):
        path = file.relative_to(folder)
        if IGNORED.intersection(path.parts):
            continue
        if file.is_symlink():
            raise BadInputError(f"{file}: a link, whose code cannot be pinned; copy what it names")
        if file.is_file():
            digest.update(f"file {path.as_posix()} {sha256_of(file)}\n".encode())
    return digest.hexdigest()


def folder_of(repository: str, commit: str) -> Path:
    """The cache's folder for the code of a repository, which need not exist."""
    return cache_folder() / "hub" / f"{repository.replace('/', '--')}--{commit}"


def _downloaded(source: Source) -> Path:
    """The folder of a repository's code in the cache; it is downloaded if it is missing."""
    folder = folder_of(source.repository, source.code)
    if folder.is_dir():
        return folder
    with writing(folder):
        folder.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=folder.parent, prefix=".") as name:
            archive = Path(name) / f"{source.code}.zip"
            fetch(f"{GITHUB}/{source.repository}/archive/{source.code}.zip", archive)
            _unpack(archive, source)
            top = next(Path(name).glob("*/hubconf.py"), None)
            if top is None:
                raise BadInputError(
                    f"{PREFIX}{source.text}: the repository has no hubconf.py; it is not for"
                    " torch.hub"
                )
            try:
                top.parent.replace(folder)
            except OSError:
                if not folder.is_dir():  # another process was faster
                    raise
    return folder


def _unpack(archive: Path, source: Source) -> None:
    try:
        with zipfile.ZipFile(archive) as opened:
            if sum(member.file_size for member in opened.infolist()) > MAX_CODE:
                raise BadInputError(
                    f"{PREFIX}{source.text}: the repository has over {MAX_CODE:,} bytes"
                )
            opened.extractall(archive.parent)  # zipfile keeps all members below the folder
    except (zipfile.BadZipFile, EOFError, ValueError, RuntimeError) as error:
        raise BadInputError(
            f"{PREFIX}{source.text}: the downloaded archive is damaged ({error})"
        ) from None


def _load(folder: Path, entry: str, arguments: Mapping[str, Any], name: str) -> nn.Module:
    for module in _imported:  # those of another repository may have the same names
        sys.modules.pop(module, None)
    _imported.clear()
    before = set(sys.modules)
    # Not from the folder.
    compiled, sys.pycache_prefix = sys.pycache_prefix, str(cache_folder() / "hub-compiled")
    try:
        with _foreign_errors(name, "cannot be loaded"):
            model = torch.hub.load(str(folder), entry, source="local", **arguments)  # type: ignore[no-untyped-call]
    finally:
        sys.pycache_prefix = compiled
        own = (
            module for module in set(sys.modules) - before if _is_below(sys.modules[module], folder)
        )
        _imported.update(own)
    if not isinstance(model, nn.Module):
        raise BadInputError(
            f"{name}: {entry} returns {type(model).__name__}, expected a torch.nn.Module"
        )
    return model


def _is_below(module: Any, folder: Path) -> bool:
    file = getattr(module, "__file__", None)
    return isinstance(file, str) and Path(file).is_relative_to(folder)


@contextmanager
def _foreign_errors(name: str, problem: str) -> Iterator[None]:
    """Context for foreign code: what it prints goes to standard error, and its errors become one
    sentence.
    """
    try:
        with redirect_stdout(sys.stderr):
            yield
    except (MemoryError, torch.OutOfMemoryError):
        raise
    except (Exception, SystemExit) as error:
        if "DefaultCPUAllocator" in str(error):  # torch's error for a lack of memory
            raise
        reason = f"{type(error).__name__}: {error}".splitlines()[0][:200].removesuffix(": ")
        missing = error.name if isinstance(error, ModuleNotFoundError) else None
        remedy = f"; install the Python package {missing}" if missing else ""
        raise BadInputError(f"{name}: {problem}; its code raises {reason}{remedy}") from None


def _part(output: Any, key: str | int | None, name: str) -> Any:
    """The part of a model's output that a description names."""
    if key is None:
        return output
    try:
        return output[key]
    except (KeyError, IndexError, TypeError):
        kind = (
            f"a {type(output).__name__} of {len(output)}"
            if hasattr(output, "__len__")
            else type(output).__name__
        )
        raise BadInputError(
            f"{name}: its output is {kind}, without the part {key!r} that `output` names"
        ) from None


def _digest_of(model: nn.Module) -> str:
    digest = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        if isinstance(tensor, Tensor):
            digest.update(f"{name} {tuple(tensor.shape)} {tensor.dtype}".encode())
            digest.update(
                tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes()
            )
    return digest.hexdigest()
