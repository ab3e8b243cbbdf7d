"""Arguments that several commands share, and the objects that are made from them."""
