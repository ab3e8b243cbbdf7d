"""How well a service understands: recordings with references in, error rates, speed and delays out."""
