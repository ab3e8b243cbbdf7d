"""Changes training speech as microphones, rooms and lines do: whole batches, on their device."""
