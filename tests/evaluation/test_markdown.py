"""The report as Markdown: tables, and names whose special characters are escaped."""

from mappable.evaluation.markdown import markdown_of, table_markdown
from mappable.evaluation.protocol import Section
from mappable.evaluation.summary import MeanStd
from mappable.evaluation.tables import Column, table


def test_a_table() -> None:
    shown = table(
        "accuracy",
        Column("Model", ["a|b_c", "other", "bound"]),
        Column("Note", ["first", "", ""]),
        Column("Found", [MeanStd(70.0, 1.25), MeanStd(80.04, None), 99.0], group="Within 10 m, %"),
        best=[70.0, 80.0, 99.0],
        references=1,
    )
    assert table_markdown(shown).splitlines() == [
        "| Model | Note | Within 10 m, %: Found |",
        "| :-- | :-- | --: |",
        r"| a\|b\_c | first | 70.0 ± 1.2 |",
        "| **other** |  | **80.0** |",
        "| *bound* |  | *99.0* |",
    ]


def test_a_page() -> None:
    empty = table("none", Column("Model", ["a"]), Column("Found", [1.0]), caption="A caption")
    section = Section("one", "A <title>", ["First."], [empty], ("shown", "missing"), ["Last."], ["make it"])
    page = markdown_of("street", ["So it is.", ""], [section], {"shown": ("figures/shown.png", "What is shown")})
    assert page.split("\n\n") == [
        "# street",
        "So it is.",
        r"## A \<title\>",
        "First.",
        "**A caption**",
        "| Model | Found |\n| :-- | --: |\n| a | 1.0 |",
        "![What is shown](figures/shown.png)",
        "Last.",
        "```sh\nmake it\n```\n",
    ]
