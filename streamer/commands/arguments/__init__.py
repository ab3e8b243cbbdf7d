"""Arguments that several commands take, and what is made of them."""
