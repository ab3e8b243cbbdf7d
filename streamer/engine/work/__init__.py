"""Work in parts: how it is done between the steps of streams, and which streams wait for it."""
