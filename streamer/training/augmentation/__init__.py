"""Changes training speech in the way that microphones, rooms, lines and voices do, and leaves out parts of it."""
