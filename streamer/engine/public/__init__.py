"""Public models in the recogniser: their graphs as a streaming model, and the searches that read them."""
