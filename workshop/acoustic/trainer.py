"""One training run, alone or in several processes: model, optimisers, averaged weights, and checkpoints."""

from __future__ import annotations

import datetime
import json
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor, distributed, nn

from streamer.engine.networks.acoustic_network import AcousticNetwork
from streamer.engine.networks.moonshine_encoder import MoonshineEncoder
from workshop.acoustic.augmentation import CONDITIONS, Augmentation
from workshop.acoustic.batches import Batch, Batches
from workshop.acoustic.losses import VIEWS, HeadLosses, Lesson, Schedule, Teacher, doubled
from workshop.data.corpus import CorpusError

CHUNKS_MS = (160, 320, 320, 640, 640, 0)
LEFTS_MS = (1600, 2560, 2560, 3840)
EVERYTHING = 1e9


class Trainer:
    """Trains an acoustic model until its planned time is over, in any number of pieces."""

    def __init__(
        self,
        model: AcousticNetwork,
        batches: Batches,
        augmentation: Augmentation,
        schedule: Schedule,
        seed: int,
        precision: torch.dtype,
        processes: ProcessGroup | None = None,
        losses: HeadLosses | None = None,
        teacher: Teacher | None = None,
    ) -> None:
        self.processes = processes or ProcessGroup()
        self.model = model.train()
        self.average = {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}
        self._batches = batches
        self._augmentation = augmentation
        self._schedule = schedule
        self._seed = seed
        self._precision = precision
        self._losses = losses or HeadLosses(schedule)
        self._teacher = teacher
        frame_ms = model.description.encoder.frame_ms
        self._chunks, self._lefts = ([round(each / frame_ms) for each in ms] for ms in (CHUNKS_MS, LEFTS_MS))
        matrices = [weight for weight in model.encoder.blocks.parameters() if weight.ndim == 2]
        self._muon = Muon(matrices, precision, processes=self.processes)
        self._adam = torch.optim.AdamW(self._groups(matrices), lr=schedule.rate, betas=(0.9, 0.98), weight_decay=0.01)
        self.step = 0
        self.epoch = 0
        self.position = 0
        self.synthetic = 0.0  # the share in this epoch
        self.trained_seconds = 0.0
        self.audio_seconds = 0.0

    def _groups(self, matrices: Sequence[nn.Parameter]) -> list[dict[str, Any]]:
        """Return the weights that are no matrices of blocks, in groups with a share of the learning rate."""
        chosen, heads = (
            {id(weight) for weight in some} for some in (matrices, self.model.encoder.outputs.parameters())
        )
        rest = [weight for weight in self.model.parameters() if weight.requires_grad and id(weight) not in chosen]
        share = self._schedule.body_rate
        if share == 1:
            return [{"params": rest}]
        body, new = ([weight for weight in rest if (id(weight) in heads) is own] for own in (False, True))
        return [{"params": new}, {"params": body, "share": share}]

    @property
    def progress(self) -> float:
        """The share of the plan that is over."""
        return self._schedule.progress(self.step, self.trained_seconds)

    def train(self, minutes: float, note: Callable[[dict[str, float]], None], stopped: Callable[[], bool]) -> None:
        """Train for a given time, to the end of the plan or until stopped. `note` gets the figures of every step."""
        end = self.trained_seconds + 60 * minutes
        while self.progress < 1 and self.trained_seconds < end:
            longest = self._schedule.short_seconds if self.step < self._schedule.short_steps else EVERYTHING
            if self.position == 0:
                self.synthetic = self._schedule.synthetic(self.progress)
            planned = self._batches.epoch(self.epoch, longest, self.synthetic)
            if not planned:
                raise CorpusError("no utterance is short enough to train on")
            for utterances in planned[self.position :]:
                started = time.monotonic()
                share = self.processes.share(utterances)
                batch = self._batches.tensors(share, f"{self._seed} {self.step} {self.processes.rank}")
                figures = self._learn(batch)
                self.step += 1
                self.position += 1
                note(
                    {
                        **figures,
                        "step": self.step,
                        "epoch": self.epoch,
                        "hours": self.audio_seconds / 3600,
                        "minutes": self.trained_seconds / 60,
                    }
                )
                # Everything that determines the schedule and the end must be the same for all processes.
                sums = torch.tensor([time.monotonic() - started, batch.seconds, float(stopped())], dtype=torch.float64)
                self.processes.add_up([sums])
                elapsed, seconds, stops = sums.tolist()
                self.trained_seconds += elapsed / self.processes.size
                self.audio_seconds += seconds
                if stops or self.progress >= 1 or self.trained_seconds >= end:
                    return
                if self.step == self._schedule.short_steps:
                    break
            self.epoch, self.position = self.epoch + 1, 0

    @torch.no_grad()
    def measure_features(self, number: int = 12) -> None:
        """Set the features' mean and deviation, or the usual loudness of samples, from the first batches."""
        energies, levels = [], []
        encoder = self.model.encoder
        for utterances in self._batches.epoch(0, EVERYTHING)[:number]:
            batch = self._batches.tensors(utterances, f"{self._seed} features")
            samples = self._augmentation.audio(batch.samples, self._generator())
            if isinstance(encoder, MoonshineEncoder):
                levels.append(encoder.stem.levels(samples))
            else:
                energies.append(self.model.features.energies(samples).flatten(0, 1))
        if isinstance(encoder, MoonshineEncoder):
            mean, square = torch.cat(levels).T
            encoder.stem.level.copy_(torch.stack((mean.mean(), square.log().mean().exp())))
        else:
            deviation, mean = torch.std_mean(torch.cat(energies), dim=0)
            self.model.features.mean.copy_(mean)
            self.model.features.deviation.copy_(deviation)
        self.average = {name: tensor.detach().clone() for name, tensor in self.model.state_dict().items()}

    def averaged(self) -> AcousticNetwork:
        """Return the model with the averaged weights, for evaluation and for the bundle."""
        model = AcousticNetwork(self.model.description)
        model.load_state_dict(self.average)
        return model.to(self.model.device).eval().requires_grad_(False)

    def save(self, path: Path) -> None:
        """Write a checkpoint. The former one stays until the new one is complete."""
        state = {
            "description": json.dumps(self.model.description.to_json()),
            "model": self.model.state_dict(),
            "average": self.average,
            "muon": self._muon.state_dict(),
            "adam": self._adam.state_dict(),
            **{name: getattr(self, name) for name in _COUNTERS},
        }
        partial = path.with_name(path.name + ".partial")
        torch.save(state, partial)
        partial.replace(path)

    def load(self, state: dict[str, Any]) -> None:
        """Continue from the content of a checkpoint."""
        self.model.load_state_dict(state["model"])
        self.average = {name: tensor.to(self.model.device) for name, tensor in state["average"].items()}
        self._muon.load_state_dict(state["muon"])
        self._adam.load_state_dict(state["adam"])
        for name in _COUNTERS:
            setattr(self, name, state.get(name, 0))  # older checkpoints have fewer of them

    def _learn(self, batch: Batch) -> dict[str, float]:
        shared, generator = self._generator(), self._generator(self.processes.rank)
        chunk = self._chunks[int(torch.randint(len(self._chunks), (), generator=shared))]
        left = self._lefts[int(torch.randint(len(self._lefts), (), generator=shared))] if chunk else None
        lesson: Lesson | None = None
        if self._schedule.is_usual(self.progress):
            self._augmentation.conditions = CONDITIONS["usual"]
        with torch.no_grad():
            if self._teacher:
                lesson = self._teacher.lesson(batch.samples, batch.lengths, chunk, left)
            samples = self._augmentation.audio(batch.samples, generator)
            if self._schedule.consistency:
                batch, samples = doubled(batch), samples.repeat(VIEWS, 1)
                lesson = lesson and lesson.repeated(VIEWS)
            inputs = self._inputs(samples, batch.lengths, generator)
        device = self.model.device.type
        with torch.autocast(device, self._precision, enabled=self._precision != torch.float32):
            emissions = self.model.encoder(inputs[0], batch.lengths, chunk, left, *inputs[1:])
        losses = self._losses(emissions, batch, self.step, lesson)
        loss = losses.total
        (loss / self.processes.size).backward()
        self.processes.add_up([weight.grad for weight in self.model.parameters() if weight.grad is not None])
        norm = nn.utils.clip_grad_norm_(self.model.parameters(), self._schedule.clip)
        rate = self._schedule.learning_rate(self.step, self.progress)
        if torch.isfinite(norm):
            for group in self._adam.param_groups:
                group["lr"] = rate * group.get("share", 1.0)
            self._adam.step()
            self._muon.step(rate * self._schedule.body_rate)
            self._follow()
        self.model.zero_grad(set_to_none=True)
        figures = {name: value.item() for name, value in (losses.losses | losses.figures).items()}
        return {"loss": loss.item(), **figures, "norm": norm.item(), "rate": rate, "chunk": chunk}

    def _inputs(self, samples: Tensor, lengths: Tensor, generator: torch.Generator) -> tuple[Tensor, ...]:
        """Return what the encoder reads, with masks: features, or samples and the frames that it must do without."""
        if self.model.reads_features:
            return (self._augmentation.mel(self.model.inputs(samples), lengths, generator),)
        samples = self._augmentation.without_bands(samples, generator)
        shape = self.model.description.encoder
        frames = samples.shape[1] // shape.frame_samples
        kept = self._augmentation.kept(lengths, frames, shape.frame_ms, generator)
        return self.model.inputs(samples), kept

    @torch.no_grad()
    def _follow(self) -> None:
        # New averages forget faster. Otherwise the first weights would stay in them for a long time.
        keep = min(self._schedule.average, (1 + self.step) / (10 + self.step))
        current = self.model.state_dict()
        torch._foreach_lerp_(list(self.average.values()), [current[name] for name in self.average], 1 - keep)

    def _generator(self, rank: int = 0) -> torch.Generator:
        return torch.Generator().manual_seed(hash((self._seed, self.step, rank)) % 2**31)


