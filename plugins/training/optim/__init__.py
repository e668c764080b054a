"""Optimisers: AdamW for everything, or Muon for the matrices of hidden layers."""
