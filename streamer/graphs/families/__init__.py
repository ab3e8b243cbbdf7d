"""The families of public models: a module for each kind of encoder, and a table of all kinds."""
