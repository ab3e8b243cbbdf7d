"""Speech as microphones, rooms and lines change it, for training: on whole batches, where they lie."""
