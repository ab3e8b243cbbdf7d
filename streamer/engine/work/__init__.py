"""Work in parts between the steps of streams, and the streams that wait for it."""
