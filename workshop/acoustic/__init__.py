"""Training of the acoustic model: batches, augmentation, losses, optimiser, runs."""
