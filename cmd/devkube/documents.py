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

VERSION: Final[Object] = {
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
# kubectl asks for version 2 in protobuf only, for a List in a file and for kinds that nobody serves. It skips what it
# does not find there, and the server checks each object anyhow: a document without definitions is all that it needs.
OPENAPI_V2: Final = "application/com.github.proto-openapi.spec.v2"  # asked for with @v1.0, answered with .v1.0
NOTHING_V2: Final = b"\x0a\x032.0" + b"\x12\x13" + b"\x0a\x0aKubernetes" + b"\x12\x05v1.36"
PATHS: Final = ("/api", "/apis", *HEALTH, "/openapi/v2", "/openapi/v3", "/version")


class Documents:
    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self.address = ""  # host:port, told in /api; set when the port is known

    def answer(self, call: web.BaseRequest, route: Route) -> Reply:
        """StatusError. A HEAD is a GET here; who carries it leaves the body out."""
        path = "/" + route.path.strip("/")
        reply = self._found(call, path)
        if route.verb not in ("get", "head"):
            raise method_not_allowed()
        return reply

    def _found(self, call: web.BaseRequest, path: str) -> Reply:
        accept = call.headers.get("accept", "")
        if path in HEALTH:
            told = f"{path[1:]} check passed\n" if "verbose" in call.query else "ok"
            return Reply(200, (told.encode(),), "text/plain; charset=utf-8")
        if path == "/openapi/v2" and OPENAPI_V2 in accept:
            return Reply(200, (NOTHING_V2,), f"{OPENAPI_V2}.v1.0+protobuf")
        whole = negotiation.aggregated(accept) and path in ("/api", "/apis")
        content_type = negotiation.AGGREGATED if whole else JSON
        raw = msgspec.json.encode(self._made(path, whole=whole))
        etag = f'"{hashlib.sha256(raw).hexdigest().upper()}"'
        headers = (("ETag", etag), ("Vary", "Accept"))
        if call.headers.get("if-none-match") == etag:
            return Reply(304, (), content_type, headers)
        return Reply(200, (raw,), content_type, headers)

    def _made(self, path: str, *, whole: bool) -> Object:
        match path.strip("/").split("/"):
            case [""]:
                return {"paths": PATHS}
            case ["version"]:
                return VERSION
            case ["api" | "apis" as root] if whole:
                return discovery.aggregated(self._catalog, core=root == "api")
            case ["api"]:
                return discovery.api_versions(self.address)
            case ["apis"]:
                return discovery.group_list(self._catalog)
            case ["apis", group]:
                return discovery.group(self._catalog, group)
            case ["api", version]:
                return discovery.resource_list(self._catalog, "", version)
            case ["apis", group, version]:
                return discovery.resource_list(self._catalog, group, version)
            case ["openapi", "v2"]:
                return {"swagger": "2.0", "info": openapi.INFO, "paths": {}, "definitions": {}}
            case ["openapi", "v3"]:
                return openapi.index(self._catalog)
            case ["openapi", "v3", *rest]:
                return openapi.v3(self._catalog, "/".join(rest))
        raise no_such_path()
