"""Tests on a GPU compile networks, and PyTorch's compiler warns about its own parts."""

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.parent.name == "gpu":
            item.add_marker(pytest.mark.filterwarnings("ignore::UserWarning:torch"))
            item.add_marker(pytest.mark.filterwarnings("ignore::DeprecationWarning:torch"))
