"""Results on disk: a save that is killed leaves the old result or the new one."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from mappable.evaluation import result as module
from mappable.evaluation.result import ARRAYS, NEXT_ARRAYS, RESULT, Result


class Killed(BaseException):
    """Nothing in the code under test catches it."""


def kill_before(name: str) -> Callable[..., None]:
    replaced = Path.replace

    def stop(self: Path, target: Path) -> Path:
        if Path(target).name == name:
            raise Killed
        return replaced(self, target)

    return stop


@pytest.mark.parametrize(("name", "title"), [(NEXT_ARRAYS, "old"), (RESULT, "old"), (ARRAYS, "new")])
def test_a_killed_save_leaves_the_old_or_the_new_result(
    results: list[Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, title: str
) -> None:
    old, new = replace(results[0], title="old"), replace(results[1], title="new")
    old.save(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(module.Path, "replace", kill_before(name))
        with pytest.raises(Killed):
            new.save(tmp_path)
    assert Result.load(tmp_path).title == title
    new.save(tmp_path)
    assert Result.load(tmp_path).title == "new"
    assert sorted(file.name for file in tmp_path.iterdir()) == [ARRAYS, RESULT]
