"""The recogniser in parts for separate processes: one encoder, and several heads that read its frames."""
