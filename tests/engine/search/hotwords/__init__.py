"""Tests of `streamer.engine.search.hotwords`."""
