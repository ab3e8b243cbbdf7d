"""Changes training speech in the way that microphones, rooms and lines do: whole batches, on their device."""
