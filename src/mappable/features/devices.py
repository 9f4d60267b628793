"""Find the device, CPU or GPU, on which networks compute."""

import os
import re

import torch

from mappable.errors import BadInputError


def find_device(name: str) -> torch.device:
    """Find the device `auto`, `cpu`, `cuda` or `cuda:1`. Under torchrun, each process gets its own
    GPU.
    """
    if not re.fullmatch(r"auto|cpu|cuda(:\d+)?", name):
        raise BadInputError(f"device is {name!r}, expected auto, cpu, cuda or cuda:N")
    available = torch.cuda.is_available()
    if name.startswith("cuda") and not available:
        raise BadInputError(
            f"device is {name!r}, but PyTorch finds no such device; use auto or cpu"
        )
    if name == "cpu" or not available:
        return torch.device("cpu")
    number = int(os.environ.get("LOCAL_RANK", "0")) if ":" not in name else int(name.split(":")[1])
    if number >= torch.cuda.device_count():
        raise BadInputError(
            f"device is cuda:{number}, but PyTorch finds {torch.cuda.device_count()} GPUs"
        )
    torch.cuda.set_device(number)
    return torch.device("cuda", number)
