"""The learner: an encoder and its optimizer, one step at a time, on one device or several."""

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, fields

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
from mappable.learning.settings import Settings
from mappable.learning.tuples import Tuples

TERMS = tuple(term.name for term in fields(Terms))  # what `step` returns, in order


@dataclass(frozen=True)
class Batch:
    """What a step is taken on: this process's share of a batch of tuples, on the device."""

    inputs: Tensor  # (b, images, ...), of the network
    squared_distances: Tensor  # (b, pairs), between anchor and positives in the world
    weights: Tensor  # (b,), of the anchors in the mean over the valid tuples of the whole batch

    def split(self, size: int) -> Iterator["Batch"]:
        """The same in parts of at most so many tuples."""
        parts = (torch.split(tensor, size) for tensor in (self.inputs, self.squared_distances, self.weights))
        return (Batch(*part) for part in zip(*parts, strict=True))


@dataclass(frozen=True)
class _Recorded:
    """The recorded way from a batch to gradients, on a GPU."""

    batch: Batch  # the place for it
    recording: Recording[Tensor]  # to TERMS

    def __call__(self, batch: Batch) -> Tensor:
        for field in fields(Batch):
            getattr(self.batch, field.name).copy_(getattr(batch, field.name))
        self.recording()
        return self.recording.result.clone()


