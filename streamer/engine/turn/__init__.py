"""The end of a turn: whether somebody who pauses has said what they wanted to say."""
