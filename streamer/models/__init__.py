"""Folders of public models: what their files say, how they are fetched and kept, and how their graphs are rewritten."""
