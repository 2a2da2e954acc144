"""What is served that is not about objects: version, health, discovery and OpenAPI.

All of it but health depends on the catalog alone; ETags spare clients what has not changed.
"""

import hashlib
from typing import Final

import msgspec
from aiohttp import web

from devkube import discovery, negotiation, openapi
from devkube.errors import method_not_allowed, no_such_path
from devkube.kinds import Catalog, Object
from devkube.negotiation import JSON
from devkube.requests import Reply
from devkube.routes import Route

VERSION: Final = {
    "major": "1",
    "minor": "36",
    "gitVersion": "v1.36.2+devkube",
    "gitCommit": "",
    "gitTreeState": "clean",
    "buildDate": "1970-01-01T00:00:00Z",
    "goVersion": "",
    "compiler": "",
    "platform": "linux/amd64",
}
HEALTH: Final = ("/healthz", "/livez", "/readyz")
PINGS: Final = tuple(f"{path}/ping" for path in HEALTH)
# kubectl asks for version 2 in protobuf only, for a List in a file and for kinds that nobody serves. It skips what it
# does not find there, and the server checks each object anyhow: a document without definitions is all that it needs.
OPENAPI_V2: Final = "application/com.github.proto-openapi.spec.v2"  # asked for with @v1.0, answered with .v1.0
NOTHING_V2: Final = b"\x0a\x032.0" + b"\x12\x13" + b"\x0a\x0aKubernetes" + b"\x12\x05v1.36"
PATHS: Final = ("/api", "/apis", *HEALTH, "/openapi/v2", "/openapi/v3", "/version")
GROUPS: Final = ((2, "api"), (2, "apis"), (3, "apis"))  # /api/v1, /apis/GROUP, /apis/GROUP/VERSION


class Documents:
    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self.address = ""  # host:port, told in /api; set when the port is known

    def answer(self, call: web.BaseRequest, route: Route) -> Reply:
        """StatusError. A HEAD is a GET here; who carries it leaves the body out."""
        path = "/" + route.path.strip("/")
        parts = path.strip("/").split("/")
        if (
            path not in ("/", *PATHS, *PINGS)
            and (len(parts), parts[0]) not in GROUPS
            and parts[:2] != ["openapi", "v3"]
        ):
            raise no_such_path()
        if route.verb not in ("get", "head"):
            raise method_not_allowed()
        if path in HEALTH or path in PINGS:
            told = f"[+]ping ok\n{path[1:]} check passed\n" if path in HEALTH and "verbose" in call.query else "ok"
            return Reply(200, (told.encode(),), "text/plain; charset=utf-8")
        if path == "/":
            return Reply(200, (msgspec.json.encode({"paths": PATHS}),))
        if path == "/version":
            return Reply(200, (msgspec.json.format(msgspec.json.encode(VERSION), indent=2),))
        accept = call.headers.get("accept", "")
        content_type = JSON
        if path in ("/api", "/apis"):
            whole = negotiation.aggregated(accept)
            content_type = negotiation.AGGREGATED if whole else JSON
            found = self._root(path, whole=whole)
        elif path == "/openapi/v2" and OPENAPI_V2 in accept:
            return Reply(200, (NOTHING_V2,), f"{OPENAPI_V2}.v1.0+protobuf")
        elif parts[0] == "openapi":
            if not negotiation.accepts_json(accept):
                raise negotiation.not_acceptable(JSON)
            found = self._specification(parts[1:])
        else:
            found = self._resources(parts)
        raw = msgspec.json.encode(found)
        etag = f'"{hashlib.sha256(raw).hexdigest().upper()}"'
        headers = (("ETag", etag), ("Vary", "Accept"))
        if call.headers.get("if-none-match") == etag:
            return Reply(304, (), content_type, headers)
        return Reply(200, (raw,), content_type, headers)

    def _root(self, path: str, *, whole: bool) -> Object:
        if whole:
            return discovery.aggregated(self._catalog, core=path == "/api")
        return discovery.api_versions(self.address) if path == "/api" else discovery.group_list(self._catalog)

    def _specification(self, parts: list[str]) -> Object:
        if parts == ["v2"]:
            return {"swagger": "2.0", "info": openapi.INFO, "paths": {}, "definitions": {}}
        return openapi.v3(self._catalog, "/".join(parts[1:])) if len(parts) > 1 else openapi.index(self._catalog)

    def _resources(self, parts: list[str]) -> Object:
        if parts[0] == "apis" and len(parts) == 2:
            return discovery.group(self._catalog, parts[1])
        group, version = ("", parts[1]) if parts[0] == "api" else (parts[1], parts[2])
        return discovery.resource_list(self._catalog, group, version)
