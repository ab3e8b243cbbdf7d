"""The likeliest CTC path through a graph of pronunciations, for a batch of utterances at once.

In each frame a path says a node, or rests after one (a blank). If two nodes in a row have the same unit, the path must
rest between them. Each frame takes a few tensor operations over [rows, nodes, nodes before].
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from streamer.training.acoustic import units
from streamer.training.phones.pronunciation_graph import START, PronunciationGraph

NEVER = -1e30
RESTING = -1
"""The number in a path for a frame in which no node is said."""


def best_paths(
    emissions: Tensor, lengths: Sequence[int], graphs: Sequence[PronunciationGraph]
) -> list[list[int] | None]:
    """Return the path of each row: a node or RESTING for every frame. None if the text does not fit into the frames.

    `emissions` are log-probabilities [rows, frames, units] on any device.
    """
    tables = _Tables(graphs, emissions.device)
    rows, frames, _ = emissions.shape
    of_nodes = emissions.gather(2, tables.labels.unsqueeze(1).expand(-1, frames, -1))
    of_blank = emissions[..., units.BLANK].unsqueeze(-1)
    said = emissions.new_full((rows, tables.nodes), NEVER)
    said[:, START] = 0.0  # every path begins at this node, and never returns to it
    rest = torch.full_like(said, NEVER)
    entered_from = torch.empty(frames, rows, tables.nodes, dtype=torch.int16, device=emissions.device)
    rested_before = torch.empty(frames, rows, tables.nodes, dtype=torch.bool, device=emissions.device)
    final = emissions.new_full((rows, 2), NEVER)
    ends = torch.tensor(lengths, device=emissions.device) - 1
    for time in range(frames):
        entering, origin = tables.entering(said, rest).max(-1)
        # The numbers below 2 * width stand for the nodes before; 2 * width means that the path stays in its node.
        entered_from[time] = torch.where(said >= entering, 2 * tables.width, origin)
        rested_before[time] = rest >= said
        rest, said = torch.maximum(rest, said) + of_blank[:, time], torch.maximum(said, entering) + of_nodes[:, time]
        said[:, START] = NEVER
        scores = torch.stack((said, rest), -1)[tables.rows, tables.last]
        final = torch.where((ends == time).unsqueeze(1), scores, final)
    return tables.traced(final, ends, entered_from, rested_before)


class _Tables:
    """The graphs of a batch as tensors. Smaller graphs are padded to the same number of nodes and of nodes before."""

    def __init__(self, graphs: Sequence[PronunciationGraph], device: torch.device) -> None:
        self.nodes = max(len(graph) for graph in graphs)
        self.width = max(len(before) for graph in graphs for before in graph.before)
        labels = torch.zeros(len(graphs), self.nodes, dtype=torch.int64)
        before = torch.zeros(len(graphs), self.nodes, self.width, dtype=torch.int64)
        there = torch.zeros(len(graphs), self.nodes, self.width, dtype=torch.bool)
        for row, graph in enumerate(graphs):
            labels[row, : len(graph)] = torch.tensor(graph.labels)
            for node, nodes_before in enumerate(graph.before):
                before[row, node, : len(nodes_before)] = torch.tensor(nodes_before, dtype=torch.int64)
                there[row, node, : len(nodes_before)] = True
        same = labels.gather(1, before.flatten(1)).view_as(before) == labels.unsqueeze(-1)
        self.labels = labels.to(device)
        self.before = before.flatten(1).to(device)
        # The first half is for entering from a rest after a node before, the second half for entering from that node.
        forbidden = torch.cat((~there, ~there | same), -1)
        self.penalty = (forbidden * NEVER).to(device)
        self.rows = torch.arange(len(graphs), device=device)
        self.last = torch.tensor([len(graph) - 1 for graph in graphs], device=device)

    def entering(self, said: Tensor, rest: Tensor) -> Tensor:
        """Return the scores of all ways to enter each node: [rows, nodes, 2 * nodes before]."""
        shape = (len(said), self.nodes, self.width)
        both = torch.cat((rest.gather(1, self.before).view(shape), said.gather(1, self.before).view(shape)), -1)
        return both + self.penalty

    def traced(
        self, final: Tensor, ends: Tensor, entered_from: Tensor, rested_before: Tensor
    ) -> list[list[int] | None]:
        """Follow the paths back from their ends."""
        node, resting = self.last.clone(), final[:, 1] > final[:, 0]
        before = self.before.view(len(node), self.nodes, self.width)
        path = torch.full((len(entered_from), len(node)), RESTING, device=node.device)
        for time in range(len(entered_from) - 1, -1, -1):
            inside = ends >= time
            path[time] = torch.where(inside & ~resting, node, RESTING)
            origin = entered_from[time, self.rows, node].long()
            stays = resting | (origin == 2 * self.width)
            earlier = before[self.rows, node, origin % self.width]
            was_resting = torch.where(resting, rested_before[time, self.rows, node], origin < self.width)
            was_resting &= resting | ~stays
            node = torch.where(inside & ~stays, earlier, node)
            resting = torch.where(inside, was_resting, resting)
        rows = zip(path.T.tolist(), ends.tolist(), final.amax(1).tolist(), strict=True)
        return [row[: end + 1] if score > NEVER / 2 else None for row, end, score in rows]
