"""How well a service recognises: recordings with reference texts in; error rates, speed and delays out."""
