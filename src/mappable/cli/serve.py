"""`mappable serve MAP`: serve a map over HTTP."""

import shlex
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated

import typer

from mappable.cli.common import BackendOption, Device, EncoderFile, MapFolder, TrustCode
from mappable.errors import BadInputError, install_extra
from mappable.files import reading


def serve(
    folder: MapFolder,
    host: Annotated[
        str, typer.Option(help="Address to listen on; 127.0.0.1 is this machine only, 0.0.0.0 is all addresses.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on; 0 chooses a free port.", min=0, max=65535)] = 8000,
    token_file: Annotated[
        Path | None,
        typer.Option(help="File with the token that every request must send (default: no token).", metavar="FILE"),
    ] = None,
    token: Annotated[
        str | None,
        typer.Option(
            help="The token itself; on the command line, other users of this machine can see it.",
            envvar="MAPPABLE_TOKEN",
        ),
    ] = None,
    images: Annotated[
        list[Path] | None,
        typer.Option(
            help="Also show pictures from this folder (default: only pictures in the folder of the map). May be "
            "repeated.",
            metavar="FOLDER",
        ),
    ] = None,
    allowed_host: Annotated[
        list[str] | None,
        typer.Option(
            help="Also answer requests for this host name (default: only localhost and --host). May be repeated.",
            metavar="NAME",
        ),
    ] = None,
    tiles: Annotated[
        str | None,
        typer.Option(
            help="Show map tiles below the plots of the page: a folder of files Z/X/Y.png, or an address (default: "
            "none). An address has z, x and y in braces, and browsers ask it. Needs a georeferenced map.",
            metavar="URL",
        ),
    ] = None,
    tiles_credit: Annotated[
        str, typer.Option(help="Text that names the source of the tiles, below the plots.", metavar="TEXT")
    ] = "",
    encoder: EncoderFile = None,
    trust_code: TrustCode = False,
    device: Device = "auto",
    backend: BackendOption = None,
    max_body: Annotated[int, typer.Option(help="Largest body of a request, in MB.", min=1)] = 64,
    max_pixels: Annotated[int, typer.Option(help="Largest image, in megapixels.", min=1)] = 50,
    queue: Annotated[
        int, typer.Option(help="Largest number of images in progress, and of images in one request.", min=1)
    ] = 256,
    connections: Annotated[int, typer.Option(help="Largest number of open connections.", min=1)] = 512,
    timeout: Annotated[
        float, typer.Option(help="Timeout in seconds for computing a response, and for the client to read it.", min=0.1)
    ] = 60.0,
    read_timeout: Annotated[
        float, typer.Option(help="Timeout in seconds for receiving a request's headers, and for its body.", min=0.1)
    ] = 20.0,
    sessions: Annotated[int, typer.Option(help="Largest number of sessions; each follows one camera.", min=1)] = 1000,
    session_timeout: Annotated[
        float, typer.Option(help="Seconds without an update after which a session expires.", min=1.0)
    ] = 600.0,
    session_folder: Annotated[
        Path | None,
        typer.Option(
            help="Keep sessions as files in this folder (default: in memory). Servers of the same map can share it.",
            metavar="FOLDER",
        ),
    ] = None,
) -> None:
    """Serve a map over HTTP: a web page that shows the map, and POST /locate to locate images.

    A map without an encoder locates descriptors only: POST /locate/descriptors.

    By default, only this machine can connect; see --host. Ctrl-C or SIGTERM stops the server after it has finished
    the requests in progress.
    """
    try:
        from mappable.service.app import create_app, picture_folders
        from mappable.service.server import bind, server_of
    except ImportError as error:
        if (error.name or "").partition(".")[0] == "mappable":
            raise
        raise BadInputError(f"serve needs {error.name}; {install_extra('serve')}") from None
    from mappable.maps.encoders import encoder_of
    from mappable.maps.map import Map
    from mappable.service.connections import Connections
    from mappable.service.disk import is_inside
    from mappable.service.engine import Engine
    from mappable.service.hosts import Hosts
    from mappable.service.limits import Limits
    from mappable.service.metrics import Metrics
    from mappable.service.page import missing
    from mappable.service.sessions import SessionsInFolder
    from mappable.service.tiles import tiles_of

    secret, hosts = _token(token, token_file), Hosts(host, allowed_host or ())
    for shown in images or ():
        if not shown.is_dir():
            raise BadInputError(f"{shown}: not a folder; --images names the folder of the images")
    limits = Limits(
        max_body * 10**6,
        max_pixels * 10**6,
        queue,
        timeout,
        read_timeout,
        connections,
        sessions=sessions,
        session_timeout=session_timeout,
    )
    store = None if session_folder is None else SessionsInFolder(session_folder, sessions, session_timeout)
    opened = Map.open(folder)
    ground = None if tiles is None else tiles_of(tiles, opened.frame, tiles_credit)
    hidden = opened.places.root
    if not is_inside(hidden, picture_folders(opened, images or ())):
        quoted = shlex.quote(str(hidden))
        typer.echo(f"note: pictures in {hidden} are not shown; to show them, add: --images {quoted}", err=True)
    with bind(host, port) as bound:
        if secret is None and not _is_loopback(bound.getsockname()[0]):
            problem = "everyone who can reach this address can use the server"
            typer.echo(f"warning: {problem}; require a token with --token-file", err=True)
        if lacking := missing():
            typer.echo(f"warning: {lacking}", err=True)
        loaded = None
        if encoder is not None or opened.encoder_file is not None:
            loaded = encoder_of(opened, encoder, device, backend, trust_code=trust_code)
        engine = Engine(opened, loaded, limits, Metrics())
        counted = Connections(limits)
        app = create_app(
            engine,
            counted,
            token=secret,
            images=images or (),
            hosts=hosts,
            sessions=store,
            tiles=ground,
        )

        def ready(address: str) -> None:
            typer.echo(f"{len(opened):,} landmarks, frame {opened.frame.name} ({opened.unit})")
            if size := engine.batch_size:
                typer.echo(f"the encoder describes {size.per_second:,.1f} images/s in batches of {size.images}")
            else:
                typer.echo(f"no encoder: the server locates only descriptors of encoder {opened.encoder}")
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
        raise BadInputError(f"{file or '--token'}: not a token; expected one word of ASCII characters without spaces")
    return given


def _is_loopback(host: str) -> bool:
    return ip_address(host.partition("%")[0]).is_loopback
