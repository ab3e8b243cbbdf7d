"""The end of a turn: decides whether a speaker who pauses has finished."""
