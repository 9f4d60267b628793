"""`mappable serve MAP`: serve a map over HTTP."""

import os
import shlex
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated

import typer

from mappable.cli.common import BackendOption, Device, EncoderFile, TrustCode, map_folder
from mappable.errors import BadInputError, install_extra
from mappable.files import reading

TOKEN = "MAPPABLE_TOKEN"  # noqa: S105  # the name of a variable of the environment


def serve(
    folder: Annotated[
        Path | None,
        typer.Argument(
            metavar="MAP",
            help="Folder written by `mappable map build` or `mappable start`.",
            callback=map_folder,
        ),
    ] = None,
    host: Annotated[
        str,
        typer.Option(
            help="Address to listen on; 127.0.0.1 is this machine only, 0.0.0.0 is all addresses."
        ),
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(help="Port to listen on; 0 chooses a free port.", min=0, max=65535)
    ] = 8000,
    token_file: Annotated[
        Path | None,
        typer.Option(
            help=(
                f"File with the token that every request must send (default: {TOKEN} in the"
                " environment, else none)."
            ),
            metavar="FILE",
        ),
    ] = None,
    images: Annotated[
        list[Path] | None,
        typer.Option(
            help=(
                "Also show pictures from this folder (default: only pictures in the folder of the"
                " map). May be "
                "repeated."
            ),
            metavar="FOLDER",
        ),
    ] = None,
    allowed_host: Annotated[
        list[str] | None,
        typer.Option(
            help=(
                "Also answer requests for this host name (default: only localhost and --host). May"
                " be repeated."
            ),
            metavar="NAME",
        ),
    ] = None,
    settings: Annotated[
        Path | None,
        typer.Option(help="YAML file with limits; --show-settings prints all.", metavar="FILE"),
    ] = None,
    show_settings: Annotated[
        bool, typer.Option("--show-settings", help="Print the settings as YAML, and stop.")
    ] = False,
    encoder: EncoderFile = None,
    trust_code: TrustCode = False,
    device: Device = "auto",
    backend: BackendOption = None,
) -> None:
    """Serve a map over HTTP: a web page that shows the map, and POST /locate to locate images.

    A map without an encoder locates descriptors only: POST /locate/descriptors.

    By default, only this machine can connect; see --host. Ctrl-C or SIGTERM stops the server after
    it has finished the requests in progress.
    """
    try:
        from mappable.service.app import create_app, picture_folders
        from mappable.service.server import address_of, bind, run
    except ImportError as error:
        if (error.name or "").partition(".")[0] == "mappable":
            raise
        raise BadInputError(f"serve needs {error.name}; {install_extra('serve')}") from None
    from mappable.maps.encoders import encoder_of
    from mappable.maps.landmarks import Landmarks
    from mappable.service.engine import Engine
    from mappable.service.guard import Hosts
    from mappable.service.limits import Settings
    from mappable.service.metrics import Metrics
    from mappable.service.page import missing
    from mappable.service.pictures import is_inside

    chosen = Settings() if settings is None else Settings.read(settings)
    if show_settings:
        typer.echo(chosen.to_yaml())
        return
    if folder is None:
        raise typer.BadParameter("give the folder of a map", param_hint="MAP")
    secret, hosts = _token(token_file), Hosts(host, allowed_host or ())
    for shown in images or ():
        if not shown.is_dir():
            raise BadInputError(f"{shown}: not a folder; --images names the folder of the images")
    opened = Landmarks.open(folder)
    hidden = opened.places.root
    if not is_inside(hidden, picture_folders(opened, images or ())):
        quoted = shlex.quote(str(hidden))
        typer.echo(
            f"note: pictures in {hidden} are not shown; to show them, add: --images {quoted}",
            err=True,
        )
    with bind(host, port) as bound:
        if secret is None and not ip_address(bound.getsockname()[0].partition("%")[0]).is_loopback:
            problem = "everyone who can reach this address can use the server"
            typer.echo(f"warning: {problem}; require a token with --token-file", err=True)
        if lacking := missing():
            typer.echo(f"warning: {lacking}", err=True)
        loaded = None
        if encoder is not None or opened.encoder_file is not None:
            loaded = encoder_of(opened, encoder, device, backend, trust_code=trust_code)
        engine = Engine(opened, loaded, chosen, Metrics())

        def ready() -> None:
            typer.echo(f"{len(opened):,} landmarks, frame {opened.frame.name} ({opened.unit})")
            if size := engine.batch_size:
                typer.echo(
                    f"the encoder describes {size.per_second:,.1f} images/s in batches of"
                    f" {size.images}"
                )
            else:
                typer.echo(
                    f"no encoder: the server locates only descriptors of encoder {opened.encoder}"
                )
            typer.echo(f"serving at {address_of(bound)}")

        run(
            create_app(engine, token=secret, images=images or (), hosts=hosts, ready=ready),
            chosen,
            bound,
        )
    typer.echo("stopped")


def _token(file: Path | None) -> str | None:
    """The token in the file, or else in the environment."""
    token = os.environ.get(TOKEN)
    if file is not None:
        with reading(file):
            token = file.read_text("utf-8").strip()
    if token is not None and not (
        token.isascii() and token.isprintable() and len(token.split()) == 1
    ):
        raise BadInputError(
            f"{file or TOKEN}: not a token; expected one word of ASCII characters without spaces"
        )
    return token
