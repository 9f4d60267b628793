"""The learner: an encoder that takes one optimiser step after another, on one device or on several at once."""

from collections.abc import Callable, Iterator
from dataclasses import fields

import numpy as np
import torch
from torch import Tensor, nn

from mappable.arrays import Ints
from mappable.features.embedding import Source, backbone_precision, describe, fetch
from mappable.features.encoder import Encoder
from mappable.learning.distributed import Group
from mappable.learning.losses import Loss, Terms
from mappable.learning.settings import Settings
from mappable.learning.tuples import Tuples

TERMS = tuple(term.name for term in fields(Terms))  # what `step` returns, in order


class Learner:
    """`source` holds the inputs of all rows: pixels, or the activations of the frozen layers (`trainable: conv5`).

    Every process of the `group` has one, with the same weights at any time.
    """

    def __init__(
        self, encoder: Encoder, source: Source, settings: Settings, device: torch.device, group: Group | None = None
    ) -> None:
        self.encoder, self.source, self.settings, self.device = encoder, source, settings, device
        self.group = group or Group()
        self.network: Callable[[Tensor], Tensor] = encoder if settings.trainable == "all" else encoder.upper
        self.parameters = self._choose_parameters()
        self.optimiser = _optimiser(self.parameters, settings, fused=device.type == "cuda")

    def _choose_parameters(self) -> list[nn.Parameter]:
        """Those that the descriptors depend on, asked of autograd: it knows which layers come after the frozen ones."""
        everything = list(self.encoder.parameters())
        with backbone_precision(self.device, self.settings.precision):
            descriptors = self.network(fetch(self.source, np.arange(1), self.device))
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
            self.network, self.source, own, device=self.device, batch_size=batch_size, precision=precision, title=title
        )
        return self.group.gather(part, len(rows))

    def step(self, loss: Loss, tuples: Tuples) -> Tensor:
        """One step down the mean loss of the valid tuples; returns TERMS (b, 7) of this process's share of them.

        Each process takes its share of the tuples, a micro-batch at a time. Every anchor has its weight in the mean of
        the whole batch, so that however it is divided the gradients are those of the batch at once.
        """
        weights = tuples.valid / tuples.valid.sum().clamp(min=1)
        self.optimiser.zero_grad(set_to_none=True)
        collected = []
        for part in self._micro_batches(len(weights)):
            rows = tuples.rows[part]
            with backbone_precision(self.device, self.settings.precision):
                descriptors = self.network(fetch(self.source, rows.flatten(), self.device))
            terms = loss(descriptors.view(*rows.shape, -1), tuples.squared_distances[part])
            with backbone_precision(self.device, self.settings.precision):
                torch.autograd.backward((terms.total * weights[part]).sum())
            collected.append(torch.stack([getattr(terms, name).detach() for name in TERMS], -1))
        self.group.add_up([parameter.grad for parameter in self.parameters if parameter.grad is not None])
        self.optimiser.step()
        return torch.cat(collected)

    def _micro_batches(self, count: int) -> Iterator[slice]:
        own, most = self.group.share(count), self.settings.micro_batch or count
        for start in range(own.start, own.stop, most):
            yield slice(start, min(start + most, own.stop))

    def state(self) -> dict[str, Tensor]:
        """All tensors that the next step depends on."""
        tensors = {f"encoder.{name}": tensor for name, tensor in self.encoder.state_dict().items()}
        for number, entries in self.optimiser.state_dict()["state"].items():
            tensors |= {f"optimiser.{number}.{name}": tensor for name, tensor in entries.items() if tensor is not None}
        return tensors

    def restore(self, tensors: dict[str, Tensor]) -> None:
        """Go back to what `state` returned."""
        states: dict[int, dict[str, Tensor]] = {}
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
                states.setdefault(int(number), {})[entry] = tensor
        self.encoder.load_state_dict(encoder)
        self.optimiser.load_state_dict(self.optimiser.state_dict() | {"state": states})


def _optimiser(parameters: list[nn.Parameter], settings: Settings, fused: bool) -> torch.optim.Optimizer:
    rate, decay = settings.learning_rate, settings.weight_decay
    if settings.optimizer == "sgd":
        return torch.optim.SGD(parameters, rate, momentum=settings.momentum, weight_decay=decay, fused=fused)
    return torch.optim.Adam(parameters, rate, weight_decay=decay, fused=fused)
