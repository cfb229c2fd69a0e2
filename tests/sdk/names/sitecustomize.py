# SPDX-License-Identifier: Apache-2.0
"""Loaded before a client's script: every name below sandglass.localhost is this machine. The client itself
knows that names which end so are; what the script fetches by the library of Python does not."""
import socket

_getaddrinfo = socket.getaddrinfo


def _look_up(host, *args, **kw):
    is_ours = isinstance(host, str) and host.endswith("sandglass.localhost")
    return _getaddrinfo("127.0.0.1" if is_ours else host, *args, **kw)


socket.getaddrinfo = _look_up