class Learner:
    """`inputs` are those of all rows: pixels, or the activations of the frozen layers (`trainable: conv5`).

    Every process of the `group` has one, with the same weights at any time.
    """

    def __init__(
        self, encoder: Encoder, inputs: Inputs, settings: Settings, device: torch.device, group: Group | None = None
    ) -> None:
        self.encoder, self.inputs, self.settings, self.device = encoder, inputs, settings, device
        self.group = group or Group()
        self.network: Callable[[Tensor], Tensor] = encoder if settings.trainable == "all" else encoder.upper
        self.parameters = self._choose_parameters()
        self.records = device.type == "cuda"  # where Python would be slower than what it starts
        self.optimiser = _optimiser(self.parameters, settings, fused=self.records)
        self.average: list[Tensor] = []  # of the parameters, from the first step on, if wished
        self._recorded: dict[tuple[Loss, int], _Recorded] = {}

    def _choose_parameters(self) -> list[nn.Parameter]:
        """Those that the descriptors depend on, asked of autograd: it knows which layers come after the frozen ones."""
        everything = list(self.encoder.parameters())
        with backbone_precision(self.device, self.settings.precision):
            descriptors = self.network(self.inputs.fetch(np.arange(1), self.device))
        gradients = torch.autograd.grad(descriptors.sum(), everything, allow_unused=True)
        for parameter, gradient in zip(everything, gradients, strict=True):
            parameter.requires_grad_(gradient is not None)
        return [parameter for parameter in everything if parameter.requires_grad]

    @property
    def feature_scale_squared(self) -> float:
        """F², which is known as soon as the run has begun."""
        scale = self.encoder.about.feature_scale_squared
        if scale is None:
            raise ValueError("the feature scale is not known yet")
        return scale

    def describe(self, rows: Ints, title: str | None = None) -> Tensor:
        """Descriptors (k, D) of rows, as the encoder is now; processes share the work, and each gets all of them."""
        own = rows[self.group.share(len(rows))]
        batch_size, precision = self.settings.batch_size, self.settings.precision
        part = describe(
            self.network, self.inputs, own, device=self.device, batch_size=batch_size, precision=precision, title=title
        )
        return self.group.gather(part, len(rows))

    def batches(
        self, tuples: Sequence[Tuples], changes: Sequence[Changes] | None = None
    ) -> Generator[Batch, None, None]:
        """What the steps on these batches of tuples, all of one length, take; images are read ahead until it is closed.

        The tuples are in the host's memory, and what is to be known of them on the device is brought there at once.
        `changes`, one a batch and on the device, are made to their images.
        """
        if not tuples:
            return
        own = self.group.share(len(tuples[0].rows))
        rows = [batch.rows[own].flatten().numpy() for batch in tuples]
        squared_distances = torch.stack([batch.squared_distances[own] for batch in tuples]).to(self.device)
        valid = torch.stack([batch.valid for batch in tuples])
        weights = (valid / valid.sum(1, keepdim=True).clamp(min=1))[:, own].to(self.device)
        with closing(self.inputs.batches(rows, self.device)) as read:
            for number, (inputs, *others) in enumerate(zip(read, squared_distances, weights, strict=True)):
                grouped = inputs.view(-1, tuples[0].layout.images, *inputs.shape[1:])
                yield Batch(changes[number][own](grouped) if changes else grouped, *others)

    def step(self, loss: Loss, batch: Batch, iteration: int = 1) -> Tensor:
        """One step down the mean loss of the valid tuples; returns TERMS (b, 7) of this process's share of them.

        Each process takes its share of the tuples, a micro-batch at a time. Every anchor has its weight in the mean of
        the whole batch, so that however it is divided the gradients are those of the batch at once. It is that of the
        `iteration`, from 1 on, which averages of weights depend on.
        """
        self.optimiser.zero_grad(set_to_none=not self.records)  # recorded work finds them where they were
        at_once = self.settings.micro_batch or len(batch.inputs)
        backward = self._backward_recorded if self.records else self._backward
        terms = torch.cat([backward(loss, part) for part in batch.split(at_once)])
        self.group.add_up([parameter.grad for parameter in self.parameters if parameter.grad is not None])
        self.optimiser.step()
        if self.settings.averaging:
            self._average(iteration)
        return terms

    def _average(self, iteration: int) -> None:
        """Count the weights after a step in; at first all count the same, for the average has no past yet."""
        if not self.average:
            self.average = [parameter.detach().clone() for parameter in self.parameters]
        for average, parameter in zip(self.average, self.parameters, strict=True):
            average.lerp_(parameter.detach(), max(1.0 / iteration, 1.0 - self.settings.averaging))

    @torch.no_grad()
    def finish(self) -> None:
        """Let the encoder have the averaged weights, if there are any; after that no more steps can be taken.

        What only steps need goes: recorded work is many gigabytes, and knows of the learner, so that it would stay
        until somebody looks for such circles.
        """
        for average, parameter in zip(self.average, self.parameters, strict=False):
            parameter.copy_(average)
        self._recorded.clear()
        self.optimiser.zero_grad(set_to_none=True)

    def _backward(self, loss: Loss, batch: Batch) -> Tensor:
        """Add these tuples' part to the gradients; returns their TERMS."""
        with backbone_precision(self.device, self.settings.precision):
            descriptors = self.network(batch.inputs.flatten(0, 1))
        terms = loss(descriptors.view(*batch.inputs.shape[:2], -1), batch.squared_distances)
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
        own = Batch(*(getattr(example, field.name).clone() for field in fields(Batch)))
        recording = record(lambda: self._backward(loss, own), self.device)
        for gradient, value in zip(gradients, before, strict=True):
            gradient.copy_(value)  # recording added to it
        return _Recorded(own, recording)

    def state(self) -> dict[str, Tensor]:
        """All tensors that the next step depends on."""
        tensors = {f"encoder.{name}": tensor for name, tensor in self.encoder.state_dict().items()}
        for number, entries in self.optimiser.state_dict()["state"].items():
            tensors |= {f"optimiser.{number}.{name}": tensor for name, tensor in entries.items() if tensor is not None}
        return tensors | {f"average.{number}": average for number, average in enumerate(self.average)}

    def restore(self, tensors: dict[str, Tensor]) -> None:
        """Go back to what `state` returned."""
        states: dict[int, dict[str, Tensor]] = {}
        averages: dict[int, Tensor] = {}
        encoder = {}
        for name, tensor in tensors.items():
            kind, _, rest = name.partition(".")
            if kind == "encoder":
                encoder[rest] = tensor
            else:
                number, _, entry = rest.partition(".")
                parameter = self.parameters[int(number)].detach()
                if tensor.shape == parameter.shape:  # laid out alike, which a fused optimiser insists on
                    tensor = torch.empty_like(parameter).copy_(tensor)
                if kind == "average":
                    averages[int(number)] = tensor
                else:
                    states.setdefault(int(number), {})[entry] = tensor
        self.average = [averages[number] for number in range(len(averages))]
        self.encoder.load_state_dict(encoder)
        self.optimiser.load_state_dict(self.optimiser.state_dict() | {"state": states})


def _optimiser(parameters: list[nn.Parameter], settings: Settings, fused: bool) -> torch.optim.Optimizer:
    rate, decay = settings.learning_rate, settings.weight_decay
    if settings.optimizer == "sgd":
        return torch.optim.SGD(parameters, rate, momentum=settings.momentum, weight_decay=decay, fused=fused)
    return torch.optim.Adam(parameters, rate, weight_decay=decay, fused=fused)
