"""The learner: its steps are those of the mean loss, however the batch is divided, and its state can be restored."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from mappable.arrays import Pixels
from mappable.features.activations import frozen_activations
from mappable.features.encoder import Encoder
from mappable.features.inputs import HostInputs, Inputs
from mappable.learning.changes import draw_changes
from mappable.learning.distributed import Group
from mappable.learning.learner import Learner
from mappable.learning.losses import Loss
from mappable.learning.settings import Settings
from mappable.learning.tuples import Sampler, Tuples
from mappable.places.pixels import ImageRows
from mappable.places.table import Places

Toy = tuple[Places, Pixels]
NewSettings = Callable[..., Settings]
CPU = torch.device("cpu")


@pytest.fixture
def new_learner(toy: Toy, settings: NewSettings) -> Callable[..., Learner]:
    """A learner that has all images of the toy world for rows, and the same first weights each
    time.
    """

    def build(**changes: object) -> Learner:
        plain = {"learning_rate": 0.1, "anchors": 5}
        chosen = settings(**plain | changes)
        encoder = Encoder.create(weights="random", size=(64, 48), clusters=4, backbone="small")
        encoder.initialize(toy[1][:8])
        rows = ImageRows(toy[1], np.arange(60))
        inputs: Inputs = HostInputs(rows)
        if chosen.trainable == "last":
            inputs = frozen_activations(encoder, rows, device=CPU, precision="float32", folder=None)
        return Learner(encoder, inputs, chosen, CPU)

    return build


@pytest.fixture
def loss() -> Loss:
    numbers = {"positives": 2, "negatives": 4, "hard_negatives": 0}
    return Loss("quadruplet+huber", feature_scale_squared=1.5, positive_radius=5.0, **numbers)


@pytest.fixture
def tuples(toy: Toy, loss: Loss) -> Tuples:
    """Five tuples; the second is not valid for training."""
    sampler = Sampler(
        toy[0].where(split="train"), positive_radius=5.0, negative_radius=12.0, negatives=4
    )
    drawn = sampler.draw(sampler.anchors(0, 1, 5), loss.layout, period=0)
    return replace(drawn, valid=torch.tensor([True, False, True, True, True]))


def step(learner: Learner, loss: Loss, tuples: Tuples, iteration: int = 1) -> Tensor:
    (batch,) = learner.batches([tuples])
    return learner.step(loss, batch, iteration)


def gradients(learner: Learner) -> dict[str, Tensor]:
    return {
        name: parameter.grad
        for name, parameter in learner.encoder.named_parameters()
        if parameter.grad is not None
    }


@pytest.mark.usefixtures("sgd")
def test_a_step_follows_the_mean_loss_of_the_valid_tuples(
    new_learner: Callable[..., Learner], loss: Loss, tuples: Tuples
) -> None:
    """Against one tuple after another, each through the network by itself."""
    learner, other = new_learner(), new_learner().encoder
    before = {
        name: parameter.detach().clone() for name, parameter in learner.encoder.named_parameters()
    }
    reported = step(learner, loss, tuples)
    total = torch.zeros(())
    for number in (0, 2, 3, 4):
        descriptors = other(learner.inputs.fetch(tuples.rows[number].numpy(), CPU))
        total = total + loss(descriptors[None], tuples.squared_distances[[number]]).total.sum() / 4
    total.backward()
    assert float(reported[[0, 2, 3, 4], 0].mean()) == pytest.approx(float(total.detach()), rel=1e-5)
    found, expected = gradients(learner), dict(other.named_parameters())
    assert found.keys() == expected.keys()
    for name, parameter in learner.encoder.named_parameters():
        gradient = expected[name].grad
        assert gradient is not None
        torch.testing.assert_close(
            found[name], gradient, rtol=1e-4, atol=1e-5 * float(gradient.abs().max())
        )
        torch.testing.assert_close(parameter.detach(), before[name] - 0.1 * found[name])


@pytest.mark.parametrize("trainable", ["all", "last"])
def test_batches_hold_the_inputs_of_their_tuples_and_the_weights_of_the_mean(
    trainable: str, new_learner: Callable[..., Learner], tuples: Tuples
) -> None:
    learner = new_learner(trainable=trainable)
    backwards = replace(tuples, rows=tuples.rows.flip(0), valid=torch.tensor([False] * 4 + [True]))
    found = list(learner.batches([tuples, backwards, tuples]))
    quarters = [0.25, 0.0, 0.25, 0.25, 0.25]
    assert [batch.weights.tolist() for batch in found] == [
        quarters,
        [0.0, 0.0, 0.0, 0.0, 1.0],
        quarters,
    ]
    for batch, expected in zip(found, (tuples, backwards, tuples), strict=True):
        assert batch.inputs.equal(learner.inputs.fetch(np.arange(60), CPU)[expected.rows])
        assert batch.squared_distances.equal(expected.squared_distances)
    assert list(learner.batches([])) == []


def test_the_processes_of_a_group_share_a_batch(
    new_learner: Callable[..., Learner], tuples: Tuples
) -> None:
    learner = new_learner(mirrored=0.5, light=0.2, negatives=4)
    changes = draw_changes(learner.settings, 0, *tuples.rows.shape, device=CPU)
    assert changes is not None
    (whole,) = learner.batches([tuples], [changes])
    shares = []
    for rank in range(2):
        learner.group = Group(rank, 2)
        shares += list(learner.batches([tuples], [changes]))
    assert [len(share.inputs) for share in shares] == [2, 3]
    for name in ("inputs", "squared_distances", "weights"):
        assert torch.cat([getattr(share, name) for share in shares]).equal(getattr(whole, name))


@pytest.mark.parametrize("trainable", ["all", "last"])
def test_averaged_weights_are_those_after_the_steps_each_counting_as_told(
    trainable: str, new_learner: Callable[..., Learner], loss: Loss, tuples: Tuples
) -> None:
    learner = new_learner(averaging=0.6, trainable=trainable)
    after = []
    for iteration in range(1, 6):
        step(learner, loss, tuples, iteration)
        after.append([parameter.detach().double() for parameter in learner.parameters])
    learner.finish()
    # 0.6 times the next, from the last one's 1 - 0.6 down to the first two.
    counting = (0.108, 0.108, 0.144, 0.24, 0.4)
    for number, parameter in enumerate(learner.parameters):
        expected = sum(
            share * weights[number] for share, weights in zip(counting, after, strict=True)
        )
        torch.testing.assert_close(parameter.detach().double(), expected, rtol=1e-5, atol=1e-7)
        assert not torch.allclose(
            parameter.detach().double(), after[-1][number], rtol=1e-5, atol=1e-7
        )


def test_a_restored_learner_takes_the_same_steps(
    new_learner: Callable[..., Learner], loss: Loss, tuples: Tuples
) -> None:
    learner, other = (new_learner(averaging=0.9) for _ in range(2))
    step(learner, loss, tuples)
    state = {
        name: tensor.clone(memory_format=torch.contiguous_format)
        for name, tensor in learner.state().items()
    }
    step(learner, loss, tuples)
    # As a checkpoint has it; each tensor lies like the parameter that it belongs to.
    other.restore(state)
    for parameter, entries in other.optimizer.state.items():
        laid_out = [
            entry.stride() for entry in entries.values() if entry is not None and entry.ndim
        ]
        assert laid_out == [parameter.stride()] * 2
    step(other, loss, tuples)
    found, expected = other.state(), learner.state()
    assert found.keys() == expected.keys()
    assert all(found[name].equal(expected[name]) for name in expected)
    assert [one.stride() for one in other.average] == [one.stride() for one in other.parameters]
    assert sum(name.startswith("optimiser.") for name in expected) == 18


# What keeps the knowledge of the weights


def test_distillation_adds_the_change_of_distances_between_distant_images(
    new_learner: Callable[..., Learner], loss: Loss, tuples: Tuples
) -> None:
    """At the start nothing has changed; after other weights the term is the mean squared change of
    all pairs.
    """
    learner, plain = (
        new_learner(distillation=3.0, learning_rate=1e-9),
        new_learner(learning_rate=1e-9),
    )
    learner.remember_start(60)
    torch.testing.assert_close(
        step(learner, loss, tuples), step(plain, loss, tuples), atol=1e-4, rtol=1e-4
    )
    with torch.no_grad():
        for one in (learner, plain):
            for parameter in one.parameters:
                parameter.mul_(1.1)
    known = learner.known
    assert known is not None
    more = step(learner, loss, tuples)[:, 0] - step(plain, loss, tuples)[:, 0]
    now = plain.describe(np.arange(60))
    for number, rows in enumerate(tuples.rows):
        distant = [int(rows[0]), *map(int, rows[3:])]
        changes = []
        for at, first in enumerate(distant):
            for second in distant[at + 1 :]:
                before = float((known[first].float() - known[second].float()).square().sum())
                changes.append((float((now[first] - now[second]).square().sum()) - before) ** 2)
        assert float(more[number]) == pytest.approx(3.0 * np.mean(changes), rel=0.02, abs=1e-5)
