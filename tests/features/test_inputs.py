"""Inputs of networks: the same whatever holds them, read ahead on the host, only indexed on a GPU."""

import time

import numpy as np
import torch
from torch import Tensor

from mappable.arrays import Ints, Pixels
from mappable.errors import BadInputError
from mappable.features.inputs import BATCHES_AHEAD, DeviceInputs, HostInputs, Inputs, tensor_inputs
from mappable.places.pixels import ImageRows


def every_kind(pictures: Pixels) -> list[Inputs]:
    tensor = torch.from_numpy(pictures)
    return [
        HostInputs(ImageRows(pictures, np.arange(10))),
        tensor_inputs(tensor),
        DeviceInputs(tensor),
    ]


def test_rows_are_fetched_from_whatever_holds_them(pictures: Pixels) -> None:
    rows = np.array([3, 1])
    for inputs in every_kind(pictures):
        assert len(inputs) == 10
        np.testing.assert_array_equal(inputs.fetch(rows, "cpu").numpy(), pictures[rows])


PORTIONS = [
    np.array(rows, dtype=np.int64) for rows in ([7, 2, 2], [9], [], [0, 1, 2, 3, 4], [5], [6], [8])
]


class Watched:
    """A source that knows what was read from it, and can be told to fail at a row."""

    def __init__(self, bad: int | None = None) -> None:
        self.asked: list[list[int]] = []
        self.bad = bad

    def __len__(self) -> int:
        return 10

    def read(self, rows: Ints) -> Tensor:
        self.asked.append(rows.tolist())
        if self.bad in rows:
            raise BadInputError(f"row {self.bad} is bad")
        return torch.from_numpy(10 * rows[:, None])


def test_batches_are_those_of_the_portions_in_their_order(pictures: Pixels) -> None:
    for inputs in every_kind(pictures):
        found = list(inputs.batches(PORTIONS, torch.device("cpu")))
        assert len(found) == len(PORTIONS)
        for batch, rows in zip(found, PORTIONS, strict=True):
            np.testing.assert_array_equal(batch.numpy(), pictures[rows])
        assert list(inputs.batches([], torch.device("cpu"))) == []


def test_no_more_is_read_ahead_than_said() -> None:
    source = Watched()
    reading = HostInputs(source).batches(PORTIONS, torch.device("cpu"))
    assert source.asked == []  # before the first is asked for
    for taken, rows in enumerate(PORTIONS, 1):
        assert next(reading)[:, 0].tolist() == [10 * row for row in rows]
        expected = min(taken + BATCHES_AHEAD - 1, len(PORTIONS))
        deadline = time.monotonic() + 10
        while len(source.asked) < expected and time.monotonic() < deadline:
            time.sleep(0.001)
        time.sleep(0.005)  # in which it might read more
        assert source.asked == [rows.tolist() for rows in PORTIONS[:expected]]
