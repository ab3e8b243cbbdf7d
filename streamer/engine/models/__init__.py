"""Models that turn audio into emissions: the interface of a streaming model, and the shipped model."""
