"""Training of the acoustic model: batches, augmentation, optimiser, losses, runs, error rates."""
