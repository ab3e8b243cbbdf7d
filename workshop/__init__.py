"""The workshop: what makes the model, measures it, and attacks the service. It is not in the wheel."""
