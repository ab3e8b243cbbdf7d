"""Words, line breaks and what is taken back, in real windows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from streamer.commands.keyboard import DesktopError, find_clipboard, find_keyboard
from streamer.commands.typist import NO_WINDOW, NOTHING, OTHER_WINDOW, ClipboardText, FocusedWindow, Typist
from tests.virtual_desktop import X11Desktop, x11_desktop


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[X11Desktop]:
    """Run a desktop."""
    with x11_desktop(tmp_path_factory.mktemp("desktop")) as desktop:
        yield desktop


@pytest.fixture
def desktop(running: X11Desktop, monkeypatch: pytest.MonkeyPatch) -> X11Desktop:
    """Be a program of it."""
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    monkeypatch.setenv("DISPLAY", running.environment["DISPLAY"])
    return running


async def dictate(typist: Typist, *texts: str) -> None:
    """Say these, one after the other."""
    for text in texts:
        await typist.take({"type": "final", "text": text})
    await typist.finish()


async def test_words_go_into_the_window_and_the_clipboard(desktop: X11Desktop) -> None:
    """Both have the same text; a pause of the microphone begins a new text in the clipboard alone."""
    window, said = desktop.open_window(), list[str]()
    places = [FocusedWindow(find_keyboard()), ClipboardText(find_clipboard())]
    letter = ("Dear Ms. Ödön,", "New paragraph.", "See yu.", "Scratch that.", "See you.")
    await dictate(Typist(places, said.append), *letter)
    window.awaits("Dear Ms. Ödön, \n\nSee you. ")
    assert desktop.paste() == "Dear Ms. Ödön, \n\nSee you."
    typist = Typist(places, said.append)
    await typist.begin()
    await dictate(typist, "And more.")
    window.awaits("Dear Ms. Ödön, \n\nSee you. And more. ")
    assert desktop.paste() == "And more."
    assert said == []


async def test_nothing_is_taken_back_in_another_window(desktop: X11Desktop) -> None:
    """What was typed elsewhere stays. Back in its window, it can be taken back."""
    keyboard = find_keyboard()
    place, said = FocusedWindow(keyboard), list[str]()
    first = desktop.open_window()
    await dictate(Typist([place], said.append), "One.", "Two.")
    second = desktop.open_window()
    keyboard.write("by hand")
    await dictate(Typist([place], said.append), "Scratch that.")
    assert said == [OTHER_WINDOW]
    second.awaits("by hand")
    first.awaits("One. Two. ")
    desktop.focus(first)
    await dictate(Typist([place], said.append), "Scratch that.", "Scratch that.", "Scratch that.")
    first.awaits("")
    assert second.text == "by hand"
    assert said == [OTHER_WINDOW, NOTHING]


async def test_a_part_in_two_windows_stays(desktop: X11Desktop) -> None:
    """Words that settled early may be in another window than the rest: both stay."""
    place, said = FocusedWindow(find_keyboard()), list[str]()
    first = desktop.open_window()
    place.write("one ", begins=True)
    second = desktop.open_window()
    place.write("two ", begins=False)
    for window in (second, first):
        desktop.focus(window)
        with pytest.raises(DesktopError, match=OTHER_WINDOW):
            place.scratch()
    assert (first.text, second.text, said) == ("one ", "two ", [])


async def test_a_desktop_that_goes_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each step that fails is told. The dictation goes on, and ends."""
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    said: list[str] = []
    with x11_desktop(tmp_path) as desktop:
        monkeypatch.setenv("DISPLAY", desktop.environment["DISPLAY"])
        place = FocusedWindow(find_keyboard())
    await dictate(Typist([place], said.append), "One.", "Scratch that.")
    assert said[0].startswith("xdotool failed: ")
    assert said[1:] == [NO_WINDOW]
