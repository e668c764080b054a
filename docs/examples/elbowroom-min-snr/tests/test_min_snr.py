import pytest
import torch
from elbowroom import Level
from elbowroom.plugins.conformance import check_weighting
from my_plugin import MinSNR


@pytest.mark.parametrize("gamma", [1.0, 5.0, 20.0])
def test_it_keeps_the_laws_of_a_weighting(gamma):
    """Min-SNR passes elbowroom's conformance kit for every gamma."""
    check_weighting(MinSNR(gamma))


def test_the_plain_loss_is_weighed_by_the_capped_signal_to_noise_ratio():
    """What multiplies the plain loss is min(1, gamma / SNR), as in the paper."""
    log_snr = torch.linspace(-5, 5, 11, dtype=torch.float64)
    one, elbo_weight = torch.ones_like(log_snr), 3 * log_snr.exp()
    level = Level(t=one / 2, log_snr=log_snr, rate=one, price=elbo_weight, elbo_weight=elbo_weight)
    torch.testing.assert_close(
        MinSNR(5.0).plain_weight(level), log_snr.exp().clamp(max=5.0) / log_snr.exp()
    )
