"""Which addresses webhooks may call.

A server can reach what its users cannot: the data of the machine that a cloud offers at fixed
addresses, for instance. Names are resolved here, and the address that was checked is the one that
is called, so that a name cannot lead elsewhere a moment later.
"""

import asyncio
import ipaddress
import socket

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

# Where clouds tell a machine its own secrets, beside the link-local 169.254.169.254.
METADATA = frozenset(
    map(ipaddress.ip_address, ("100.100.100.200", "168.63.129.16", "fd00:ec2::254"))
)
NAT64 = ipaddress.ip_network("64:ff9b::/96")  # IPv4 addresses as a gateway translates them


class ForbiddenAddress(ValueError):
    """Webhooks may not call this address."""


def check_address(text: str, public_only: bool) -> None:
    """Refuse an address that no webhook may call; with `public_only`, all private ones too.

    >>> check_address("192.168.0.7", public_only=False)
    >>> check_address("169.254.169.254", public_only=False)
    Traceback (most recent call last):
        ...
    dirad.serve.addresses.ForbiddenAddress: webhooks may not call 169.254.169.254
    """
    address = _plain(ipaddress.ip_address(text.partition("%")[0]))
    is_no_host = address.is_multicast or address.is_unspecified or address.is_reserved
    if address in METADATA or address.is_link_local or (is_no_host and not address.is_loopback):
        raise ForbiddenAddress(f"webhooks may not call {address}")
    if public_only and not address.is_global:
        raise ForbiddenAddress(f"webhooks may call public addresses alone, not {address}")


def _plain(address: Address) -> Address:
    """Return the IPv4 address that an IPv6 address stands for, if it stands for one."""
    if isinstance(address, ipaddress.IPv4Address):
        return address
    if address in NAT64:
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour or address


def check_literal(host: str, public_only: bool) -> None:
    """Check a host that is an address; names are checked when they are called."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return
    check_address(host, public_only)


async def resolved(host: str, port: int, public_only: bool) -> str:
    """Return an address of a host; all that it has must be allowed."""
    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise OSError(f"the name cannot be resolved: {error}") from None
    addresses = [str(one[4][0]) for one in found]
    for address in addresses:
        check_address(address, public_only)
    return addresses[0]
