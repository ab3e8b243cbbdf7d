"""The training of the neural language model that rescores words."""
