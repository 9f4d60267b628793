"""The figure of examples."""

import numpy as np
from matplotlib.colors import to_hex

from mappable.evaluation.protocol import Images, View
from mappable.evaluation.protocols.qualitative import Examples, draw
from mappable.evaluation.result import Result
from mappable.evaluation.setup import Setup
from mappable.evaluation.style import small
from mappable.plotting import GREEN, VERMILION


def test_every_image_is_the_right_one_and_judged(results: list[Result], setup: Setup, images: Images) -> None:
    figure = draw(View(results, setup, images))
    panels = np.array(figure.axes).reshape(6, 5)
    assert [axes.get_title() for axes in panels[0]][:3] == ["query", "nearest landmark", "Off-the-shelf"]
    right = {True: 0, False: 0}
    for column, result in enumerate((results[0], *results[2:]), 2):
        found = result.get(Examples)
        assert found is not None
        for line, example in zip(panels, found.examples, strict=True):
            rows = [example.query, example.nearest, example.retrieved]
            assert [axes.images[0].get_array()[0, 0, 0] for axes in (*line[:2], line[column])] == rows
            within = example.error <= 10.0
            right[within] += 1
            assert line[column].get_xlabel() == f"{'✓' if within else '✗'} {example.error:.1f} m"
            color = to_hex(line[column].spines["left"].get_edgecolor())
            assert color.upper() == (GREEN if within else VERMILION).upper()
            assert line[0].get_ylabel() == example.condition
    assert min(right.values()) > 0


def test_images_are_brought_to_one_width() -> None:
    assert small(np.zeros((300, 400, 3), dtype=np.uint8)).shape == (150, 200, 3)
