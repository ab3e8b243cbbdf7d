"""The recogniser in parts that need not be in one process: one encoder, and several heads that read its frames."""
