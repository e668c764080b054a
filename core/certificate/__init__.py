"""The certificate: is a weighting a variational bound, and how far is it one if not?"""

from elbowroom.registry.moved import old_names

__getattr__ = old_names(__name__)
