"""A refusal: which check, which field, and one line that names the key, the object and the fix."""

from handlers.admission.decision import Decision, Violation


class Refused(Exception):
    """Raised by the first check that fails; nothing has changed by then. `missed` is the kind of what is absent."""

    def __init__(
        self, check: str, field: str, detail: str, type: str = "Forbidden", *, missed: tuple[str, ...] = ()
    ) -> None:
        super().__init__(detail)
        self.check, self.missed = check, missed
        self.violation = Violation(type, field, detail)

    def decision(self) -> Decision:
        return Decision(
            verdict="refused", check=self.check, reason=str(self), violations=(self.violation,), missed=self.missed
        )


def listed(names: object) -> str:
    """`"a", "b"`."""
    return ", ".join(f'"{one}"' for one in names)  # type: ignore[attr-defined]
