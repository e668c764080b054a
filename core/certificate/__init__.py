"""The certificate: is a weighting a variational bound, and how far is it one if not?"""
