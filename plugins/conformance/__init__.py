"""What every component must satisfy, for plugin authors and for us.

    from elbowroom.plugins.conformance import check_weighting

    def test_min_snr():
        check_weighting(MinSNR())

Each check runs all laws of a contract and fails with one AssertionError whose sentences say which
laws are broken and how. The built-in components pass through the same calls.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
