"""The numbered messages of a session: those not sent yet, and those that a client may need again.

Pure. Clients do not acknowledge messages. So the last ones are kept, up to a mark, until the session ends.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from streamer.wire.events import Ready, ServerMessage, Starting, render

# Characters of JSON that are kept for a client that resumes: minutes of live speech. This is more than the buffers on
# the way to a client hold, so older messages have arrived.
MOST_KEPT = 256 * 1024


@dataclass(frozen=True)
class Numbered:
    """A message with its number, and its text."""

    n: int
    message: ServerMessage
    text: str


class Outbox:
    """Messages in order, each with its number. Some were already taken."""

    def __init__(self) -> None:
        self.said = 0  # the number of the last message
        self._waiting = _Row()
        self._taken = _Row()  # the oldest, at the front, are dropped
        self._greeting: Numbered | None = None
        self._announcement: Numbered | None = None

    @property
    def waiting(self) -> int:
        """The number of messages that wait to be taken."""
        return len(self._waiting.messages)

    @property
    def overfull(self) -> bool:
        """Whether more messages wait than are kept."""
        return self._waiting.size > MOST_KEPT

    def say(self, message: ServerMessage) -> None:
        """Add a message."""
        self.said += 1
        text = render(self.said, message)
        self._waiting.messages.append(Numbered(self.said, message, text))
        self._waiting.size += len(text)

    def announce(self, message: Starting) -> None:
        """Add a message before all others. It has the number 0, and is not kept: it means nothing after `ready`."""
        self._announcement = Numbered(0, message, render(0, message))

    def take(self) -> list[Numbered]:
        """Take all messages that wait, in order."""
        messages = list(self._waiting.messages)
        if self._announcement is not None:
            messages.insert(0, self._announcement)
            self._announcement = None
        if self._greeting is not None:
            messages.insert(0, self._greeting)
            self._greeting = None
        taken = self._taken
        taken.messages.extend(self._waiting.messages)
        taken.size += self._waiting.size
        self._waiting = _Row()
        while taken.size > MOST_KEPT:
            taken.size -= len(taken.messages.popleft().text)
        return messages

    def has_after(self, number: int) -> bool:
        """Return whether this message exists, and all messages after it are still kept."""
        kept = self._taken.messages or self._waiting.messages
        first = kept[0].n if kept else self.said + 1
        return first <= number + 1 <= self.said + 1

    def rewind(self, number: int, greeting: Ready) -> None:
        """Make the messages after this one wait again, behind a greeting, which has its number and is not kept."""
        taken, waiting = self._taken, self._waiting
        while taken.messages and taken.messages[-1].n > number:
            again = taken.messages.pop()
            waiting.messages.appendleft(again)
            taken.size -= len(again.text)
            waiting.size += len(again.text)
        self._greeting = Numbered(number, greeting, render(number, greeting))


class _Row:
    def __init__(self) -> None:
        self.messages: deque[Numbered] = deque()
        self.size = 0  # characters of all texts
