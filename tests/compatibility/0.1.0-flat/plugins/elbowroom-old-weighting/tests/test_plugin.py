"""The plugin as elbowroom finds it."""

from elbowroom.registry import registry

from elbowroom_old_weighting.weighting import OldWeighting

DISTRIBUTION = "elbowroom-old-weighting"
NAME = "old-weighting"


def test_its_name_leads_to_it() -> None:
    """A config that gives the name gets this class, by the entry point of this distribution."""
    found = registry().find("weighting", f"{DISTRIBUTION}/{NAME}")
    assert found.load() is OldWeighting


def test_nothing_about_it_is_broken() -> None:
    """elbowroom loaded the plugin, and found nothing odd in it."""
    (plugin,) = (one for one in registry().plugins if one.distribution == DISTRIBUTION)
    assert plugin.error is None
    assert plugin.notes == ()
