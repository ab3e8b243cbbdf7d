"""Training and measuring of speech activity: examples of speech over sounds that are none, and what is told of them."""
