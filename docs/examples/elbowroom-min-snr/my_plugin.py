import attrs
from elbowroom import Weighting, hookimpl


@attrs.frozen
class MinSNR(Weighting):
    gamma: float = 5.0

    def __call__(self, level):
        return (self.gamma / level.snr).clamp(max=1) / level.elbo_weight


@hookimpl
def weightings():
    return {"min-snr": MinSNR}
