"""Whether manifests would be admitted, without a cluster: schema, defaults and every rule of their webhooks.

Examples:
  warmlog validate -f cachebackend.yaml
  warmlog validate -f new.yaml --old old.yaml      # as an update: only what it introduces is refused

One line per violation, as kubectl would print it. Exit code 3 when anything would be refused. CEL rules of CRDs are the
API server's and are not evaluated here.
"""

import argparse
import sys
from typing import Final

from handlers.admission.decision import Violation
from handlers.admission.review import told
from handlers.outcome import Key
from warmlog import cli, documents, flags, offline, output, systems
from warmlog.documents import Document

FLAGS: Final = (
    *offline.FLAGS,
    flags.Flag("old", "the manifests as they are stored now"),
    output.FLAG,
)


def run(values: flags.Values, arguments: argparse.Namespace) -> int:
    given, state = offline.given(values)
    known = [one for one in given if one.kind]
    if not known:
        raise cli.Failure(f"{values['file']}: there is no kind in it that a webhook here validates")
    stored = _stored(values, known)
    verdicts = []
    for number, document in enumerate(given):
        others = [one for at, one in enumerate(given) if at != number]
        verdicts.append(_judge(document, others, state, stored.get(document.key), values))
    for one in verdicts:
        output.show(one, form=values["output"], human=_human)
    return cli.REFUSED if any(one["refused"] for one in verdicts) else 0


def _stored(values: flags.Values, given: list[Document]) -> dict[Key, Document]:
    """Raises Failure where none of them is an older form of what is given: all would be judged as new."""
    if not values["old"]:
        return {}
    documents.once(values["file"], values["old"], *values["state"].split(","))
    found = {one.key: one for one in documents.read(values["old"])}
    if not any(one.key in found for one in given):
        raise cli.Failure(
            f"{values['old']}: none of its objects has kind, namespace and name of one in {values['file']}"
        )
    return found


def _judge(
    document: Document,
    others: list[Document],
    state: list[Document],
    old: Document | None,
    values: flags.Values,
) -> dict[str, object]:
    name = f"{document.body['kind']}/{document.key.namespace}/{document.key.name}".replace("//", "/")
    if not document.kind:
        return {"object": name, "refused": False, "violations": [], "warnings": ["no webhook here validates this kind"]}
    problems = offline.schema_problems(document, old)
    warnings: list[str] = []
    if not problems:
        world = offline.world_of([*state, *others])
        outcome = offline.admit(offline.defaulted(document), world, *systems.options(values), old=old)
        warnings = [line for _, decision in outcome.decisions for line in decision.warnings]
        for _, decision in outcome.refused:
            problems += decision.violations or (Violation("Forbidden", "", decision.reason),)
    lines = [f"{one.field}: {told(one)}" if one.field else one.detail for one in problems]
    return {"object": name, "refused": bool(lines), "violations": lines, "warnings": warnings}


def _human(found: object) -> str:
    assert isinstance(found, dict)
    for line in found["warnings"]:
        print(f"{found['object']}: warning: {line}", file=sys.stderr)
    if not found["refused"]:
        return f"{found['object']}: would be admitted"
    return "\n".join(f"{found['object']}: {line}" for line in found["violations"])
