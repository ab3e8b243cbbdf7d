"""Training of the acoustic model: batches, augmentation, optimiser, losses, scores."""
