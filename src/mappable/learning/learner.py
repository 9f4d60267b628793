"""The learner: takes training steps with an encoder and its optimizer, on one device or several."""

from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import dataclass, fields, replace
from functools import cached_property

import numpy as np
import torch
from torch import Tensor, nn

from mappable.arrays import Ints
from mappable.features.embedding import backbone_precision, describe
from mappable.features.encoder import Encoder
from mappable.features.inputs import Inputs
from mappable.features.recording import Recording, record
from mappable.learning.changes import Changes
from mappable.learning.distributed import Group
from mappable.learning.losses import Loss, Terms
from mappable.learning.losses.terms import squared_distance
from mappable.learning.settings import Settings
from mappable.learning.tuples import Tuples

# Names of the values that `step` returns, in order.
TERMS = tuple(term.name for term in fields(Terms))


@dataclass(frozen=True)
class Batch:
    """Data of one step on the device: this process's share of a batch of tuples."""

    inputs: Tensor  # (b, images, ...), inputs of the network
    # (b, positives), squared distances in the world between anchor and positives.
    squared_distances: Tensor
    # (b,), weight of each anchor in the mean over the valid tuples of the whole batch.
    weights: Tensor
    # (b, n, n), squared feature distances before training, for distillation; else (b, 0, 0)
    known: Tensor


@dataclass(frozen=True)
class _Recorded:
    """A recorded computation on a GPU, from a batch to gradients."""

    batch: Batch  # input buffers of the recording
    recording: Recording[Tensor]  # its results are the loss terms (`TERMS`)

    def __call__(self, batch: Batch) -> Tensor:
        for field in fields(Batch):
            getattr(self.batch, field.name).copy_(getattr(batch, field.name))
        self.recording()
        return self.recording.result.clone()


