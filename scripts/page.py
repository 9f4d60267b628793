"""Write a page of the documentation from the report of a study.

    mappable reproduce street-v1 results/street-v1 --rows table1,ours --seeds 0,1,2 --device cuda
    python scripts/page.py results/street-v1 docs/results

writes docs/results/street-v1.md and, in a folder of that name, its figures. The page leaves out the examples
(they show images), the animations, and the table of all settings.
"""

import argparse
import re
import shutil
from pathlib import Path

from PIL import Image

LEFT_OUT = ("Examples", "Animations")
RUN = "\n## How it was run\n"
ALL_SETTINGS = re.compile(r"\n\*\*All settings\*\*\n.*?(?=\n## |\Z)", flags=re.DOTALL)
FIGURE_WIDTH = 1200  # pixels, at most


def main() -> None:
    """Write the page and its figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("study", type=Path, help="folder with report.md and figures")
    parser.add_argument("docs", type=Path, help="folder of the page")
    parser.add_argument("--note", help="a Markdown paragraph below the first lines, such as a caveat of the headline")
    parser.add_argument("--how", help="Markdown text at the beginning of the section 'How it was run'")
    given = parser.parse_args()
    first, *sections = (given.study / "report.md").read_text("utf-8").split("\n## ")
    kept = [section for section in sections if section.split("\n")[0] not in LEFT_OUT]
    text = ALL_SETTINGS.sub("", "\n## ".join([first, *kept])).replace(" All settings of all models are below.", "")
    name = first.split("\n")[0].removeprefix("# ")
    if given.note:
        text = text.replace(first, f"{first.rstrip()}\n\n{given.note}\n", 1)
    if given.how:
        text = text.replace(RUN, f"{RUN}\n{given.how}\n", 1)
    folder = given.docs / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for figure in re.findall(r"\]\(figures/(.+?)\)", text):
        shrink(given.study / "figures" / figure, folder / figure)
    (given.docs / f"{name}.md").write_text(text.replace("](figures/", f"]({name}/"), "utf-8")


def shrink(source: Path, target: Path) -> None:
    """Write a figure with fewer pixels and a palette that keeps the colors of thin lines."""
    with Image.open(source) as image:
        image.thumbnail((FIGURE_WIDTH, 10 * FIGURE_WIDTH), Image.Resampling.LANCZOS)
        plain = image.convert("RGB")
        few = plain.quantize(256, method=Image.Quantize.MAXCOVERAGE, kmeans=4, dither=Image.Dither.NONE)
        few.save(target, optimize=True)


if __name__ == "__main__":
    main()
