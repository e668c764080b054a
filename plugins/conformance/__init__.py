"""Conformance tests of components, for plugin authors and for the built-in ones.

    from elbowroom.plugins.conformance import check_weighting

    def test_min_snr():
        check_weighting(MinSNR())

Each check runs all laws of a contract; one AssertionError lists those that are broken. The fixture
``elbowroom_component`` runs them for all components of a distribution (``pytest_plugin``).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
