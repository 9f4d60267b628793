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


def test_each_process_has_a_gpu_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[int] = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "set_device", taken.append)
    monkeypatch.setenv("LOCAL_RANK", "1")
    assert [find_device(name) for name in ("auto", "cuda", "cuda:0", "cpu")] == [
        torch.device("cuda", 1),
        torch.device("cuda", 1),
        torch.device("cuda", 0),
        torch.device("cpu"),
    ]
    assert taken == [1, 1, 0]
    with pytest.raises(BadInputError, match=r"cuda:2.*2"):
        find_device("cuda:2")
