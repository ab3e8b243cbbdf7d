"""The bonuses of hotwords: earned when a phrase is complete, and lent in part while the phrase is being said.

A phrase earns its bonus with its last word; up to three last words identify it. After each earlier word a part of the
bonus is lent. That depends on the last two words only, as the language model does, so hypotheses merge as without
hotwords.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from streamer.engine.search.beam_tensors import extend_hash
from streamer.engine.work import Work

_LAST_KEY = 2**63 - 1


@dataclass
class HotwordBonuses:
    """The bonuses by last words, as tensors [streams, entries]. The keys of a row are sorted."""

    roots: Tensor  # [streams]: the base of the root of each stream's own trie
    keys: Tensor  # hashes of one to three words
    earned: Tensor  # kept for good
    lent: Tensor  # taken back at the next word
    own: Tensor  # whether the key is one word that the stream's own trie contains

    @classmethod
    def make(cls, slots: int, device: torch.device | str) -> HotwordBonuses:
        """The bonuses of slots without hotwords."""
        roots = torch.zeros(slots, dtype=torch.int64, device=device)
        keys = torch.full((slots, 1), _LAST_KEY, dtype=torch.int64, device=device)
        earned = torch.zeros(slots, 1, dtype=torch.float64, device=device)
        return cls(roots, keys, earned, earned.clone(), torch.zeros(slots, 1, dtype=torch.bool, device=device))

    @classmethod
    def of(cls, entries: Mapping[tuple[int, ...], tuple[float, float, bool]]) -> Work[HotwordBonuses]:
        """The bonuses of one stream: (earned, lent, own) by the last one to three words."""
        keys, values = [], []
        for length in (1, 2, 3):
            listed = [key for key in entries if len(key) == length]
            words = torch.tensor(listed, dtype=torch.int64).view(-1, length).unbind(1)
            found = torch.zeros_like(words[0])
            for word in words:
                found = extend_hash(found, word)
            keys.append(found)
            values += [entries[key] for key in listed]
            yield
        ordered, order = torch.cat(keys).sort()
        rows = [ordered]
        for column, kind in zip(zip(*values, strict=True), (torch.float64, torch.float64, torch.bool), strict=True):
            rows.append(torch.tensor(column, dtype=torch.float32).to(kind)[order])
            yield
        return cls(torch.zeros(1, dtype=torch.int64), *(row.unsqueeze(0) for row in rows))

    def take(self, streams: Tensor) -> HotwordBonuses:
        """The rows of these streams."""
        return HotwordBonuses(*(tensor.index_select(0, streams) for tensor in vars(self).values()))

    def first(self, streams: int) -> HotwordBonuses:
        """The rows of the first `streams` streams."""
        return HotwordBonuses(*(tensor[:streams] for tensor in vars(self).values()))

    def put(self, slot: int, one: HotwordBonuses, root: int) -> Work[None]:
        """Store the bonuses of one stream in a slot; `root` is the base of the root of its trie."""
        size = one.keys.shape[1]
        # The keys come last, because other streams may look them up meanwhile. They must not find an unfinished entry.
        fill = {"earned": 0.0, "lent": 0.0, "own": False, "keys": _LAST_KEY}
        for name, value in fill.items():
            tensor = getattr(self, name)
            missing = size - tensor.shape[1]
            if missing > 0:
                wider = torch.nn.functional.pad(tensor, (0, missing), value=value)
                if name == "keys":
                    wider[:, -missing:] = _LAST_KEY  # `pad` takes a float, which cannot hold it exactly
                setattr(self, name, wider)
            yield
        self.keys[slot], self.roots[slot] = _LAST_KEY, root
        for mine, theirs in zip(list(vars(self).values())[1:], list(vars(one).values())[1:], strict=True):
            mine[slot, :size] = theirs[0].to(mine.device)

    def gains(self, older: Tensor, last: Tensor, words: Tensor) -> tuple[Tensor, Tensor]:
        """What each word gains after these two words [streams, n], and whether it is in the stream's own trie."""
        nothing = torch.zeros_like(words)
        before = extend_hash(extend_hash(nothing, older), last)
        one, two, three = (
            extend_hash(nothing, words),
            extend_hash(extend_hash(nothing, last), words),
            extend_hash(before, words),
        )
        index, found = self._find(torch.cat((one, two, three), 1))
        earned, lent = (
            (part.gather(1, index) * found).unflatten(1, (3, -1)).unbind(1) for part in (self.earned, self.lent)
        )
        own = self.own.gather(1, index[:, : words.shape[1]]) & found[:, : words.shape[1]]
        gained = torch.maximum(torch.maximum(earned[0], earned[1]), earned[2])
        return gained + torch.maximum(lent[0], lent[1]) - self.lent_after(older, last), own

    def lent_after(self, older: Tensor, last: Tensor) -> Tensor:
        """What hypotheses that end in these two words [streams, n] have on loan."""
        nothing = torch.zeros_like(last)
        index, found = self._find(
            torch.cat((extend_hash(nothing, last), extend_hash(extend_hash(nothing, older), last)), 1)
        )
        return (self.lent.gather(1, index) * found).unflatten(1, (2, -1)).amax(1)

    def _find(self, keys: Tensor) -> tuple[Tensor, Tensor]:
        index = torch.searchsorted(self.keys, keys).clamp_(max=self.keys.shape[1] - 1)
        return index, self.keys.gather(1, index) == keys
