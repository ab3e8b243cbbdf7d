"""What the training scripts share: prepared audio, alignments, batches, augmentation, optimiser, losses."""
