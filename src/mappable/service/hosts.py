"""The host names that the server answers to.

A web page of another site can let its own name lead to this server (DNS rebinding). The browser then lets the page read
responses, but it sends that name in the header `Host`.
"""

import re
from collections.abc import Iterable
from ipaddress import ip_address

from mappable.errors import BadInputError, shown

LOOPBACK = ("localhost", "127.0.0.1", "::1")
EVERY_ADDRESS = ("0.0.0.0", "::")  # noqa: S104  # listening there means listening on all addresses of the machine
NAME = re.compile(r"[a-z0-9_]([a-z0-9_.-]*[a-z0-9_])?")


class Hosts:
    """The names of this machine, of the address that the server listens on, and others that the user allows.

    A server that listens on every address also answers to any IP address: a web page cannot forge one.
    """

    def __init__(self, listening: str = "127.0.0.1", others: Iterable[str] = ()) -> None:
        self._names = {*LOOPBACK, listening.lower(), *(_checked(other) for other in others)}
        self._addresses = listening in EVERY_ADDRESS

    def allow(self, header: str) -> bool:
        """Whether the server answers to the header `Host` of a request, which may contain a port."""
        name = _without_port(header.strip().lower()).removesuffix(".")
        return name in self._names or (self._addresses and _is_address(name))


def _checked(name: str) -> str:
    lower = name.lower().removesuffix(".")
    if not NAME.fullmatch(lower) and not _is_address(lower):
        raise BadInputError(f"--allowed-host is {shown(name)}, expected a host name without scheme and port")
    return lower


def _without_port(header: str) -> str:
    if header.startswith("["):  # an IPv6 address
        return header[1:].partition("]")[0]
    return header.partition(":")[0]


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True
