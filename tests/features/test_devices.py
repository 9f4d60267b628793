"""Devices: one is found by its name, and each process has a GPU of its own."""

import pytest
import torch

from mappable.errors import BadInputError
from mappable.features.devices import find_device


def test_a_device_is_found_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert find_device("auto") == find_device("cpu") == torch.device("cpu")
    with pytest.raises(BadInputError, match=r"'cuda'.*PyTorch.*device"):
        find_device("cuda")
    for name in ("gpu", "cuda:x", "cudas", ""):
        with pytest.raises(BadInputError, match=r"auto.*cpu.*cuda"):
            find_device(name)
