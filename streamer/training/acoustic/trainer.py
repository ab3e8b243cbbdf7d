"""One training run: model, optimisers, averaged weights, and a checkpoint from which the run can be continued."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from streamer.engine.models.acoustic_model import AcousticModel
from streamer.engine.models.features import CONTEXT
from streamer.training.acoustic.batches import Batch, Batches
from streamer.training.acoustic.consistency import VIEWS, doubled
from streamer.training.acoustic.head_losses import HeadLosses
from streamer.training.acoustic.muon import Muon
from streamer.training.acoustic.process_group import ProcessGroup
from streamer.training.acoustic.schedule import Schedule
from streamer.training.augmentation.augmentation import Augmentation
from streamer.training.augmentation.conditions import CONDITIONS
from streamer.training.data.corpus import CorpusError
from streamer.training.teaching.teacher import Lesson, Teacher

CHUNKS = (4, 8, 8, 16, 16, 0)
LEFTS = (40, 64, 64, 96)
EVERYTHING = 1e9


class Trainer:
    """Trains an acoustic model until its planned time is over, in any number of pieces."""

    def __init__(
        self,
        model: AcousticModel,
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
        matrices = [weight for weight in model.encoder.blocks.parameters() if weight.ndim == 2]
        chosen = {id(weight) for weight in matrices}
        rest = [weight for weight in model.parameters() if id(weight) not in chosen]
        self._muon = Muon(matrices, precision, processes=self.processes)
        self._adam = torch.optim.AdamW(rest, lr=schedule.rate, betas=(0.9, 0.98), weight_decay=0.01)
        self.step = 0
        self.epoch = 0
        self.position = 0
        self.synthetic = 0.0  # the share in this epoch
        self.trained_seconds = 0.0
        self.audio_seconds = 0.0

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
        """Set the features' mean and deviation from the first batches."""
        energies = []
        for utterances in self._batches.epoch(0, EVERYTHING)[:number]:
            batch = self._batches.tensors(utterances, f"{self._seed} features")
            samples = self._augmentation.audio(batch.samples, self._generator())
            energies.append(self.model.features.energies(samples).flatten(0, 1))
        deviation, mean = torch.std_mean(torch.cat(energies), dim=0)
        self.model.features.mean.copy_(mean)
        self.model.features.deviation.copy_(deviation)
        self.average = {name: tensor.detach().clone() for name, tensor in self.model.state_dict().items()}

    def averaged(self) -> AcousticModel:
        """Return the model with the averaged weights, for evaluation and for the bundle."""
        model = AcousticModel(self.model.description)
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
        chunk = CHUNKS[int(torch.randint(len(CHUNKS), (), generator=shared))]
        left = LEFTS[int(torch.randint(len(LEFTS), (), generator=shared))] if chunk else None
        lesson: Lesson | None = None
        if self._schedule.is_usual(self.progress):
            self._augmentation.conditions = CONDITIONS["usual"]
        with torch.no_grad():
            if self._teacher:
                lesson = self._teacher.lesson(batch.samples, batch.lengths, chunk, left)
            samples = self._augmentation.audio(batch.samples, generator)
            mel = self.model.features(functional.pad(samples, (CONTEXT, 0)))
            if self._schedule.consistency:
                batch, mel = doubled(batch), mel.repeat(VIEWS, 1, 1)
                lesson = lesson and lesson.repeated(VIEWS)
            mel = self._augmentation.mel(mel, batch.lengths, generator)
        device = self.model.device.type
        with torch.autocast(device, self._precision, enabled=self._precision != torch.float32):
            emissions = self.model.encoder(mel, batch.lengths, chunk, left)
        losses = self._losses(emissions, batch, self.step, lesson)
        loss = losses.total
        (loss / self.processes.size).backward()
        self.processes.add_up([weight.grad for weight in self.model.parameters() if weight.grad is not None])
        norm = nn.utils.clip_grad_norm_(self.model.parameters(), self._schedule.clip)
        rate = self._schedule.learning_rate(self.step, self.progress)
        if torch.isfinite(norm):
            for group in self._adam.param_groups:
                group["lr"] = rate
            self._adam.step()
            self._muon.step(rate)
            self._follow()
        self.model.zero_grad(set_to_none=True)
        figures = {name: value.item() for name, value in (losses.losses | losses.figures).items()}
        return {"loss": loss.item(), **figures, "norm": norm.item(), "rate": rate, "chunk": chunk}

    @torch.no_grad()
    def _follow(self) -> None:
        # New averages forget faster. Otherwise the first weights would stay in them for a long time.
        keep = min(self._schedule.average, (1 + self.step) / (10 + self.step))
        current = self.model.state_dict()
        torch._foreach_lerp_(list(self.average.values()), [current[name] for name in self.average], 1 - keep)

    def _generator(self, rank: int = 0) -> torch.Generator:
        return torch.Generator().manual_seed(hash((self._seed, self.step, rank)) % 2**31)


_COUNTERS = ("step", "epoch", "position", "synthetic", "trained_seconds", "audio_seconds")
