"""The recogniser in steps: one encoder and several heads that read it, each a Triton model. No other room needs it."""
