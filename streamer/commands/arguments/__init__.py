"""Arguments that several commands share, and the objects that commands make from them."""
