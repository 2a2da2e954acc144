"""The key of ServiceAccount tokens: compact JWTs signed with ES256 by a key that lives as long as the process.

Only what this server signs itself is ever verified, so one algorithm, one key and one issuer are all there is; a token
that names another is not ours.
"""

import base64
import hashlib
from typing import Any

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature, encode_dss_signature

Claims = dict[str, Any]
_HALF = 32  # bytes of each of the signature's two numbers (RFC 7518 section 3.4)
_REMEMBERED = 1_000  # tokens whose signature was verified: clients send the same one with each request
_ECDSA = ec.ECDSA(hashes.SHA256())


class NotOurs(Exception):
    """No JWT of this issuer: some other kind of token, or a broken one."""


class BadSignature(Exception):
    """Claims to be ours and is not."""


class Signer:
    def __init__(self, issuer: str = "https://kubernetes.default.svc.cluster.local") -> None:
        self.issuer = issuer
        self._key = ec.generate_private_key(ec.SECP256R1())
        public = self._key.public_key()
        der = public.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
        self._public, self.key_id = public, _encode(hashlib.sha256(der).digest())
        self._verified: dict[str, Claims] = {}

    def sign(self, claims: Claims) -> str:
        header = {"alg": "ES256", "kid": self.key_id}
        head = _encode(msgspec.json.encode(header)) + "." + _encode(msgspec.json.encode({**claims, "iss": self.issuer}))
        r, s = decode_dss_signature(self._key.sign(head.encode(), _ECDSA))
        return head + "." + _encode(r.to_bytes(_HALF, "big") + s.to_bytes(_HALF, "big"))

    def claims(self, token: str) -> Claims:
        """What a token signed here says. Raises NotOurs or BadSignature; whether it is still good is not asked here."""
        found = self._verified.get(token)
        if found is None:
            found = self._verify(token)
            if len(self._verified) >= _REMEMBERED:
                self._verified.clear()
            self._verified[token] = found
        return found

    def _verify(self, token: str) -> Claims:
        try:
            head, payload, signature = token.split(".")
            claims = msgspec.json.decode(_decode(payload), type=dict[str, Any])
        except (ValueError, msgspec.MsgspecError):
            raise NotOurs("the token is no JWT") from None
        if claims.get("iss") != self.issuer:
            raise NotOurs("the token is of another issuer")
        try:
            header, raw = msgspec.json.decode(_decode(head), type=dict[str, Any]), _decode(signature)
        except (ValueError, msgspec.MsgspecError):
            raise BadSignature("the token is broken") from None
        if header.get("kid") not in (None, self.key_id):
            raise BadSignature("invalid signature, no keys found")
        if header.get("alg") != "ES256" or len(raw) != 2 * _HALF:
            raise BadSignature("invalid signature")
        der = encode_dss_signature(int.from_bytes(raw[:_HALF], "big"), int.from_bytes(raw[_HALF:], "big"))
        try:
            self._public.verify(der, f"{head}.{payload}".encode(), _ECDSA)
        except InvalidSignature:
            raise BadSignature("go-jose/go-jose: error in cryptographic primitive") from None
        return claims


def _encode(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def _decode(text: str) -> bytes:
    """ValueError (binascii.Error is one) for what is no base64url without padding."""
    return base64.b64decode(text.encode("ascii") + b"=" * (-len(text) % 4), b"-_", validate=True)
