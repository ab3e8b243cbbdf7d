"""What a teacher says about a batch, and how far a model is from it."""

from __future__ import annotations

from pathlib import Path

import torch
from torch.nn import functional

from streamer.engine.models.acoustic_model import AcousticModel, ModelDescription
from streamer.training.teaching.teacher import Teacher, distance
from tests.training.acoustic.tiny_run import CPU, ENCODER, NAMES


def test_a_model_is_not_away_from_itself_and_a_gradient_leads_to_the_teacher() -> None:
    """The distance is zero for the teacher itself, and otherwise the divergence inside the utterances."""
    taught = torch.randn(2, 6, 5).log_softmax(-1)
    lengths = torch.tensor([6, 4])
    assert distance(taught, taught, lengths).abs() < 1e-5
    values = torch.randn(2, 6, 5, requires_grad=True)
    found = values.log_softmax(-1)
    wanted = functional.kl_div(found[0], taught[0], reduction="sum", log_target=True)
    wanted = wanted + functional.kl_div(found[1, :4], taught[1, :4], reduction="sum", log_target=True)
    apart = distance(taught, found, lengths)
    torch.testing.assert_close(apart, wanted)
    apart.backward()
    assert values.grad is not None
    assert not values.grad[1, 4:].any()
    nearer = (values.detach() - 0.1 * values.grad).log_softmax(-1)
    assert distance(taught, nearer, lengths) < apart


def test_a_teacher_hears_as_much_as_the_model_that_it_teaches(tmp_path: Path) -> None:
    """The teacher gives the results of its weights with the same chunks, and its weights do not learn."""
    torch.manual_seed(0)
    AcousticModel(ModelDescription("test", ENCODER, NAMES, (320,))).save(tmp_path)
    model = AcousticModel.load(tmp_path)
    audio, lengths = torch.randn(2, 20 * 640) / 10, torch.tensor([20, 15])
    lesson = Teacher(tmp_path, 0.5, CPU).lesson(audio, lengths, 4, 8)
    assert lesson.weight == 0.5
    assert not lesson.emissions.requires_grad
    torch.testing.assert_close(lesson.emissions, model(audio, lengths, 4, 8)["phones"], atol=0.2, rtol=0.02)
    assert lesson.repeated(2).emissions.shape == (4, 20, len(NAMES["phones"]))


def test_a_teacher_that_learns_itself_says_what_it_knows_by_now(tmp_path: Path) -> None:
    """The teacher reads its weights again when their run has written new ones."""
    torch.manual_seed(0)
    description = ModelDescription("test", ENCODER, NAMES, (320,))
    AcousticModel(description).save(tmp_path)
    teacher = Teacher(tmp_path, 0.5, CPU)
    audio, lengths = torch.randn(1, 20 * 640) / 10, torch.tensor([20])
    before = teacher.lesson(audio, lengths, 4, 8).emissions
    torch.testing.assert_close(teacher.lesson(audio, lengths, 4, 8).emissions, before)
    AcousticModel(description).save(tmp_path)
    after = teacher.lesson(audio, lengths, 4, 8).emissions
    assert (after - before).abs().max() > 0.01
    torch.testing.assert_close(after, Teacher(tmp_path, 0.5, CPU).lesson(audio, lengths, 4, 8).emissions)
