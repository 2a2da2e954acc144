"""Names as Kubernetes demands them, with the sentences of apimachinery's util/validation."""

import re
from typing import Final

_LABEL: Final = "[a-z]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN: Final = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
_DNS1035: Final = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, "
    "and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is "
    f"'{_LABEL}')"
)
_DNS1123: Final = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    f"'{_SUBDOMAIN}')"
)


def _told(text: str, most: int, pattern: str, words: str) -> str:
    found = [f"must be no more than {most} bytes"] if len(text.encode()) > most else []
    if re.fullmatch(pattern, text, re.ASCII) is None:
        found.append(words)
    return ",".join(found)


def dns1035(text: str) -> str:
    """What is wrong with a label, "" if nothing is."""
    return _told(text, 63, _LABEL, _DNS1035)


def dns1123(text: str) -> str:
    """What is wrong with a subdomain, "" if nothing is."""
    return _told(text, 253, _SUBDOMAIN, _DNS1123)