class Learner:
    """Trains an encoder step by step.

    `inputs` has the network's inputs of all rows: pixels, or activations of the frozen layers
    (`trainable: last`). Every process of the `group` has its own learner. All of them have the same
    weights at any time.
    """

    def __init__(
        self,
        encoder: Encoder,
        inputs: Inputs,
        settings: Settings,
        device: torch.device,
        group: Group | None = None,
    ) -> None:
        self.encoder, self.inputs, self.settings, self.device = encoder, inputs, settings, device
        self.group = group or Group()
        self.network: Callable[[Tensor], Tensor] = (
            encoder if settings.trainable == "all" else encoder.upper
        )
        self.parameters = self._choose_parameters()
        on_gpu = device.type == "cuda"
        # Python would take longer than the work that it starts.
        self.records = on_gpu and encoder.backbone.recordable
        # Moving average of the parameters after the first step, if it is turned on.
        self.average: list[Tensor] = []
        self.start: list[Tensor] = []  # parameters before training, for distillation
        # Descriptors of all training images before training, for distillation.
        self.known: Tensor | None = None
        self._recorded: dict[tuple[Loss, int], _Recorded] = {}

    @cached_property
    def optimizer(self) -> torch.optim.Adam:
        """Made for the first step or checkpoint, because PyTorch then loads its compiler, which
        takes seconds.
        """
        return torch.optim.Adam(
            self.parameters, self.settings.learning_rate, fused=self.device.type == "cuda"
        )

    def _choose_parameters(self) -> list[nn.Parameter]:
        """Select the parameters to train: those on which the descriptors depend.

        Autograd finds them, because it knows which layers come after the frozen ones.
        """
        all_parameters = list(self.encoder.parameters())
        with backbone_precision(self.device, self.settings.precision):
            descriptors = self.network(self.inputs.fetch(np.arange(1), self.device))
        gradients = torch.autograd.grad(descriptors.sum(), all_parameters, allow_unused=True)
        for parameter, gradient in zip(all_parameters, gradients, strict=True):
            parameter.requires_grad_(gradient is not None)
        return [parameter for parameter in all_parameters if parameter.requires_grad]

    @property
    def feature_scale_squared(self) -> float:
        """F², which `start_learner` sets or measures."""
        scale = self.encoder.about.feature_scale_squared
        if scale is None:
            raise ValueError("the feature scale is not known yet")
        return scale

    @torch.no_grad()
    def remember_start(self, rows: int) -> None:
        """For distillation, keep the weights before training, and the descriptors of the first
        `rows` inputs.

        Also call this after `restore`: the descriptors are then computed with the restored weights
        of the start.
        """
        if not self.settings.distillation:
            return
        current = [parameter.detach().clone() for parameter in self.parameters]
        self.start = self.start or current
        for parameter, start in zip(self.parameters, self.start, strict=True):
            parameter.copy_(start)
        self.known = self.describe(np.arange(rows), "descriptors before training").half()
        for parameter, value in zip(self.parameters, current, strict=True):
            parameter.copy_(value)

    def describe(self, rows: Ints, title: str | None = None) -> Tensor:
        """Descriptors (k, D) of rows with the current weights. Processes share the work, and each
        gets all of them.
        """
        part = describe(
            self.network,
            self.inputs,
            rows[self.group.share(len(rows))],
            device=self.device,
            precision=self.settings.precision,
            title=title,
        )
        return self.group.gather(part, len(rows))

    def batches(
        self, tuples: Sequence[Tuples], changes: Sequence[Changes] | None = None
    ) -> Generator[Batch, None, None]:
        """Yield the data of one step per batch of tuples. Images are read ahead until the generator
        is closed.

        All batches must have the same number of tuples, in the host's memory. Their distances and
        weights go to the device in one transfer. `changes`, one per batch and on the device, are
        applied to the images.
        """
        if not tuples:
            return
        share = self.group.share(len(tuples[0].rows))
        rows = [batch.rows[share].flatten().numpy() for batch in tuples]
        squared_distances = torch.stack([batch.squared_distances[share] for batch in tuples]).to(
            self.device
        )
        valid = torch.stack([batch.valid for batch in tuples])
        weights = (valid / valid.sum(1, keepdim=True).clamp(min=1))[:, share].to(self.device)
        distant = torch.stack([batch.layout.distant(batch.rows[share]) for batch in tuples])
        known = map(
            self._known_distances, distant.to(self.device) if self.known is not None else distant
        )
        with closing(self.inputs.batches(rows, self.device)) as read:
            for number, (inputs, *others) in enumerate(
                zip(read, squared_distances, weights, known, strict=True)
            ):
                grouped = inputs.view(-1, tuples[0].layout.images, *inputs.shape[1:])
                yield Batch(changes[number][share](grouped) if changes else grouped, *others)

    def _known_distances(self, rows: Tensor) -> Tensor:
        """Squared feature distances before training between the images of rows (b, n), if they are
        needed.
        """
        if self.known is None:
            return torch.empty(len(rows), 0, 0, device=self.device)
        return _between(self.known[rows].float())

    def step(self, loss: Loss, batch: Batch, iteration: int = 1) -> Tensor:
        """Take one step on the mean loss of the valid tuples. Return the TERMS (b, 7) of this
        process's share.

        Each anchor has its weight in the mean of the whole batch. The gradients are therefore those
        of the whole batch, however processes share it. `iteration` counts from 1; the moving
        average of the weights depends on it.
        """
        # A recording needs the gradients at the same address.
        self.optimizer.zero_grad(set_to_none=not self.records)
        backward = self._backward_recorded if self.records else self._backward
        terms = backward(loss, batch)
        self.group.add_up(
            [parameter.grad for parameter in self.parameters if parameter.grad is not None]
        )
        self.optimizer.step()
        if self.settings.averaging:
            self._average(iteration)
        return terms

    def _average(self, iteration: int) -> None:
        """Update the moving average of the weights after a step. The first 1 / (1 - averaging)
        steps count equally.
        """
        if not self.average:
            self.average = [parameter.detach().clone() for parameter in self.parameters]
        for average, parameter in zip(self.average, self.parameters, strict=True):
            average.lerp_(parameter.detach(), max(1.0 / iteration, 1.0 - self.settings.averaging))

    @torch.no_grad()
    def finish(self) -> None:
        """Copy the averaged weights, if there are any, to the encoder. No steps can be taken
        afterwards.

        Recordings and gradients are freed. Recordings take many gigabytes and refer back to the
        learner: without this, they would stay until a garbage collection finds the cycle.
        """
        for average, parameter in zip(self.average, self.parameters, strict=False):
            parameter.copy_(average)
        self._recorded.clear()
        for parameter in self.parameters:
            parameter.grad = None

    def _backward(self, loss: Loss, batch: Batch) -> Tensor:
        """Add the gradients of the batch's tuples, and return their TERMS."""
        with backbone_precision(self.device, self.settings.precision):
            descriptors = self.network(batch.inputs.flatten(0, 1))
        descriptors = descriptors.view(*batch.inputs.shape[:2], -1)
        terms = loss(descriptors, batch.squared_distances)
        if count := batch.known.shape[1]:
            changes = (
                (_between(loss.layout.distant(descriptors)) - batch.known).square().sum(dim=(1, 2))
            )
            mean = changes / (count * (count - 1))  # over pairs of different images
            terms = replace(terms, total=terms.total + self.settings.distillation * mean)
        with backbone_precision(self.device, self.settings.precision):
            torch.autograd.backward((terms.total * batch.weights).sum())
        return torch.stack([getattr(terms, name).detach() for name in TERMS], -1)

    def _backward_recorded(self, loss: Loss, batch: Batch) -> Tensor:
        key = loss, len(batch.inputs)
        if key not in self._recorded:
            self._recorded[key] = self._record(loss, batch)
        return self._recorded[key](batch)

    def _record(self, loss: Loss, example: Batch) -> _Recorded:
        for parameter in self.parameters:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
        gradients = [parameter.grad for parameter in self.parameters if parameter.grad is not None]
        before = [gradient.clone() for gradient in gradients]
        buffers = Batch(*(getattr(example, field.name).clone() for field in fields(Batch)))
        recording = record(lambda: self._backward(loss, buffers), self.device)
        for gradient, value in zip(gradients, before, strict=True):
            gradient.copy_(value)  # undo what recording added
        return _Recorded(buffers, recording)

    def state(self) -> dict[str, Tensor]:
        """All tensors on which the next step depends, by their names in a checkpoint."""
        tensors = {f"encoder.{name}": tensor for name, tensor in self.encoder.state_dict().items()}
        for number, entries in self.optimizer.state_dict()["state"].items():
            tensors |= {
                f"optimiser.{number}.{name}": tensor
                for name, tensor in entries.items()
                if tensor is not None
            }
        kept = {"average": self.average, "start": self.start}
        for kind, parameters in kept.items():
            tensors |= {f"{kind}.{number}": tensor for number, tensor in enumerate(parameters)}
        return tensors

    def restore(self, tensors: dict[str, Tensor]) -> None:
        """Restore the tensors that `state` returned."""
        states: dict[int, dict[str, Tensor]] = {}
        kept: dict[str, dict[int, Tensor]] = {"average": {}, "start": {}}
        encoder = {}
        for name, tensor in tensors.items():
            kind, _, rest = name.partition(".")
            if kind == "encoder":
                encoder[rest] = tensor
            else:
                number, _, entry = rest.partition(".")
                parameter = self.parameters[int(number)].detach()
                # A fused optimizer needs the same memory layout.
                if tensor.shape == parameter.shape:
                    tensor = torch.empty_like(parameter).copy_(tensor)
                if kind in kept:
                    kept[kind][int(number)] = tensor
                else:
                    states.setdefault(int(number), {})[entry] = tensor
        self.average, self.start = (
            [by_number[number] for number in range(len(by_number))] for by_number in kept.values()
        )
        self.encoder.load_state_dict(encoder)
        self.optimizer.load_state_dict(self.optimizer.state_dict() | {"state": states})


def _between(descriptors: Tensor) -> Tensor:
    """Squared distances (B, n, n) between the n descriptors (B, n, D) of each tuple."""
    return squared_distance(descriptors[:, :, None], descriptors[:, None])
