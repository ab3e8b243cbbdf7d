"""Recordings that are uploaded over plain HTTP: decoded elsewhere, recognised in a session, answered in one format."""