_COUNTERS = ("step", "epoch", "position", "synthetic", "trained_seconds", "audio_seconds")


# The optimiser Muon for matrices: each update is the momentum of a matrix, made orthogonal.

ITERATIONS = 5
COEFFICIENTS = (3.4445, -4.7750, 2.0315)


class Muon:
    """Updates a list of matrices. The updates are scaled so that a learning rate means the same as with AdamW."""

    def __init__(
        self,
        matrices: list[nn.Parameter],
        dtype: torch.dtype,
        momentum: float = 0.95,
        decay: float = 0.02,
        processes: ProcessGroup | None = None,
    ) -> None:
        self._processes = processes or ProcessGroup()
        self._dtype = dtype
        self._momentum = momentum
        self._decay = decay
        by_shape: dict[torch.Size, list[nn.Parameter]] = defaultdict(list)
        for matrix in matrices:
            by_shape[matrix.shape].append(matrix)
        self._stacks = list(by_shape.values())
        self._moments = [torch.zeros_like(torch.stack(list(stack))) for stack in self._stacks]

    @torch.no_grad()
    def step(self, rate: float) -> None:
        """Update every matrix from its gradient."""
        for stack, moment in zip(self._stacks, self._moments, strict=True):
            gradient = torch.stack([_gradient(matrix) for matrix in stack])
            moment.lerp_(gradient, 1 - self._momentum)
            update = self._orthogonal(gradient.lerp(moment, self._momentum).to(self._dtype)).float()
            scale = 0.2 * max(update.shape[-2:]) ** 0.5
            for matrix, change in zip(stack, update, strict=True):
                matrix.mul_(1 - rate * self._decay).add_(change, alpha=-rate * scale)

    def _orthogonal(self, matrices: Tensor) -> Tensor:
        # This takes a third of the time of a step with a small batch, so the processes share it.
        lengths = [len(part) for part in matrices.tensor_split(self._processes.size)]
        part = matrices.tensor_split(self._processes.size)[self._processes.rank]
        return self._processes.collect(orthogonal(part) if len(part) else part, lengths)

    def state_dict(self) -> dict[str, Any]:
        """Return the moments, for a checkpoint."""
        return {"moments": self._moments}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the moments from a checkpoint."""
        for moment, stored in zip(self._moments, state["moments"], strict=True):
            moment.copy_(stored)


def orthogonal(matrices: Tensor) -> Tensor:
    """Return roughly the nearest orthogonal matrices [number, rows, columns], by Newton and Schulz's iteration."""
    tall = matrices.shape[-2] > matrices.shape[-1]
    current = matrices.mT if tall else matrices
    current = current / current.float().norm(dim=(-2, -1), keepdim=True).clamp(min=1e-7).to(current.dtype)
    first, second, third = COEFFICIENTS
    for _ in range(ITERATIONS):
        square = current @ current.mT
        polynomial = second * square + third * square @ square
        current = first * current + polynomial @ current
    return current.mT if tall else current


