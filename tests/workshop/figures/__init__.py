"""Tests of the figures about speed and capacity."""
