"""Which hooks are due for a second round: those that ask for it and were called before another changed the object.

From upstream's `webhook/mutating/reinvocationcontext.go`. A hook is not called again for its own change.
"""

from dataclasses import dataclass, field

from devkube.admission.hooks import Hook


@dataclass
class Reinvocation:
    called: set[str] = field(default_factory=set)  # IfNeeded, and nothing changed since
    due: set[str] = field(default_factory=set)
    changed: bool = False

    def note(self, hook: Hook, *, changed: bool) -> None:
        if changed:
            self.due |= self.called
            self.called, self.changed = set(), True
        if hook.reinvoked:
            self.called.add(hook.uid)
