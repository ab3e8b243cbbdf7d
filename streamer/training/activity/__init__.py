"""Training and judging of speech activity: scenes, sounds that are no speech, and what is heard in them."""
