"""One measured line of `make bench`: what was measured, the value, its unit, the bar and whether it holds."""

from typing import NamedTuple


class Row(NamedTuple):
    """`bar` is None for a figure that is only shown. `ok` is the caller's judgement: some bars are upper bounds."""

    name: str
    value: float
    unit: str
    bar: float | None = None
    ok: bool = True

    def __str__(self) -> str:
        shown = f"{self.value:,.0f}" if self.value >= 100 else f"{self.value:,.3g}"
        bar = "" if self.bar is None else f"   bar {self.bar:,.3g}   {'ok' if self.ok else 'MISSED'}"
        return f"{self.name:<64} {shown:>12} {self.unit:<10}{bar}"