def _gradient(matrix: nn.Parameter) -> Tensor:
    return matrix.grad if matrix.grad is not None else torch.zeros_like(matrix)


# The processes that train one model together. Each computes a share of every batch, and the results are added up.

# A member that waits longer than this for the others ends with an error. A run may be paused for hours; a member that
# has died is noticed at once, because its connection is closed.
PATIENCE = datetime.timedelta(days=1)

Item = TypeVar("Item")


class ProcessGroup:
    """One of the processes of a run, or the only one."""

    def __init__(self, rank: int = 0, size: int = 1, rendezvous: Path | None = None) -> None:
        """`rendezvous`: the path of a file that does not exist yet, the same for all members."""
        self.rank = rank
        self.size = size
        self._rendezvous = rendezvous

    def join(self) -> None:
        """Wait for the other members. Nothing can be shared before this."""
        if self.size > 1:
            rendezvous = f"file://{self._rendezvous}"
            distributed.init_process_group(
                "gloo", init_method=rendezvous, rank=self.rank, world_size=self.size, timeout=PATIENCE
            )

    def share(self, items: Sequence[Item]) -> list[Item]:
        """Return this member's part of a list, or the whole list if it is too short for all members."""
        return list(items[self.rank :: self.size] or items)

    def add_up(self, tensors: Sequence[Tensor]) -> None:
        """Replace every tensor by its sum over the members."""
        if self.size == 1:
            return
        flat = torch.cat([tensor.reshape(-1) for tensor in tensors])
        distributed.all_reduce(flat)
        for tensor, total in zip(tensors, flat.split([tensor.numel() for tensor in tensors]), strict=True):
            tensor.copy_(total.view_as(tensor))

    def collect(self, part: Tensor, lengths: Sequence[int]) -> Tensor:
        """Return the joined parts of all members. `lengths` are their first dimensions."""
        if self.size == 1:
            return part
        # They are sent as bytes, because not every data type can be sent.
        padded = part.new_zeros(max(lengths), *part.shape[1:])
        padded[: len(part)] = part
        parts = [torch.empty_like(padded) for _ in lengths]
        distributed.all_gather([block.view(torch.uint8) for block in parts], padded.view(torch.uint8))
        return torch.cat([block[:length] for block, length in zip(parts, lengths, strict=True)])

    def leave(self) -> None:
        """Leave the group."""
        if self.size > 1:
            distributed.destroy_process_group()
