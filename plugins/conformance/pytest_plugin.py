"""The pytest plugin: the fixture ``elbowroom_component``, one test for each component.

    DISTRIBUTION = "elbowroom-min-snr"

    def test_laws(elbowroom_component):
        elbowroom_component.check()

runs the laws of every component of that distribution. The option ``--elbowroom-distribution``
overrides the module's variable; without both, the test runs for all third-party components.
"""

from __future__ import annotations

from typing import Any

import attrs
import pytest


@attrs.frozen
class ComponentUnderTest:
    """A registered component and the laws of its kind."""

    kind: str
    name: str
    component: Any

    def check(self) -> None:
        """Run the laws of the component's kind with its default options."""
        from .laws import check_component

        check_component(self.kind, self.component.load())

    def __str__(self) -> str:
        return f"{self.kind}-{self.name}"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option."""
    group = parser.getgroup("elbowroom")
    group.addoption("--elbowroom-distribution", help="check the components of this distribution")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Parametrise tests that use the fixture over the components of kinds that have laws."""
    if "elbowroom_component" not in metafunc.fixturenames:
        return
    chosen = metafunc.config.getoption("--elbowroom-distribution")
    chosen = chosen or getattr(metafunc.module, "DISTRIBUTION", None)
    metafunc.parametrize("elbowroom_component", list(_components(chosen)), ids=str)


def _components(distribution: str | None) -> list[ComponentUnderTest]:
    from elbowroom import installed
    from elbowroom.registry import KINDS, normalised

    from .laws import laws_of

    registry = installed()
    wanted = None if distribution is None else normalised(distribution)
    found = []
    for kind in filter(laws_of, KINDS):
        for name, component in registry.components(kind).items():
            owner = normalised(component.owner.distribution or "")
            if owner == wanted or (wanted is None and owner != "elbowroom"):
                found.append(ComponentUnderTest(kind, name, component))
    return found
