"""Connections to Redis: `redis://`, `rediss://`, `unix://`, `redis+sentinel://HOST:PORT,…/SERVICE`."""
from __future__ import annotations

from typing import Any
from urllib.parse import parse_qs, unquote

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry
from redis.sentinel import Sentinel

CONNECT_S = 5.0


def connect(url: str, *, response: float = 5.0) -> Any:
    """A client whose commands are never repeated by itself.

    - `url`: for Sentinel `redis+sentinel://[USER:PASSWORD@]HOST:PORT,…/SERVICE[/DB][?sentinel_password=…]`, with TLS
      `rediss+sentinel`; a file of authorities as `?ssl_ca_certs=FILE`.
    - `response`: seconds to wait for an answer.
    """
    options: dict[str, Any] = {
        "decode_responses": True, "socket_timeout": response, "socket_connect_timeout": CONNECT_S,
        "retry": Retry(NoBackoff(), 0), "protocol": 2, "health_check_interval": 0,
    }
    scheme, _, rest = url.partition("://")
    if scheme not in ("redis+sentinel", "rediss+sentinel"):
        return redis.Redis.from_url(url, **options)
    rest, _, query = rest.partition("?")
    hosts, _, path = rest.partition("/")
    credentials, _, hosts = hosts.rpartition("@")
    user, _, password = credentials.partition(":")
    service, _, database = path.partition("/")
    if not service:
        raise ValueError(f"`{scheme}://…` names no service: write redis+sentinel://HOST:PORT,HOST:PORT/SERVICE")
    given = {name: values[-1] for name, values in parse_qs(query).items()}
    tls = {"ssl": True, **({"ssl_ca_certs": given["ssl_ca_certs"]} if "ssl_ca_certs" in given else {})}
    options |= tls if scheme.startswith("rediss") else {}
    own = {"username": unquote(user) or None, "password": unquote(password) or None, "db": int(database or given.get("db", "0"))}
    sentinel = {**options, "username": given.get("sentinel_username"), "password": given.get("sentinel_password")}
    places = [(host, int(port or 26379)) for host, _, port in (one.rpartition(":") if ":" in one else (one, "", "") for one in hosts.split(","))]
    sentinels: Any = Sentinel(places, sentinel_kwargs=sentinel, **options)  # type: ignore[no-untyped-call]
    return sentinels.master_for(service, **own)
