"""The families of public models: a module for each kind of encoder, and the table of all of them."""
