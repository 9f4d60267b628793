"""The reader of Pittsburgh 250k and 30k: what can be wrong with a .mat file."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.io

from mappable.errors import BadInputError
from mappable.readers.registry import read_places

EAST, NORTH = 584_321.125, 4_476_543.75  # in the middle of Pittsburgh
UTM = np.array([[EAST, EAST + 1], [NORTH, NORTH + 2]])


def cells(*names: Any) -> np.ndarray[Any, Any]:
    """A MATLAB cell array, N x 1."""
    column = np.empty((len(names), 1), dtype=object)
    column[:, 0] = [f"000/{name:06d}_pitch1_yaw1.jpg" if isinstance(name, int) else name for name in names]
    return column


@pytest.mark.medium
@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"utmDb": None}, "no field utmDb; found: dbImageFns, qImageFns"),
        ({"utmDb": np.tile(UTM[:, :1], 3)}, "utmDb is 2x3, expected 2x2 numbers for 2 images"),
        ({"utmQ": UTM[:, :1].T}, "utmQ is 1x2, expected 2x1 numbers for 1 images"),
        ({"utmDb": UTM * [1, np.nan]}, "column 2 of utmDb is [nan, nan], expected a position in UTM"),
        ({"utmQ": UTM[::-1, :1]}, "column 1 of utmQ is [4476543.75, 584321.125], expected a position in UTM"),
        ({"dbImageFns": cells(0, 5.0)}, "element 2 of dbImageFns is not text"),
        ({"dbImageFns": cells(0, "")}, "element 2 of dbImageFns is not text"),
    ],
)
def test_a_mat_file_with_wrong_fields_is_refused_by_name(tmp_path: Path, changes: dict[str, Any], problem: str) -> None:
    fields = {"dbImageFns": cells(0, 1), "utmDb": UTM, "qImageFns": cells(2), "utmQ": UTM[:, :1]} | changes
    fields = {name: value for name, value in fields.items() if value is not None}
    scipy.io.savemat(tmp_path / "pitts30k_train.mat", {"dbStruct": fields})
    with pytest.raises(BadInputError) as caught:
        read_places("pittsburgh", tmp_path)
    assert str(caught.value).startswith(f"{tmp_path / 'pitts30k_train.mat'}: {problem}")
