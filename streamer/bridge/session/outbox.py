"""The numbered messages of a session: those that were not sent yet, and those that a client may need again.

Pure. Clients do not acknowledge messages. So the last ones are kept, up to a limit, until the session ends.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from streamer.wire.events import Ready, ServerMessage, Starting, render

# The characters of JSON that are kept for a client that resumes: minutes of live speech. The buffers on the way to a
# client hold less, so older messages have arrived.
MOST_KEPT = 256 * 1024


@dataclass(frozen=True)
class Numbered:
    """A message with its number, and its text."""

    n: int
    message: ServerMessage
    text: str


class Outbox:
    """Messages in order, each with its number: those that were sent, and then those that wait."""

    def __init__(self) -> None:
        self.last = 0  # the number of the last message
        self._waiting = _Row()
        self._sent = _Row()  # without the oldest ones, which are dropped
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
        self.last += 1
        text = render(self.last, message)
        self._waiting.messages.append(Numbered(self.last, message, text))
        self._waiting.size += len(text)

    def announce(self, message: Starting) -> None:
        """Add a message before all others. It gets the number 0, and is not kept: after `ready` it means nothing."""
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
        sent = self._sent
        sent.messages.extend(self._waiting.messages)
        sent.size += self._waiting.size
        self._waiting = _Row()
        while sent.size > MOST_KEPT:
            sent.size -= len(sent.messages.popleft().text)
        return messages

    def has_after(self, number: int) -> bool:
        """Return whether this message exists, and all messages after it are still kept."""
        messages = self._sent.messages or self._waiting.messages
        first = messages[0].n if messages else self.last + 1
        return first <= number + 1 <= self.last + 1

    def rewind(self, number: int, greeting: Ready) -> None:
        """Send the messages after this one again, behind a greeting, which gets this number and is not kept."""
        sent, waiting = self._sent, self._waiting
        while sent.messages and sent.messages[-1].n > number:
            message = sent.messages.pop()
            waiting.messages.appendleft(message)
            sent.size -= len(message.text)
            waiting.size += len(message.text)
        self._greeting = Numbered(number, greeting, render(number, greeting))


class _Row:
    """Messages in order, with their size."""

    def __init__(self) -> None:
        self.messages: deque[Numbered] = deque()
        self.size = 0  # characters of all texts
