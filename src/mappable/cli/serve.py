"""`mappable serve MAP`: a map that answers over HTTP."""

from ipaddress import ip_address
from pathlib import Path
from typing import Annotated

import typer

from mappable.cli.common import ByBackend, Device, EncoderFile, MapFolder
from mappable.errors import BadInputError
from mappable.files import reading


def serve(
    folder: MapFolder,
    study: Annotated[
        Path | None,
        typer.Option(
            help="Folder made by `mappable reproduce` or `mappable demo`, to show beside the map.", metavar="STUDY"
        ),
    ] = None,
    host: Annotated[str, typer.Option(help="Address to listen on; 0.0.0.0 is all addresses.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on; 0 takes a free one.", min=0, max=65535)] = 8000,
    token_file: Annotated[
        Path | None, typer.Option(help="File with the token that requests must carry.", metavar="FILE")
    ] = None,
    token: Annotated[
        str | None,
        typer.Option(help="The token itself; other users of this machine can see it.", envvar="MAPPABLE_TOKEN"),
    ] = None,
    encoder: EncoderFile = None,
    device: Device = "auto",
    backend: ByBackend = None,
    max_body: Annotated[int, typer.Option(help="Largest request, in MB.", min=1)] = 64,
    max_pixels: Annotated[int, typer.Option(help="Largest image, in megapixels.", min=1)] = 50,
    queue: Annotated[int, typer.Option(help="Images that may wait, and that one request may hold.", min=1)] = 256,
    connections: Annotated[int, typer.Option(help="Open connections at a time.", min=1)] = 512,
    timeout: Annotated[
        float, typer.Option(help="Timeout in seconds for computing a response, and for the client to read it.", min=0.1)
    ] = 60.0,
    read_timeout: Annotated[
        float, typer.Option(help="Timeout in seconds for receiving a request's headers, and for its body.", min=0.1)
    ] = 20.0,
) -> None:
    """Serve a map over HTTP: a page to look at, and POST /locate to locate images.

    It listens to this machine alone unless --host says otherwise. Ctrl-C or SIGTERM stops it: what has begun is
    finished first.
    """
    try:
        from mappable.service.app import create_app
        from mappable.service.server import bind, server_of
    except ImportError as error:
        if (error.name or "").partition(".")[0] == "mappable":
            raise
        needed = f"serving needs {error.name}; install it with: pip install 'mappable[serve]'"
        raise BadInputError(needed) from None
    from mappable.maps.encoders import encoder_of
    from mappable.maps.map import Map
    from mappable.service.connections import Connections
    from mappable.service.engine import Engine
    from mappable.service.limits import Limits
    from mappable.service.metrics import Metrics
    from mappable.service.page import missing

    secret = _token(token, token_file)
    limits = Limits(max_body * 10**6, max_pixels * 10**6, queue, timeout, read_timeout, connections)
    opened = Map.open(folder)
    view = None
    if study is not None:
        from mappable.service.study import open_study

        view = open_study(study, frame=opened.frame.name)
    with bind(host, port) as bound:
        if secret is None and not _is_loopback(bound.getsockname()[0]):
            typer.echo("warning: anybody who reaches this address may ask; --token-file asks for a token", err=True)
        if lacking := missing():
            typer.echo(f"warning: {lacking}", err=True)
        engine = Engine(opened, encoder_of(opened, encoder, device, backend), limits, Metrics())
        counted = Connections(limits)
        app = create_app(engine, counted, token=secret, study=view)

        def ready(address: str) -> None:
            size = engine.batch_size
            typer.echo(f"{len(opened):,} landmarks, frame {opened.frame.name} ({opened.unit})")
            typer.echo(f"the encoder describes {size.per_second:,.1f} images/s, {size.images} at a time")
            typer.echo(f"serving at {address}")

        server_of(app, bound, counted, ready).run()
    typer.echo("stopped")


def _token(given: str | None, file: Path | None) -> str | None:
    if given is not None and file is not None:
        raise BadInputError("--token and --token-file exclude each other: give one of them")
    if file is not None:
        with reading(file):
            given = file.read_text("utf-8").strip()
    if given is not None and not (given.isascii() and given.isprintable() and len(given.split()) == 1):
        raise BadInputError(f"{file or '--token'}: a token is one word of ASCII characters")
    return given


def _is_loopback(host: str) -> bool:
    return ip_address(host.partition("%")[0]).is_loopback
